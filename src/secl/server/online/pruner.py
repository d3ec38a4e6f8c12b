"""Pruning behind the answers: a thread that looks once a minute for what need not be kept any more."""

from __future__ import annotations

import logging
import threading
import time

from secl.errors import public_reason
from secl.server.retention import Pruned, Retention, prune
from secl.server.store import ServerStore

log = logging.getLogger("secl.server")

INTERVAL = 60.0
"""Seconds between two looks."""


class Pruner:
    """Keeps a state folder to what is to be kept; whatever goes wrong is tried again at the next look.

    Args:
        state: of a running server.
        policy: what is kept.

    Attributes:
        last_error: why the latest look failed, in one sentence; None after a success.
    """

    def __init__(self, state: ServerStore, policy: Retention) -> None:
        self.state, self.policy = state, policy
        self.last_error: str | None = None
        self._one_at_a_time = threading.Lock()
        self._asked = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="secl-pruner", daemon=True)

    def start(self) -> None:
        """Start the thread, if anything is ever to be pruned."""
        if self.policy:
            self._thread.start()

    def stop(self) -> None:
        """End after the present step."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def prune(self, policy: Retention, seconds: float) -> Pruned:
        """Prune by another policy, for about so many seconds, of which some may be spent waiting for another request.

        Raises:
            RunError: the file is damaged.
            StorageError: the disk refuses.
        """
        end = time.monotonic() + seconds
        self._asked.set()  # a look of its own in between ends after its present step
        if not self._one_at_a_time.acquire(timeout=seconds):
            return Pruned(0, 0, self.state.first, done=False)
        try:
            self._asked.clear()
            return prune(
                self.state, policy, until=lambda: self._stopping.is_set() or time.monotonic() > end, forget=True
            )
        finally:
            self._one_at_a_time.release()

    def look(self) -> None:
        """Prune what need not be kept any more."""
        try:
            with self._one_at_a_time:
                pruned = prune(self.state, self.policy, until=lambda: self._stopping.is_set() or self._asked.is_set())
        except Exception as problem:  # of whatever kind: this thread goes on
            error = public_reason(problem, "it")
            if self.last_error is None:
                log.warning("old records are not pruned: %s", error)
            self.last_error = error
            return
        self.last_error = None
        if pruned.records or pruned.versions:
            log.info(
                "pruned %d records, up to record %d, and %d adapter versions",
                pruned.records,
                pruned.first - 1,
                pruned.versions,
            )

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(INTERVAL)
