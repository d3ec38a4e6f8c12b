"""What a server remembers: a run folder, and beside its tables

    served      when each question was answered, and with how many others in one pass
    events      what happened to learning: rollbacks, pauses and resumes, alerts
    labels      what people said about answers, a log; weights never learn from it, confidences follow it
    posteriors  of the records that have one: group, reported confidence, what is counted
    checkpoints where the stream stood every so many records (`secl.server.audit.checkpoint`)

`secl.server.audit.schema` has them, with counters and indexes; older records may have been pruned (`secl prune`).

A reply is sent after its record is on disk, synchronised, so that it also survives a power cut; where the disk refuses,
the reply says that it is not stored. Its lesson, if it gets one, is written later, together with the learner's new
state, so that a server that is killed at any moment goes on from its last lesson.

Only the user who runs the server can read the folder.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from secl.errors import ParameterError, RunError
from secl.labels import Label, LabelSource, label_of
from secl.records import Record
from secl.runs import label_log
from secl.runs.encoding import to_plain
from secl.runs.folder import FILE, check_free, storage_errors, synchronise
from secl.runs.store import Store, Version
from secl.server.audit import checkpoint
from secl.server.audit.entries import Event, EventKind, Served, position_of
from secl.server.audit.index import add_to_index, index_tables
from secl.server.audit.permissions import make_folder, make_private
from secl.server.audit.posteriors import posterior_row
from secl.server.audit.redaction import Keep, redacted, secret_of
from secl.server.audit.schema import TABLES
from secl.stream_state import StreamState

HINT = "a running server goes on by itself"
"""What a user has to do once the disk takes records again."""

AT_START = "start again, or name another folder with --state"
"""The same where the server has not begun."""

BUSY_TIMEOUT = 1.0
"""Seconds that a write waits for a database that another process has locked; people are waiting for their answers."""

_EVENTS = "SELECT time, kind, position, version, detail FROM events"
_UNLIMITED = -1
"""SQLite's word for a limit that is none."""

OWN = "WHERE outcome NOT IN ('given', 'unrated')"
"""Condition on a record: the model answered itself and was asked for its confidence, so the gate saw it."""


