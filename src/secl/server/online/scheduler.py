"""When learning may use the machine: on idle time, and between two batches for a share of the time that answers took.

Answers and lessons never compute at the same time. Two passes at once share the cores badly: each takes several times
as long as alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from secl.errors import GivenUpError


class Scheduler:
    """Lets one thread learn while another answers.

    Args:
        share: while questions keep coming, how long a lesson may go on between two batches, as a part of the time that
            the last batch took, in [0, 1).
        clock: seconds, ever growing.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share
        self._clock = clock
        self._changed = threading.Condition()
        self._answering = False
        self._teaching = False
        self._interrupted = False
        self._ended, self._took = clock(), 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Within the block answers are computed, and a lesson stands still from its next layer on.

        A block that follows closely upon another one begins when the lesson in between has had its share.
        """
        with self._changed:
            until = self._ended + self.share * self._took
            while self._teaching and (left := until - self._clock()) > 0:
                self._changed.wait(left)
            self._answering, began = True, self._clock()
        try:
            yield
        finally:
            with self._changed:
                self._answering, self._ended = False, self._clock()
                self._took = self._ended - began
                self._changed.notify_all()

    @contextmanager
    def teaching(self) -> Iterator[None]:
        """Within the block a lesson is held."""
        with self._changed:
            self._interrupted, self._teaching = False, True
        try:
            yield
        finally:
            with self._changed:
                self._teaching = False
                self._changed.notify_all()

    def wait(self) -> None:
        """Called by a lesson before every layer: comes back when it may go on.

        Raises:
            GivenUpError: the lesson is to be given up.
        """
        with self._changed:
            while self._answering and not self._interrupted:
                self._changed.wait()
            if self._interrupted:
                raise GivenUpError

    def interrupt(self) -> None:
        """Make the lesson give up at its next layer."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
