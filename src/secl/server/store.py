"""The state folder of a server, with the tables of a run (`secl.runs.store`) and of `secl.server.entries`.

Labels are an append-only log. Labels move confidences, and never train weights. The server sends a reply after its
record is on the disk, so the record survives a power cut. The server writes the record's lesson later, together with
the learner's new state. Rows:

    records    as in `secl.runs.store`
    served     (28, "rec_0a1b2c3d4e5f", 1795636800.0, 8, 0.82, 0.75, None)    position, id, time, batch, reported, ...
    events     (1, 1795636000.0, "pause", 27, 3, "by hand")                   id, time, kind, position, version, detail
"""

from __future__ import annotations

import logging
import math
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from secl.calibrator import StreamState
from secl.errors import ParameterError, RunError
from secl.gates import Gate
from secl.machine import synchronise
from secl.model import Learner
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.runs import chain
from secl.runs.encoding import to_body
from secl.runs.folder import FILE, check_free, storage_errors
from secl.runs.store import Store, Version
from secl.server.entries import (
    TABLES,
    Event,
    EventKind,
    JsonObject,
    Keep,
    Served,
    listed_values,
    redacted,
)

log = logging.getLogger("secl.server")

KEYS_FILE = "keys.json"
"""File with the hashes of the API keys."""

HINT = "a running server continues by itself"
"""End of the message of a StorageError: "free disk space or correct the permissions, then ..."."""

CHECKPOINTS = 1000
"""Number of records between two checkpoints of the stream. A start replays the records since the last checkpoint."""

BUSY_TIMEOUT = 1.0
"""Seconds that a write waits for another process's lock. The value is small because clients wait for their answers."""


