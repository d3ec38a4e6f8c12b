"""Progress of long commands where no terminal is: lines on standard error, now and then."""

from __future__ import annotations

import pytest

from secl.cli import progress


def test_a_line_is_written_every_half_minute_and_says_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 30.0)
    now = [100.0]
    show = progress.lines(10, clock=lambda: now[0])
    for seconds, done in ((1, 12), (30, 19), (31, 30), (60, 40), (89, 100), (90, 2100), (230, 2100)):
        now[0] = 100.0 + seconds
        show(done, 2100, "asking")
    show(7, None, "loading")
    assert capsys.readouterr().err.splitlines() == [
        "19 of 2,100 questions, 0:00:30",  # too few to tell
        "40 of 2,100 questions, 0:01:00, about 1:08:40 to go",
        "2,100 of 2,100 questions, 0:01:30",
        "2,100 of 2,100 questions, 0:03:50",
    ]
    with progress.follow("asking", 3) as shown:
        shown(3, 3, "asking")
    assert capsys.readouterr() == ("", "")
