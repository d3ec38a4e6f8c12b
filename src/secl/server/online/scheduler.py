"""Scheduling of learning: on idle time, and between two batches for a share of the time that answers took.

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
        share: under load, time for learning between two batches as a fraction of the last batch's time, in [0, 1).
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share
        self._clock = clock
        self._changed = threading.Condition()
        self._answering = False
        self._training = False
        self._interrupted = False
        self._ended, self._took = clock(), 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Context in which answers are computed: a lesson blocks before its next layer.

        Entering soon after the previous batch waits until the lesson in between has had its share.
        """
        with self._changed:
            until = self._ended + self.share * self._took
            while self._training and (remaining := until - self._clock()) > 0:
                self._changed.wait(remaining)
            self._answering, began = True, self._clock()
        try:
            yield
        finally:
            with self._changed:
                self._answering, self._ended = False, self._clock()
                self._took = self._ended - began
                self._changed.notify_all()

    @contextmanager
    def training(self) -> Iterator[None]:
        """Context in which a lesson is held."""
        with self._changed:
            self._interrupted, self._training = False, True
        try:
            yield
        finally:
            with self._changed:
                self._training = False
                self._changed.notify_all()

    def wait(self) -> None:
        """Block while answers are computed; a lesson calls this before every layer.

        Raises:
            GivenUpError: the lesson must be abandoned.
        """
        with self._changed:
            while self._answering and not self._interrupted:
                self._changed.wait()
            if self._interrupted:
                raise GivenUpError

    def interrupt(self) -> None:
        """Abandon the lesson at its next layer."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