class ServerStore(Store):
    """The open state folder of a server. Any thread may call its methods.

    Without `writable`, the store only reads, and a server may write to the same folder meanwhile. A thread that needs
    several statements without interruption by other threads must hold `lock`.

    Raises RunError: the folder is not a server's state, or is damaged.
    """

    def __init__(self, folder: str | Path, *, writable: bool = False) -> None:
        if not (Path(folder) / FILE).is_file():
            raise RunError(f"{folder} is not a server's state folder (no {FILE}); name the folder of secl serve.")
        self.lock, self.writable = threading.RLock(), writable
        super().__init__(folder, writable=writable)
        with ExitStack() as failure:
            failure.callback(self.close)
            if not self.is_server:
                remedy = "name the folder of secl serve (secl report shows runs)"
                raise RunError(f"{folder} is a run, not a server's state folder; {remedy}.")
            if writable:
                make_private(self.folder)
            self.db.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT)}")
            # Wait until the disk has each write: unlike a run, a server cannot repeat a question after a crash.
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.execute("PRAGMA secure_delete = ON")  # overwrites pruned records
            self.keep_text: Keep = self.manifest["keep_text"]
            failure.pop_all()

    @classmethod
    def create(cls, folder: Path, manifest: JsonObject, tables: str = TABLES) -> Self:
        """Create the state folder of a new server, readable only by its user. Raises the errors of `Store.create`."""
        check_free(folder)
        with storage_errors(folder, "start again, or name another folder"):
            make_private(folder)
            Store.create(folder, manifest, tables).close()
            for path in (folder, folder.parent):
                synchronise(path)
        return cls(folder, writable=True)

    def read(self, query: str, *values: object) -> Iterator[Any]:
        """Return the rows of a query. Threads share a writable store, so the store reads all rows under its lock."""
        rows = super().read(query, *values)
        if not self.writable:
            return rows
        with self.lock:
            return iter([*rows])

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a query. Raises RunError: the file is damaged."""
        return list(self.read(query, *values))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the block as one transaction. Raises StorageError."""
        with self.lock, storage_errors(self.folder, HINT), self.db:
            yield

    @contextmanager
    def moment(self) -> Iterator[None]:
        with self.lock, super().moment():
            yield

    def add_answers(
        self,
        records: Sequence[Record],
        seconds: float,
        *,
        moment: float,
        stream: StreamState,
        ids: Sequence[str],
        version: Version | None = None,
    ) -> None:
        """Write the records of one batch in one transaction.

        The batch took `seconds`, and ended at `moment` (seconds since 1970). `stream`: state of the stream after the
        batch, for checkpoints. `version`: version that answered, if it is not stored yet.
        """
        first, count = records[0].position, len(records)
        with self.writing():
            for record, identifier in zip(records, ids, strict=True):
                self.write_record(redacted(record, self.keep_text), seconds / count)
                listed = listed_values(record, self.keep_text)
                self.write("served", record.position, identifier, moment, count, *listed)
            if version is not None:
                self.write_version(version, first)
            if stream.position // CHECKPOINTS > first // CHECKPOINTS:
                self.write_checkpoint(stream)

    def write_checkpoint(self, stream: StreamState) -> None:
        """Write a checkpoint of the stream, inside a transaction."""
        self.write("checkpoints", stream.position, stream.pack())

    def stream(self, gate: Gate, rule: PosteriorRule, until: int | None = None) -> StreamState:
        """Return the state of gate and posterior before record `until` (default: after all records), without labels.

        Raises RunError: a checkpoint or a record is damaged.
        """
        end = len(self) if until is None else until
        stream = StreamState(gate=gate.start(), posterior=rule.start())
        query = "SELECT state FROM checkpoints WHERE position <= ? ORDER BY position DESC LIMIT 1"
        for (checkpoint,) in self.rows(query, end):
            try:
                stream = StreamState.unpack(checkpoint, gate)
            except ValueError as problem:
                raise self.damaged(ValueError("a checkpoint of gate and posterior cannot be read")) from problem
        for record in self.records("r.position >= ? AND r.position < ?", stream.position, end):
            stream, _, _ = stream.follow(record, gate, rule)
        return stream

    def add_lesson(self, record: Record, *, snapshot: bytes | None = None) -> None:
        """Write the outcome of a lesson into its record. `snapshot`: the learner's state after an update."""
        body = to_body(redacted(record, self.keep_text))
        with self.writing():
            self.db.execute("UPDATE records SET body = ? WHERE position = ?", (body, record.position))
            chain.extend(self.db, "records", record.position)
            if snapshot is not None and record.update is not None:
                self.write_snapshot(record.update.version, snapshot)

    def add_event(self, kind: EventKind, version: int, detail: str, *, snapshot: bytes | None = None) -> None:
        """Write an event. `snapshot`: the learner's state, if the event changes the weights."""
        with self.writing():
            ((number,),) = self.rows("SELECT coalesce(max(id), 0) + 1 FROM events")
            latest = len(self) - 1
            self.write("events", number, time.time(), kind, latest if latest >= 0 else None, version, detail)
            if snapshot is not None:
                self.write_snapshot(version, snapshot)

    def record(self, position: int) -> Record:
        return self.served(position).record

    def find(self, name: str) -> Served:
        """Return a record by id or number. Raises ParameterError: the record does not exist, or is pruned."""
        if name.isascii() and name.isdigit() and len(name) <= 18:
            return self.served(int(name))
        for (position,) in self.rows("SELECT position FROM served WHERE id = ?", name):
            return self.served(position)
        pruned = f"; records before {self.first} were pruned" if self.first else ""
        raise ParameterError(f"there is no record {name[:40]!r}{pruned}.")

    def served(self, position: int) -> Served:
        """Return one record. Raises ParameterError: the record does not exist, or is pruned."""
        if 0 <= position < self.first:
            raise ParameterError(f"record {position} was pruned, like all records before {self.first}.")
        latest = self.latest(1, until=position)
        if not latest or latest[0].record.position != position:
            known = f"the latest is {len(self) - 1}" if len(self) else "no question has been answered yet"
            raise ParameterError(f"there is no record {position}; {known}.")
        return latest[0]

    def latest(self, count: int, *, until: int | None = None) -> list[Served]:
        """Return the last `count` records up to position `until`, the oldest first."""
        with self.lock:
            last = len(self) - 1 if until is None else min(until, len(self) - 1)
            first = max(0, last - count + 1)
            records = list(self.records("r.position BETWEEN ? AND ?", first, last))
            query = "SELECT id, time, batch, correct FROM answers WHERE position BETWEEN ? AND ? ORDER BY position"
            rows = self.rows(query, first, last)
        if len(rows) != len(records):
            raise self.damaged(ValueError("the tables records and served do not match"))
        return [
            Served(record, identifier, moment, batch, None if correct is None else bool(correct))
            for record, (identifier, moment, batch, correct) in zip(records, rows, strict=True)
        ]

    def events(self, count: int = -1, *kinds: EventKind, before: float = math.inf) -> list[Event]:
        """Return the latest `count` events (-1: all) of `kinds` (default: all), the oldest first.

        `before`: latest time of an event, in seconds since 1970.
        """
        query = f"""
            SELECT time, kind, position, version, detail FROM events
            WHERE {f"kind IN ({', '.join('?' * len(kinds))})" if kinds else "1"} AND time <= ?
            ORDER BY id DESC LIMIT ?"""
        return [Event(*row) for row in self.rows(query, *kinds, before, count)][::-1]

    def counts(self) -> dict[str, int]:
        """Return the number of all records, pruned ones included, by the outcome of their lessons."""
        return dict(self.rows("SELECT outcome, value FROM counts WHERE value > 0"))

    def kept_versions(self, count: int = -1) -> list[JsonObject]:
        """Return the newest `count` versions (-1: all): number, drift, position and time of the first answer."""
        names = ("version", "position", "time", "drift")
        return [dict(zip(names, row, strict=True)) for row in self.rows(_VERSIONS, count)]

    def load_version(self, learner: Learner, version: int) -> None:
        """Load a version; 0 is the frozen model. Raises RunError: the version is not stored."""
        if version:
            learner.load_version(self.weights(version), version)
        else:
            learner.reset()

    def learned_version(self) -> int:
        """Return the version of the learned weights, after the latest update or rollback; 0 without either."""
        rows = self.rows("SELECT version FROM learner")
        return int(rows[0][0]) if rows else 0

    def paused(self, moment: float = math.inf) -> str | None:
        """Return why learning is paused now, or was paused at `moment` (seconds since 1970); None without a pause."""
        changes = self.events(1, "pause", "resume", before=moment)
        return changes[0].detail if changes and changes[0].kind == "pause" else None


