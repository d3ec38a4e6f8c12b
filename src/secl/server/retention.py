"""Back up a state folder; prune (delete) its oldest records in small steps, so that answers need not wait.

Each step is one transaction, which also writes a checkpoint of the stream at the first kept record. A replay begins at
this checkpoint. If the process is killed between two steps, the folder stays consistent. SQLite overwrites pruned
records.

Pruning always keeps the latest record, all records from the first pending lesson on, labels, events and counters.
Pruning also keeps the newest adapter versions, the current version, and each version that answered a kept record.
"""

from __future__ import annotations

import logging
import math
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from secl.errors import ParameterError, RunError, public_reason
from secl.gates import Gate
from secl.labels.label import DAY
from secl.machine import publish_folder
from secl.runs import chain
from secl.runs.folder import DAMAGE, FILE, storage_errors
from secl.runs.manifest import Manifest
from secl.runs.store import Store
from secl.server.entries import moment
from secl.server.store import KEYS_FILE, ServerStore

log = logging.getLogger("secl.server")

PRUNING = "pruning of old records fails"

CLOCK = "the time of this machine, or of the newest record, is wrong"

INTERVAL = 600.0
"""Seconds between two prunings."""

PRUNED_AT_ONCE = 100
"""Maximum number of records that a step prunes."""

EARLIEST = 1.58e9
"""Earliest time of a record that can be right: January 2020, before the first server of secl."""

YOUNG, WITNESSES = 3, 1000
"""`YOUNG`: weight of a young record against older times of later records. With a large weight, times that are too young
keep records too long. With a small weight, times that are too old delete younger records. `WITNESSES`: number of later
records whose times count."""

KEPT_VERSIONS = 50
"""Number of newest adapter versions to keep for rollbacks, besides the versions that answered a kept record."""

REST = 2.0
"""Pause after a step, as a multiple of the step's time. Meanwhile the server can store answers."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Number of latest records to keep, or their maximum age in days; None sets no limit."""

    records: int | None = None
    days: int | None = None

    @classmethod
    def of(cls, keep_records: str | None) -> Retention:
        """Read "100000" (records) or "30d" (days). Raises ParameterError.

        >>> Retention.of("30d")
        Retention(records=None, days=30)
        """
        if keep_records is None:
            return cls()
        match = re.fullmatch(r"(0*[1-9]\d{0,14})(d?)", keep_records, re.ASCII)
        if match is None:
            raise ParameterError(
                f"--keep-records is {keep_records[:40]!r}; give a number of records, like 100000, or of days, like 30d."
            )
        return cls(days=int(match[1])) if match[2] else cls(records=int(match[1]))


class Pruner:
    """A thread that prunes every `INTERVAL` seconds. `problems`: its current problem, with the latest error message.

    The clock may run ahead for a while, for example after a start. Ages therefore rest on the earlier of the last two
    readings of the clock. The first look prunes no record because of its age.
    """

    def __init__(self, state: ServerStore, policy: Retention, gate: Gate) -> None:
        self.state, self.policy, self.gate = state, policy, gate
        self._clock = -math.inf
        self.problems: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="secl-pruner", daemon=True)

    def start(self) -> None:
        if self.policy != Retention():
            self._thread.start()

    def stop(self) -> None:
        """End the thread after the current step."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Prune records beyond the limit; an error goes into `problems`."""
        before, self._clock = self._clock, time.time()
        now = min(before, self._clock)
        try:
            records = self.prune(now)
            newest = self.state.rows("SELECT time FROM served ORDER BY position DESC LIMIT 1")
        except Exception as problem:  # any exception: the thread must continue
            error = public_reason(problem, "pruning")
            if not self.problems:
                log.warning("%s: %s", PRUNING, error)
            self.problems = {PRUNING: error}
            return
        ahead = self.policy.days is not None and newest and newest[0][0] > self._clock + DAY
        self.problems = {CLOCK: f"the newest record is of {moment(newest[0][0])}"} if ahead else {}
        if records:
            log.info("pruned %d records, up to record %d", records, self.state.first - 1)

    def prune(self, now: float) -> int:
        """Prune step by step until `stop`; return the number of pruned records. `now`: reading of the clock.

        Raises RunError, StorageError; earlier steps stay in effect.
        """
        total, busy = 0, self.policy != Retention()
        while busy and not self._stopping.is_set():
            began = time.monotonic()
            records = _prune_records(self.state, self.policy, now, self.gate)
            busy = bool(_prune_version(self.state) or records)
            total += records
            time.sleep(REST * (time.monotonic() - began))
        return total

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(INTERVAL)


