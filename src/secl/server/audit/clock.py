"""The clock by which records grow old: it never jumps, so a wrong system clock does not prune what is still young."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secl.runs.folder import storage_errors

if TYPE_CHECKING:
    from secl.server.audit.store import ServerStore

KEY = "clock"
"""Key in the manifest of the latest moment that was written while nobody asked."""

DAY = 86400.0

LONGEST_STOP = DAY
"""Seconds that one stop of the server counts for at most, whatever the system clock says afterwards."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment on both clocks.

    Attributes:
        clock: of the folder, in seconds since its first record.
        time: of the system, in seconds since 1970.
    """

    clock: float
    time: float


class FolderClock:
    """A state folder's own clock, in seconds.

    While a server runs it goes by the monotonic clock, which nobody can set. Over a stop it goes by the system's clock,
    but never back and never more than `LONGEST_STOP`. So records are kept longer after a long stop, and a clock that
    was wrong at a start costs at most a day of age.

    Args:
        latest: the latest known moment; None in a new folder.
        system: seconds since 1970.
        steady: seconds of a clock that cannot be set.
    """

    def __init__(
        self,
        latest: Tick | None,
        system: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._system, self._steady = system, steady
        stopped = 0.0 if latest is None else min(max(system() - latest.time, 0.0), LONGEST_STOP)
        self._base = (0.0 if latest is None else latest.clock) + stopped - steady()

    @property
    def now(self) -> Tick:
        """This moment."""
        return Tick(self._base + self._steady(), self._system())


def latest_tick(state: ServerStore) -> Tick | None:
    """The latest moment that is on record in a state folder."""
    rows = list(state.read("SELECT clock, time FROM served ORDER BY position DESC LIMIT 1"))
    if (idle := state.manifest.get(KEY)) is not None:
        rows.append(idle)
    return max((Tick(*row) for row in rows), key=lambda tick: tick.clock, default=None)


def save_clock(state: ServerStore) -> None:
    """Write how late it is, so that records grow old also while nobody asks.

    Raises:
        StorageError: the disk is full or refuses.
    """
    now = state.clock.now
    with state.lock, storage_errors(state.folder), state.db as db:
        db.execute("INSERT OR REPLACE INTO manifest VALUES (?, ?)", (KEY, json.dumps([now.clock, now.time])))
