"""Progress of long commands where no terminal is: lines on standard error, by share and by time."""

from __future__ import annotations

import time

import pytest

from secl.cli.progress import LATE, Lines, follow

FIRST = 5.0


@pytest.fixture(autouse=True)
def _lines_come_soon(monkeypatch: pytest.MonkeyPatch, _no_progress: None) -> None:
    monkeypatch.setattr("secl.cli.progress.FIRST", FIRST)


def test_a_line_is_due_after_a_while_after_a_share_and_after_a_long_time() -> None:
    now = [100.0]
    lines = Lines(10, 200, clock=lambda: now[0])
    due = []
    for seconds, done in ((1, 30), (FIRST, 30), (FIRST + 2, 90), (FIRST + 6, 39), (FIRST + 6, 40), (FIRST + 6.1, 60)):
        now[0] = 100.0 + seconds
        lines.show(done, 200, "asking")
        due.append(lines.due())
    assert due == [False, True, False, False, True, False]
    now[0] += LATE
    assert lines.due()  # nothing more is done, and that is worth a line, too


def test_a_line_says_how_far_it_is_and_how_long_the_rest_takes() -> None:
    now = [0.0]
    lines = Lines(10, 2100, clock=lambda: now[0])
    assert lines.line() == "10 of 2,100 questions, 0:00:00"
    now[0] = 90.0
    lines.show(40, 2100, "asking")
    assert lines.line() == "40 of 2,100 questions, 0:01:30, about 1:43:00 to go"
    lines.show(2100, 2100, "asking")
    assert lines.line() == "2,100 of 2,100 questions, 0:01:30"
    lines.show(7, None, "loading")
    assert lines.line() == "7 questions, 0:01:30"


def test_nothing_is_written_of_what_is_done_at_once_and_the_end_of_what_was_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with follow("asking", 3) as show:
        show(3, 3, "asking")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("secl.cli.progress.FIRST", 0.0)
    monkeypatch.setattr("secl.cli.progress.TICK", 0.001)
    said = ""
    with follow("asking", 3) as show:
        while not said:
            time.sleep(0.001)
            said = capsys.readouterr().err
        show(3, 3, "asking")
    assert said.startswith("0 of 3 questions")
    assert capsys.readouterr().err.startswith("3 of 3 questions")