class ServerStore(Store):
    """The open state folder of a server. Its methods may be called from any thread."""

    def __init__(self, folder: Path, *, writable: bool = False) -> None:
        if not (folder / FILE).is_file():
            raise RunError(f"{folder} is no server's state (it has no {FILE}); name the folder of secl serve --state.")
        with Store(folder) as store:
            if not store.is_server:
                raise RunError(f"{folder} is a run and no server's state; name another folder with --state.")
        super().__init__(folder, writable=writable)
        self.lock = threading.RLock()
        try:
            if writable:
                make_private(folder)
            self.db.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT)}")
            # A run that loses its last question in a power cut asks it again. A reply that was sent cannot be unsent.
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.execute("PRAGMA secure_delete = ON")  # what is pruned is gone from the file, too
            self.keep_text: Keep = self.manifest["keep_text"]
            self._secret = secret_of(folder) if writable and self.keep_text == "hash" else b""
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
        with storage_errors(folder, AT_START):
            make_folder(folder)
            make_private(folder)
        state = super().create(folder, manifest, tables + index_tables())
        with storage_errors(folder, AT_START):
            for path in (folder, folder.parent):
                synchronise(path)
        return state

    @property
    def changes(self) -> int:
        """Rows that were written since it was opened: as long as it is the same, nothing has changed."""
        return self.db.total_changes

    def add_answers(
        self,
        records: Sequence[Record],
        seconds: float,
        *,
        moment: float,
        kept: Version | None = None,
        stream: StreamState | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """Write the records of questions that were answered together, in one transaction.

        Args:
            records: at the next positions.
            seconds: that the pass took; each question has an equal part.
            moment: when, in seconds since 1970.
            kept: the adapter version that answered, if it is not kept yet.
            stream: where the stream stands after them, which is written every `checkpoint.EVERY` records.
            names: of those that are asked for by another name than their position, by position.

        Raises:
            StorageError: the disk is full or refuses; nothing of them is kept.
        """
        first, count = records[0].position, len(records)
        with self.lock, storage_errors(self.folder, HINT), self.db:
            for record in records:
                self._add(redacted(record, self.keep_text, self._secret), seconds / count)
                add_to_index(self, record)
                name = (names or {}).get(record.position)
                self.db.execute("INSERT INTO served VALUES (?, ?, ?, ?)", (record.position, moment, count, name))
                if (row := posterior_row(record)) is not None:
                    self.db.execute("INSERT INTO posteriors VALUES (?, ?, ?, ?)", row)
            if kept is not None and not self.keeps(kept.number):
                self._keep(kept, first)
            if stream is not None and (first + count) // checkpoint.EVERY > first // checkpoint.EVERY:
                checkpoint.write(self, stream)

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Context in which all reads see one moment, also while a server goes on writing."""
        with self.lock:
            if self.db.in_transaction:
                yield
                return
            self.db.execute("BEGIN")
            try:
                yield
            finally:
                self.db.rollback()

    def add_lesson(self, record: Record, *, snapshot: bytes | None = None) -> None:
        """Write what came of a lesson: a record that is there already, now with its evidence, signal and update.

        Args:
            record: the whole record.
            snapshot: the learner's state, where the lesson changed it.

        Raises:
            StorageError: the disk is full or refuses; nothing of the lesson is kept.
        """
        body = to_plain(redacted(record, self.keep_text, self._secret))
        del body["decision"]
        update = body.pop("update")
        with self.lock, storage_errors(self.folder, HINT), self.db:
            self.db.execute(
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
        with self.lock, storage_errors(self.folder, HINT), self.db:
            latest = len(self) - 1
            self.db.execute(
                "INSERT INTO events (time, kind, position, version, detail) VALUES (?, ?, ?, ?, ?)",
                (time.time(), kind, latest if latest >= 0 else None, version, detail),
            )
            if snapshot is not None:
                self._learned(max(0, latest), snapshot)

    def add_feedback(
        self, position: int, correct: bool | None, chance: float | None = None, *, drawn: bool = False
    ) -> Label:
        """Write what a person said about an answer; a later word counts, an earlier one is kept.

        Args:
            position: of the record.
            correct: whether its answer is right; None takes back what was said of it.
            chance: probability that this answer was asked about, in (0, 1]; None if a user volunteered it.
            drawn: whether a review drew it by lot, with a chance that is equal for all.

        Raises:
            ParameterError: there is no such record, it has no confidence, or the chance lies outside (0, 1].
            StorageError: the disk is full or refuses.
        """
        with self.lock:
            record = self.served(position).record
            if not record.rated:
                raise ParameterError(f"the record {position} has no confidence that a label could be about.")
            number = 1 + next(self.read("SELECT coalesce(max(number), 0) FROM labels"))[0]
            source: LabelSource = "review" if drawn else "feedback"
            label = label_of(record, correct, number=number, source=source, chance=1.0 if drawn else chance)
            with storage_errors(self.folder, HINT), self.db:
                label_log.add_label(self.db, label)
            return label

    def label_log(self, after: int = 0) -> tuple[Label, ...]:
        with self.lock:
            return super().label_log(after)

    def served(self, position: int) -> Served:
        """One record.

        Raises:
            ParameterError: there is no such record, or it was pruned.
        """
        if 0 <= position < self.first:
            raise ParameterError(f"the record {position} was pruned; kept are {self.first} to {len(self) - 1}.")
        latest = self.latest(1, until=position)
        if not latest or latest[0].record.position != position:
            raise ParameterError(f"there is no record {position}; the latest is {len(self) - 1}.")
        return latest[0]

    def position_of(self, name: str) -> int:
        """The position of a record from its id, from the name under which a stream promised it, or from a bare number.

        Raises:
            ParameterError: there is no such name.
        """
        with self.lock:
            row = next(self.read("SELECT position FROM served WHERE name = ?", name), None)
        return position_of(name) if row is None else int(row[0])

    def latest(self, count: int, *, until: int | None = None) -> list[Served]:
        """The last records up to position `until`, the oldest first."""
        with self.lock:
            last = len(self) - 1 if until is None else min(until, len(self) - 1)
            first = max(0, last - count + 1)
            records = list(self.records("r.position BETWEEN ? AND ?", first, last))
            query = "SELECT time, batch FROM served WHERE position BETWEEN ? AND ? ORDER BY position"
            rows = list(self.read(query, first, last))
            standing = "SELECT position, correct FROM standing WHERE position BETWEEN ? AND ?"
            said = {each: bool(correct) for each, correct in self.read(standing, first, last)}
            try:
                return [
                    Served(record, moment, batch, said.get(record.position))
                    for record, (moment, batch) in zip(records, rows, strict=True)
                ]
            except ValueError as problem:  # a record without its circumstances, or the other way round
                raise self.damaged(problem) from problem

    def waiting(self) -> list[Record]:
        """Records whose lesson has not been held yet."""
        with self.lock:
            return list(self.records("r.outcome = 'waiting'"))

    def events(self, count: int | None = None) -> list[Event]:
        """The latest events, the oldest first; None gives all of them."""
        with self.lock:
            rows = self.read(f"{_EVENTS} ORDER BY id DESC LIMIT ?", _UNLIMITED if count is None else count)
            return [Event(*row) for row in rows][::-1]

    def latest_event(self, *kinds: EventKind, before: float = math.inf) -> Event | None:
        """The latest event of these kinds that was not after a moment (seconds since 1970); None without any."""
        wanted = ", ".join("?" * len(kinds))
        query = f"{_EVENTS} WHERE kind IN ({wanted}) AND time <= ? ORDER BY id DESC LIMIT 1"
        with self.lock:
            row = next(self.read(query, *kinds, before), None)
            return None if row is None else Event(*row)

    def labelled(self, count: int | None = None) -> list[tuple[float, bool]]:
        """Reported confidence and correctness of the latest answers that people said something about, in order.

        Args:
            count: most of them; None gives all.
        """
        query = "SELECT reported, correct FROM standing ORDER BY position DESC LIMIT ?"
        with self.lock:
            rows = self.read(query, _UNLIMITED if count is None else count)
            return [(float(reported), bool(correct)) for reported, correct in rows][::-1]

    @property
    def label_count(self) -> int:
        """How many answers people said something about that stands."""
        with self.lock:
            return int(next(self.read("SELECT count(*) FROM standing"))[0])

    def counts(self, kind: str = "outcome") -> dict[str, int]:
        """How many records there ever were of each kind of lesson, or another counter (`secl.server.audit.schema`)."""
        with self.lock:
            return dict(self.read("SELECT name, value FROM counts WHERE kind = ? AND value > 0", kind))

    @property
    def paused(self) -> str | None:
        """Why learning is paused; None while it is not."""
        latest = self.latest_event("pause", "resume")
        return latest.detail if latest is not None and latest.kind == "pause" else None
