"""When learning may go on."""

from __future__ import annotations

import threading
import time

import pytest

from secl.errors import GivenUpError
from secl.server.online.scheduler import SLICE, Scheduler


class Lesson:
    """A learner that goes through layers until it is told to end."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.layers = 0
        self.ended = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        try:
            with self.scheduler.training():
                while not self._end.is_set():
                    self.scheduler.wait()
                    self.layers += 1
                    time.sleep(0.001)
            self.ended = "held"
        except GivenUpError:
            self.ended = "given up"

    def moves(self, seconds: float = 0.1) -> bool:
        """Whether it goes through layers now."""
        time.sleep(0.02)
        before = self.layers
        time.sleep(seconds)
        return self.layers > before

    def end(self) -> str:
        self._end.set()
        self._thread.join(30)
        return self.ended


def test_idle_time_is_free_and_answers_go_first() -> None:
    scheduler = Scheduler(0.5)
    lesson = Lesson(scheduler)
    assert lesson.moves()
    with scheduler.answering():
        assert not lesson.moves()
    assert lesson.moves()
    assert lesson.end() == "held"


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_between_two_batches_a_lesson_goes_on_for_its_share_of_the_first(share: float) -> None:
    scheduler = Scheduler(share)
    lesson = Lesson(scheduler)
    with scheduler.answering():
        time.sleep(0.2)
        before = lesson.layers
    began = time.monotonic()
    with scheduler.answering():
        took = time.monotonic() - began
        assert (lesson.layers > before + 10) is (share > 0)
        assert took == pytest.approx(0.2 * share, abs=0.08)
        assert not lesson.moves()
    assert lesson.end() == "held"


def test_all_texts_together_get_as_long_as_the_latest_batch() -> None:
    moments = iter([0.0, 10.0, 16.0, 20.0, 21.0, 30.0, 31.0])  # a batch of six seconds
    scheduler = Scheduler(0.0, clock=lambda: next(moments))
    with scheduler.answering():
        pass
    with scheduler.writing(3) as seconds:
        assert seconds == 2.0
    with scheduler.writing(1000) as seconds:  # what a text took is no batch
        assert seconds == SLICE


def test_an_interrupt_just_before_a_lesson_begins_is_not_lost() -> None:
    scheduler = Scheduler(0.2)
    scheduler.interrupt()
    assert Lesson(scheduler).end() == "given up"
    again = Lesson(scheduler)  # it counts for one lesson
    assert again.moves()
    assert again.end() == "held"
