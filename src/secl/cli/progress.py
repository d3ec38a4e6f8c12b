"""How far a long command is, on standard error: a bar in a terminal, now and then a line in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from secl.cli.app import console, echo, progress_bar
from secl.reports.formatting import amount, counted

FIRST, SOON, LATE = 5.0, 5.0, 30.0
"""Seconds to the first line; least seconds to the next one, if enough was done; most seconds to it."""

TICK = 0.5
"""Seconds between two looks at the clock."""

STEP = 0.05
"""Share of all that is enough for a line before `LATE`."""


Show = Callable[[int, int | None, str], None]
"""Shows how much is done, of how much (None as long as that is unknown), and what is being done."""


@contextmanager
def follow(text: str, total: int | None, done: int = 0, *, transient: bool = False) -> Iterator[Show]:
    """Show progress while the block runs.

    Until something is done, the bar is shown as busy and not as empty: questions are looked at many at once.

    Args:
        text: what is being done.
        total: questions in all; None as long as that is unknown.
        done: questions done before.
        transient: whether the bar goes in the end.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        with Lines(done, total) as lines:
            yield lines.show
        return
    with progress_bar(screen, transient=transient, remaining=True) as bar:
        task = bar.add_task("", total=None, completed=done)

        def show(now: int, whole: int | None, what: str) -> None:
            busy = not now and whole is not None
            title = f"{what} {counted(whole, 'question')}" if busy and whole else what
            bar.update(task, completed=now, total=None if busy else whole, description=title)

        show(done, total, text)

        yield show


class Lines:
    """Writes a line when a share was done or some time has gone by, also while nothing can be reported.

    Args:
        done: questions done before.
        total: questions in all; None as long as that is unknown.
        clock: gives seconds.
    """

    def __init__(self, done: int, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._stop = clock, Event()
        self._before, self._done, self._total = done, done, total
        self._started = self._latest = clock()
        self._written: int | None = None
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None and self._written not in (None, self._done):
            echo(self.line(), error=True)

    def show(self, done: int, total: int | None, _text: str) -> None:
        """Note how far it is."""
        self._done, self._total = done, total

    def due(self) -> bool:
        """Whether it is time for a line; if so, the next one is due later."""
        now = self._clock()
        if self._written is None:
            due = now - self._started >= FIRST
        else:
            enough = self._done - self._written >= STEP * (self._total or float("inf"))
            due = now - self._latest >= (SOON if enough else LATE)
        if due:
            self._written, self._latest = self._done, now
        return due

    def line(self) -> str:
        """How far it is, and how long the rest will take."""
        seconds, here = self._clock() - self._started, self._done - self._before
        if self._total is None:
            return f"{counted(self._done, 'question')}, {clock_time(seconds)}"
        text = f"{amount(self._done)} of {counted(self._total, 'question')}, {clock_time(seconds)}"
        if here and self._done < self._total:
            text += f", about {clock_time(seconds / here * (self._total - self._done))} to go"
        return text

    def _watch(self) -> None:
        while not self._stop.wait(TICK):
            if self.due():
                echo(self.line(), error=True)


def clock_time(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> clock_time(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
