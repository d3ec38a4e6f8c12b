"""Progress of a long command on standard error: a bar in a terminal, otherwise a line every half minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich import progress

from secl.cli.app import console, echo
from secl.reports.formatting import amount, counted

EVERY = 30.0
"""Seconds between two lines."""

ENOUGH = 10
"""Number of answered questions after which the bar shows the remaining time."""

Show = Callable[[int, int | None, str], None]
"""Shows the number of finished questions, the total (None while unknown), and the present step."""


@contextmanager
def follow(
    text: str, total: int | None, done: int = 0, *, noun: str = "question", transient: bool = False
) -> Iterator[Show]:
    """Show progress while the block runs; before the first finished question the bar only pulses.

    `noun` is the singular of the counted things.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lines(done, noun)
        return
    text_column = progress.TextColumn("{task.description}", markup=False)
    columns = (text_column, progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, progress.TimeRemainingColumn(), console=screen, transient=transient) as bar:
        task = bar.add_task("", total=None, completed=done)

        def show(now: int, whole: int | None, what: str) -> None:
            busy = not now and whole is not None
            title = f"{what} {counted(whole, noun)}" if busy and whole else what
            bar.update(task, completed=now, total=None if busy else whole, description=title)

        show(done, total, text)
        yield show


def lines(before: int, noun: str = "question", clock: Callable[[], float] = time.monotonic) -> Show:
    """Return a function that prints a line if the last one is half a minute old."""
    began = latest = clock()

    def show(done: int, total: int | None, _text: str) -> None:
        nonlocal latest
        now = clock()
        if now - latest >= EVERY:
            latest = now
            echo(line(done, total, done - before, now - began, noun), error=True)

    return show


def line(done: int, total: int | None, here: int, seconds: float, noun: str = "question") -> str:
    """Return progress and remaining time in words, if `here` things called `noun` took these seconds.

    >>> line(40, 2100, 30, 90.0)
    '40 of 2,100 questions, 0:01:30, about 1:43:00 to go'
    """
    if total is None:
        return f"{counted(done, noun)}, {timedelta(seconds=int(seconds))}"
    text = f"{amount(done)} of {counted(total, noun)}, {timedelta(seconds=int(seconds))}"
    if here >= ENOUGH and done < total:
        text += f", about {timedelta(seconds=int(seconds / here * (total - done)))} to go"
    return text
