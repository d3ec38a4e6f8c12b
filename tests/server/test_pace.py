"""When learning may go on."""

from __future__ import annotations

import threading

import pytest

from secl.server.pace import MOST_CREDIT, GivenUpError, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def learner(pace: Pace) -> tuple[threading.Thread, list[str]]:
    """A learner that calls `wait` once and says how that ended."""
    ended: list[str] = []

    def once() -> None:
        try:
            pace.wait()
            ended.append("went on")
        except GivenUpError:
            ended.append("gave up")

    thread = threading.Thread(target=once)
    thread.start()
    return thread, ended


def test_idle_time_is_free() -> None:
    pace = Pace(0.0)
    for _ in range(100):
        pace.wait()


def test_without_a_share_learning_waits_for_the_answers() -> None:
    pace = Pace(0.0)
    with pace.answering():
        thread, ended = learner(pace)
        thread.join(0.1)
        assert thread.is_alive()
    thread.join(10)
    assert ended == ["went on"]


def test_beside_answers_learning_gets_its_share_of_their_time() -> None:
    clock = Clock()
    pace = Pace(0.25, clock)
    learned = 0.0
    with pace.answering():
        for _ in range(4000):
            clock.now += 0.01
            pace._settle(learning=False)
            if pace._credit > 0:
                pace.wait()
                clock.now += 0.01
                learned += 0.01
                pace._settle(learning=True)
    assert learned / clock.now == pytest.approx(0.25, abs=0.01)


def test_credit_does_not_pile_up() -> None:
    clock = Clock()
    pace = Pace(0.25, clock)
    with pace.answering():
        clock.now += 3600
        pace._settle(learning=False)
        assert pace._credit == MOST_CREDIT


def test_an_interrupted_lesson_is_given_up_and_the_next_one_begins_anew() -> None:
    pace = Pace(0.0)
    with pace.answering():
        thread, ended = learner(pace)
        pace.interrupt()
        thread.join(10)
        assert ended == ["gave up"]
    with pytest.raises(GivenUpError):
        pace.wait()
    pace.begin()
    pace.wait()
