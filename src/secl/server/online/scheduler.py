"""Scheduling: answering and writing take turns; learning has the idle time and a share of the rest.

Two simultaneous passes share the cores badly. Each takes several times as long as a pass alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from secl.errors import GivenUpError

SLICE = 0.1
"""Shortest turn of a text, in seconds: one token between two batches would starve the text."""


class Scheduler:
    """Lets one thread learn while other threads answer and write in turns.

    After each turn, learning gets a `share`, in [0, 1), of the turn's time.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share
        self._clock = clock
        self._changed = threading.Condition()
        self._turns: deque[object] = deque()
        self._answering = self._training = self._interrupted = False
        self._ended, self._took, self._batch = clock(), 0.0, 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Context for computing a batch of answers."""
        with self._turn():
            yield
        self._batch = self._took

    @contextmanager
    def writing(self, texts: int) -> Iterator[float]:
        """Context for a turn of one text out of `texts`; yields the turn's length in seconds.

        All texts together get the time of the latest batch.
        """
        with self._turn():
            yield max(SLICE, self._batch / texts)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Context for a turn, in order of arrival, after a lesson's share of time."""
        with self._changed:
            turn = object()
            self._turns.append(turn)
            while self._turns[0] is not turn:
                self._changed.wait()
            until = self._ended + self.share * self._took
            while self._training and (remaining := until - self._clock()) > 0:
                self._changed.wait(remaining)
            self._answering, began = True, self._clock()
        try:
            yield
        finally:
            with self._changed:
                self._turns.popleft()
                self._answering, self._ended = False, self._clock()
                self._took = self._ended - began
                self._changed.notify_all()

    @contextmanager
    def training(self) -> Iterator[None]:
        """Context for running an update."""
        self._training = True
        try:
            yield
        finally:
            with self._changed:
                self._interrupted = self._training = False
                self._changed.notify_all()

    def wait(self) -> None:
        """Block a lesson while answers are computed. Raises GivenUpError: the lesson must end."""
        with self._changed:
            while self._answering and not self._interrupted:
                self._changed.wait()
            if self._interrupted:
                raise GivenUpError

    def interrupt(self) -> None:
        """End the running or the next lesson at its next layer."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
