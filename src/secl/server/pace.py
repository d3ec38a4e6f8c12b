"""When learning may use the machine: on idle time, and beside answers for a bounded share of theirs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_CREDIT = 0.5
"""Seconds of learning that may be saved up while answers are computed."""


class Pace:
    """Lets one thread learn while others answer.

    Args:
        share: of the time in which answers are computed, how much may be spent on learning, in [0, 1).
        clock: seconds, ever growing.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share
        self._clock = clock
        self._changed = threading.Condition()
        self._answering = False
        self._interrupted = False
        self._credit = 0.0
        self._since = clock()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Within the block answers are computed, or are waited for by someone."""
        self._turn(True)
        try:
            yield
        finally:
            self._turn(False)

    def _turn(self, answering: bool) -> None:
        with self._changed:
            self._settle(learning=False)
            self._answering = answering
            self._changed.notify_all()

    def _settle(self, *, learning: bool) -> None:
        """Bring the credit up to date: it grows while answers are computed and shrinks while one learns beside them."""
        now = self._clock()
        passed, self._since = now - self._since, now
        if self._answering:
            self._credit = min(MOST_CREDIT, self._credit + passed * self.share - (passed if learning else 0.0))

    def wait(self) -> None:
        """Called by the learner before every layer: comes back when it may go on.

        Raises:
            GivenUpError: the lesson is to be given up.
        """
        with self._changed:
            self._settle(learning=True)
            while self._answering and self._credit <= 0 and not self._interrupted:
                # What is missing grows at the rate of the share, unless the answers are done before.
                self._changed.wait(max(0.005, -self._credit / self.share) if self.share else None)
                self._settle(learning=False)
            if self._interrupted:
                raise GivenUpError

    def begin(self) -> None:
        """A lesson begins."""
        with self._changed:
            self._interrupted = False
            self._settle(learning=False)

    def interrupt(self) -> None:
        """Make the learner give up its lesson at the next layer."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()


class GivenUpError(Exception):
    """A lesson was given up in the middle."""
