"""How far a long command is, on standard error: a bar in a terminal, now and then a line in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from secl.cli.app import console, echo
from secl.reports.formatting import amount, counted

EVERY = 30.0
"""Seconds between two lines."""

ENOUGH = 10
"""Questions before the first estimate: all those that share its window."""

Show = Callable[[int, int | None, str], None]
"""Shows the work that is done, the total (None while unknown), and the present step."""


@contextmanager
def follow(text: str, total: int | None, done: int = 0, *, transient: bool = False) -> Iterator[Show]:
    """Show progress while the block runs.

    Until the first window is done, the bar is busy rather than empty.
    """
    from rich import progress

    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lines(done)
        return
    text_column = progress.TextColumn("{task.description}", markup=False)
    columns = (text_column, progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, progress.TimeRemainingColumn(), console=screen, transient=transient) as bar:
        task = bar.add_task("", total=None, completed=done)

        def show(now: int, whole: int | None, what: str) -> None:
            busy = not now and whole is not None
            title = f"{what} {counted(whole, 'question')}" if busy and whole else what
            bar.update(task, completed=now, total=None if busy else whole, description=title)

        show(done, total, text)
        yield show


def lines(before: int, clock: Callable[[], float] = time.monotonic) -> Show:
    """Writes a line when half a minute has gone by since the last one."""
    began = latest = clock()

    def show(done: int, total: int | None, _text: str) -> None:
        nonlocal latest
        now = clock()
        if now - latest >= EVERY:
            latest = now
            echo(line(done, total, done - before, now - began), error=True)

    return show


def line(done: int, total: int | None, here: int, seconds: float) -> str:
    """Return the progress and the remaining time, if `here` questions took these seconds.

    >>> line(40, 2100, 30, 90.0)
    '40 of 2,100 questions, 0:01:30, about 1:43:00 to go'
    """
    if total is None:
        return f"{counted(done, 'question')}, {timedelta(seconds=int(seconds))}"
    text = f"{amount(done)} of {counted(total, 'question')}, {timedelta(seconds=int(seconds))}"
    if here >= ENOUGH and done < total:
        text += f", about {timedelta(seconds=int(seconds / here * (total - done)))} to go"
    return text
