"""What a server remembers: a run folder, and beside its tables

    served      when each question was answered, and with how many others in one pass
    events      what happened to learning: rollbacks, pauses and resumes, alerts
    labels      what people said about answers, a log; weights never learn from it, confidences follow it
    posteriors  of the records that have one: group, reported confidence, what is counted

A reply is sent after its record is on disk, synchronised, so that it also survives a power cut; where the disk refuses,
the reply says that it is not stored. Its lesson, if it gets one, is written later, together with the learner's new
state, so that a server that is killed at any moment goes on from its last lesson.

Only the user who runs the server can read the folder.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from secl.errors import ParameterError, RunError
from secl.labels import Label, label_of
from secl.records import Record
from secl.runs import label_log
from secl.runs.encoding import to_plain
from secl.runs.folder import FILE, check_free, storage_errors
from secl.runs.store import Store, Version
from secl.server.audit.entries import Event, EventKind, Served
from secl.server.audit.index import add_to_index, open_index
from secl.server.audit.labels import convert_feedback, old_feedback, said_of
from secl.server.audit.permissions import make_folder, make_private
from secl.server.audit.posteriors import TABLE, posterior_row
from secl.server.audit.redaction import Keep, redacted

HINT = "the server goes on by itself"
"""What a user has to do once the disk takes records again."""

BUSY_TIMEOUT = 1.0
"""Seconds that a write waits for a database that another process has locked; people are waiting for their answers."""

ROLLBACK = "rollback"
"""Key in the manifest of a rollback that the next server carries out."""

OWN = "WHERE outcome != 'given'"
"""Condition on a record: the model answered itself, and did not rate the answer of somebody else."""

TABLES = """
CREATE TABLE served (
    position INTEGER PRIMARY KEY REFERENCES records, time REAL NOT NULL, batch INTEGER NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, position INTEGER, version INTEGER, detail TEXT);