def _prune_records(state: ServerStore, policy: Retention, now: float, gate: Gate) -> int:
    """Prune at most `PRUNED_AT_ONCE` of the oldest records; return their number."""
    first, keep = state.first, _first_kept(state, policy, now)
    if keep <= first:
        return 0
    stream = state.stream(gate, Manifest.of(state).plan.posterior, keep)
    with state.writing():
        state.write_checkpoint(stream)
        for table in reversed(chain.BY_POSITION):
            state.db.execute(f"DELETE FROM {table} WHERE position < ?", (keep,))
        chain.fold(state.db, keep)
    return keep - first


def _first_kept(state: ServerStore, policy: Retention, now: float) -> int:
    """Return the position of the first record that this step keeps."""
    first, end = state.first, len(state)
    keep = first if policy.records is None else max(first, end - policy.records)
    if policy.days is not None:
        keep = max(keep, _first_young(state, now - policy.days * DAY, now))
    ((waiting,),) = state.rows("SELECT min(position) FROM records WHERE outcome = 'waiting'")
    return min(keep, first + PRUNED_AT_ONCE, end - 1, end if waiting is None else waiting)


def _first_young(state: ServerStore, limit: float, now: float) -> int:
    """Return the position before which records are older than `limit`, by times that wrong clocks may have made.

    Positions give the order of the answers. Times in the future or before `EARLIEST` say nothing. If an old time
    follows a young one, one of the two is wrong. The old times win if they are more than `YOUNG` times as many.
    """
    query = "SELECT position, time FROM served WHERE time BETWEEN ? AND ? ORDER BY position LIMIT ?"
    first, score, best = state.first, 0, 0
    for position, answered in state.rows(query, EARLIEST, now, PRUNED_AT_ONCE + WITNESSES):
        score += 1 if answered <= limit else -YOUNG
        if score > best:
            first, best = position + 1, score
    return first


_UNNEEDED = """
    SELECT version FROM versions v WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.version = v.version)
    AND version NOT IN (SELECT version FROM versions ORDER BY version DESC LIMIT ?) AND version != ?
    ORDER BY version LIMIT 1"""


def _prune_version(state: ServerStore) -> int:
    """Prune the oldest unneeded adapter version, if any; return the number of pruned versions."""
    with state.writing():
        oldest = state.db.execute(_UNNEEDED, (KEPT_VERSIONS, state.learned_version())).fetchone()
        if oldest is None:
            return 0
        state.db.execute("DELETE FROM versions WHERE version = ?", oldest)
        chain.extend(state.db, "versions", *oldest)
    return 1


def backup(folder: Path, out: Path) -> int:
    """Copy the present state of a folder while its server runs; return the number of records.

    secl writes the copy under a temporary name, and renames the copy once it is complete and on the disk. Raises
    RunError: `out` exists, or the folder is damaged or not a server's state; StorageError: writing the copy fails.
    """
    with Store(folder) as store:
        if not store.is_server:
            raise RunError(
                f"{folder} is a run, not a server's state folder; copy the run's folder while no process writes to it."
            )
        if out.exists() or out.is_symlink():
            raise RunError(f"{out} exists already; name a new folder, so that no older backup is lost.")
        with storage_errors(out), ExitStack() as failure:
            out.parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f"{out.name}.", dir=out.parent))  # only its owner can enter it
            failure.callback(shutil.rmtree, unfinished, ignore_errors=True)
            try:
                (unfinished / FILE).touch(mode=0o600)  # so that the file stays private if it is moved
                store.db.execute("PRAGMA query_only = OFF")  # VACUUM INTO needs this, and writes only the copy
                store.db.execute("VACUUM INTO ?", (str(unfinished / FILE),))
                with closing(sqlite3.connect(unfinished / FILE)) as copy:
                    copy.execute("PRAGMA journal_mode = WAL")
                    (records,) = copy.execute("SELECT count(*) FROM records").fetchone()
            except DAMAGE as problem:
                if isinstance(problem, sqlite3.OperationalError):
                    raise
                raise store.damaged(problem) from problem
            if (folder / KEYS_FILE).exists():
                shutil.copy2(folder / KEYS_FILE, unfinished / KEYS_FILE)
            publish_folder(unfinished, out)
            failure.pop_all()
    return int(records)