_VERSIONS = """
    SELECT v.version, v.position, s.time, v.drift FROM versions v LEFT JOIN served s USING (position)
    ORDER BY v.version DESC LIMIT ?"""


def open_folder(folder: Path) -> Store:
    """Open a run or a server's state for reading."""
    with Store(folder) as store:
        is_server = store.is_server
    return ServerStore(folder) if is_server else Store(folder)


@contextmanager
def at_one_moment(folder: Path) -> Iterator[ServerStore]:
    """Yield a store that reads the state of one moment, through a separate connection, which delays no answer."""
    with ServerStore(folder) as reader, reader.moment():
        yield reader


def make_private(folder: Path) -> None:
    """Create a state folder, or restrict an existing folder to its owner (mode 0700). Raises RunError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_before = _is_open(folder)
        folder.chmod(0o700)
        reason = "its file system ignores permissions" if _is_open(folder) else None
    except (PermissionError, FileExistsError, NotADirectoryError) as problem:
        reason = str(problem.strerror)
    if reason is not None:
        why = f"secl stores people's questions in {folder}, but cannot close it to other users: {reason}"
        raise RunError(f"{why}; name a folder of your own.")
    if open_before:
        log.warning("other users could open %s; now only its owner can.", folder)


def _is_open(folder: Path) -> bool:
    return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)