CREATE INDEX lessons ON records (outcome);
"""


class ServerStore(Store):
    """The open state folder of a server. Its methods may be called from any thread."""

    def __init__(self, folder: Path, *, writable: bool = False) -> None:
        if not (folder / FILE).is_file():
            raise RunError(f"{folder} is no server's state (it has no {FILE}); name the folder of secl serve --state.")
        super().__init__(folder, writable=writable)
        self.lock = threading.RLock()
        try:
            self._check_tables()
            if writable:
                make_private(folder)
                with storage_errors(folder, HINT):
                    self._db.executescript(TABLE)  # folders of earlier versions lack it
                    convert_feedback(self)
            self._db.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT)}")
            # A run that loses its last question in a power cut asks it again. A reply that was sent cannot be unsent.
            self._db.execute("PRAGMA synchronous = FULL")
            self.keep_text: Keep = self.manifest["keep_text"]
            if writable:
                open_index(self)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, folder: Path, manifest: dict[str, Any], tables: str = TABLES) -> Self:
        """Create the state folder of a new server, which only its user can read.

        Raises:
            RunError: the folder holds a run or other files already, or cannot be closed to other users.
            StorageError: it cannot be written.
        """
        check_free(folder)
        with storage_errors(folder, HINT):
            make_folder(folder)
            make_private(folder)
        state = super().create(folder, manifest, tables)
        with storage_errors(folder, HINT):
            _synchronise(folder)
        return state

    def _check_tables(self) -> None:
        try:
            next(self._read("SELECT count(*) FROM served"))
        except RunError:
            message = f"{self.folder} is a run and no server's state; name another folder with --state."
            raise RunError(message) from None

    def add_answers(
        self, records: Sequence[Record], seconds: float, *, moment: float, kept: Version | None = None
    ) -> None:
        """Write the records of questions that were answered together, in one transaction.

        Args:
            records: at the next positions.
            seconds: that the pass took; each question has an equal part.
            moment: when, in seconds since 1970.
            kept: the adapter version that answered, if it is not kept yet.

        Raises:
            StorageError: the disk is full or refuses; nothing of them is kept.
        """
        with self.lock, storage_errors(self.folder, HINT), self._db:
            for record in records:
                self._add(redacted(record, self.keep_text), seconds / len(records))
                add_to_index(self, record)
                self._db.execute("INSERT INTO served VALUES (?, ?, ?)", (record.position, moment, len(records)))
                if (row := posterior_row(record)) is not None:
                    self._db.execute("INSERT INTO posteriors VALUES (?, ?, ?, ?, ?)", row)
            if kept is not None:
                self._keep(kept, records[0].position)

    def add_lesson(self, record: Record, *, snapshot: bytes | None = None) -> None:
        """Write what came of a lesson: a record that is there already, now with its evidence, signal and update.

        Args:
            record: the whole record.
            snapshot: the learner's state, where the lesson changed it.

        Raises:
            StorageError: the disk is full or refuses; nothing of the lesson is kept.
        """
        body = to_plain(redacted(record, self.keep_text))
        del body["decision"]
        update = body.pop("update")
        with self.lock, storage_errors(self.folder, HINT), self._db:
            self._db.execute(
                "UPDATE records SET signal = ?, outcome = ?, body = ? WHERE position = ?",
                (record.signal, record.outcome, json.dumps(body), record.position),
            )
            if update is not None:
                self._add_update(record.position, update)
            if snapshot is not None:
                self._learned(record.position, snapshot)

    def add_event(self, kind: EventKind, version: int, detail: str, *, snapshot: bytes | None = None) -> None:
        """Write an event, and the learner's state where the event changed it.

        Raises:
            StorageError: the disk is full or refuses.
        """
        with self.lock, storage_errors(self.folder, HINT), self._db:
            latest = len(self) - 1
            self._add_event(kind, version, detail, latest)
            if snapshot is not None:
                self._learned(max(0, latest), snapshot)

    def _add_event(self, kind: EventKind, version: int, detail: str, latest: int) -> None:
        self._db.execute(
            "INSERT INTO events (time, kind, position, version, detail) VALUES (?, ?, ?, ?, ?)",
            (time.time(), kind, latest if latest >= 0 else None, version, detail),
        )

    def schedule_rollback(self, version: int) -> None:
        """Write a rollback that the next server carries out when it starts.

        Raises:
            StorageError: the disk is full or refuses.
        """
        with self.lock, storage_errors(self.folder, HINT), self._db:
            self._add_event("rollback", version, f"back to version {version}", len(self) - 1)
            self._db.execute("INSERT OR REPLACE INTO manifest VALUES (?, ?)", (ROLLBACK, json.dumps(version)))

    @property
    def scheduled_rollback(self) -> int | None:
        """The version to go back to before anything else; None if there is nothing to do."""
        version: int | None = self.manifest.get(ROLLBACK)
        return version

    def complete_rollback(self, snapshot: bytes) -> None:
        """Write the learner's state after a scheduled rollback.

        Raises:
            StorageError: the disk is full or refuses.
        """
        with self.lock, storage_errors(self.folder, HINT), self._db:
            self._learned(max(0, len(self) - 1), snapshot)
            self._db.execute("DELETE FROM manifest WHERE key = ?", (ROLLBACK,))

    def drop_waiting(self) -> None:
        """Give up all lessons that have not been held."""
        with self.lock:
            for record in self.waiting():
                self.add_lesson(replace(record, outcome="dropped"))

    def add_feedback(self, position: int, correct: bool | None, chance: float | None = None) -> Label:
        """Write what a person said about an answer; a later word counts, an earlier one is kept.

        Args:
            position: of the record.
            correct: whether its answer is right; None takes back what was said of it.
            chance: probability that this answer was asked about, in (0, 1]; None if a user volunteered it.

        Raises:
            ParameterError: there is no such record, or the chance lies outside (0, 1].
            StorageError: the disk is full or refuses.
        """
        with self.lock:
            record = self.served(position).record
            number = 1 + next(self._read("SELECT coalesce(max(number), 0) FROM labels"))[0]
            label = label_of(record, correct, number=number, source="feedback", chance=chance)
            with storage_errors(self.folder, HINT), self._db:
                label_log.add_label(self._db, label)
            return label

    def label_log(self, after: int = 0) -> tuple[Label, ...]:
        with self.lock:
            entries = super().label_log(after)
            return entries or tuple(label for label in old_feedback(self) if label.number > after)

    def served(self, position: int) -> Served:
        """One record.

        Raises:
            ParameterError: there is no such record.
        """
        latest = self.latest(1, until=position)
        if not latest or latest[0].record.position != position:
            raise ParameterError(f"there is no record {position}; the latest is {len(self) - 1}.")
        return latest[0]

    def latest(self, count: int, *, until: int | None = None) -> list[Served]:
        """The last records up to position `until`, the oldest first."""
        with self.lock:
            last = len(self) - 1 if until is None else min(until, len(self) - 1)
            first = max(0, last - count + 1)
            records = list(self.records("r.position BETWEEN ? AND ?", first, last))
            query = "SELECT time, batch FROM served WHERE position BETWEEN ? AND ? ORDER BY position"
            rows = list(self._read(query, first, last))
            said = said_of(self, first, last)
            try:
                return [
                    Served(record, moment, batch, said.get(record.position))
                    for record, (moment, batch) in zip(records, rows, strict=True)
                ]
            except ValueError as problem:  # a record without its circumstances, or the other way round
                raise self._damaged(problem) from problem

    def waiting(self) -> list[Record]:
        """Records whose lesson has not been held yet."""
        with self.lock:
            return list(self.records("r.outcome = 'waiting'"))

    def entropies(self) -> list[float]:
        """Of all replies in order: what the gate has seen. It sees no answers that were given."""
        with self.lock:
            rows = self._read(f"SELECT entropy FROM decisions JOIN records USING (position) {OWN} ORDER BY position")
            return [float(entropy) for (entropy,) in rows]

    def gaps(self) -> list[float | None]:
        """Of all records in order: what a gate that watches gaps has seen (`secl.gates.gap_of`)."""
        with self.lock:
            rows = self._read(f"SELECT confidence, signal FROM records {OWN} ORDER BY position")
            return [None if signal is None else float(confidence) - float(signal) for confidence, signal in rows]

    def events(self, count: int | None = None) -> list[Event]:
        """The latest events, the oldest first; None gives all of them."""
        with self.lock:
            query = "SELECT time, kind, position, version, detail FROM events ORDER BY id DESC LIMIT ?"
            unlimited = -1  # SQLite's word for it
            return [Event(*row) for row in self._read(query, unlimited if count is None else count)][::-1]

    def labelled(self) -> list[tuple[float, bool]]:
        """Reported confidence and correctness of all answers that people said something about."""
        labels = sorted(self.labels(), key=lambda label: label.position)
        return [(label.reported, bool(label.correct)) for label in labels]

    @property
    def tables(self) -> set[str]:
        """Names of its tables; a folder of an earlier version that is only read may lack some."""
        with self.lock:
            return {name for (name,) in self._read("SELECT name FROM sqlite_master WHERE type = 'table'")}

    @property
    def has_posteriors(self) -> bool:
        """Whether there is a table of posteriors."""
        return "posteriors" in self.tables

    def counts(self) -> dict[str, int]:
        """How many records there are of each kind of lesson."""
        with self.lock:
            return dict(self._read("SELECT outcome, count(*) FROM records GROUP BY outcome"))

    @property
    def paused(self) -> str | None:
        """Why learning is paused; None while it is not."""
        with self.lock:
            query = "SELECT kind, detail FROM events WHERE kind IN ('pause', 'resume') ORDER BY id DESC LIMIT 1"
            kind, detail = next(self._read(query), ("resume", ""))
            return str(detail) if kind == "pause" else None


def _synchronise(folder: Path) -> None:
    """Have the names in a new folder, and its own name, written to the disk."""
    for path in (folder, folder.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
