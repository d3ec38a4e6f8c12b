"""What a server remembers: the tables of a run (`secl.runs.store`), and beside them those of `secl.server.tables`.

    served       when each question was answered and with how many others, and what lists and filters read of its record
    events       what happened to learning: rollbacks, pauses and resumes, failed updates
    checkpoints  where the stream stood every so many records (`secl.server.stream`)
    counts       counters of records by outcome
    words        of questions and answers, where texts are kept

Labels, what people said about answers, are a log: confidences follow it, weights never learn from it. A reply is sent
after its record is on disk, synchronised, so that it also survives a power cut. Its lesson, if it gets one, is written
later, together with the learner's new state.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from secl.errors import ParameterError, RunError
from secl.labels.label import Label, LabelSource, label_of
from secl.machine import synchronise
from secl.records import Record
from secl.runs.encoding import to_body
from secl.runs.folder import FILE, check_free, storage_errors
from secl.runs.store import Store, Version
from secl.server.entries import Event, EventKind, Served, Values, new_record_id
from secl.server.folder import make_private
from secl.server.redaction import Keep, redacted
from secl.server.tables import TABLES, insert_served

HINT = "a running server goes on by itself"
"""What a user has to do once the disk takes records again."""

AT_START = "start again, or name another folder"
"""The same where the server has not begun."""

BUSY_TIMEOUT = 1.0
"""Seconds that a write waits for a database that another process has locked; people are waiting for their answers."""

OWN = "outcome != 'given'"
"""Condition on a record: the model answered itself, so the gate saw it."""


class _SharedStore(Store):
    """The tables of a run on a connection that threads share: a query is read whole, between two transactions."""

    def __init__(self, folder: Path, lock: AbstractContextManager[bool]) -> None:
        self.lock = lock
        super().__init__(folder, writable=True)

    def read(self, query: str, *values: object) -> Iterator[Any]:
        with self.lock:
            return iter([*super().read(query, *values)])


class ServerStore:
    """The open state folder of a server. Its methods may be called from any thread.

    Without `writable` it is opened for reading, also while its server writes.

    Attributes:
        store: the tables that it has in common with a run.
        lock: is held while several statements belong together.

    Raises:
        RunError: it is no server's state, or damaged.
    """

    def __init__(self, folder: Path, *, writable: bool = False) -> None:
        if not (folder / FILE).is_file():
            raise RunError(f"{folder} is no server's state (it has no {FILE}); name the folder of secl serve.")
        with ExitStack() as failure:
            self.lock = threading.RLock()
            store = _SharedStore(folder, self.lock) if writable else Store(folder)
            self.store: Store = failure.enter_context(store)
            self.folder, self.db = folder, store.db
            if not self.store.is_server:
                raise RunError(f"{folder} is a run and no server's state; name another folder.")
            if writable:
                make_private(folder)
            self.db.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT)}")
            # A run that loses its last question in a power cut asks it again. A reply that was sent cannot be unsent.
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.execute("PRAGMA secure_delete = ON")  # what is pruned is gone from the file, too
            self.keep_text: Keep = self.store.manifest["keep_text"]
            failure.pop_all()

    @classmethod
    def create(cls, folder: Path, manifest: Values) -> Self:
        """Create the state folder of a new server, which only its user can read.

        Raises:
            RunError: the folder holds a run or other files already, or cannot be closed to other users.
            StorageError: it cannot be written.
        """
        check_free(folder)
        with storage_errors(folder, AT_START):
            make_private(folder)
            Store.create(folder, manifest, TABLES).close()
            for path in (folder, folder.parent):
                synchronise(path)
        return cls(folder, writable=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and of the right to write."""
        self.store.close()

    def __len__(self) -> int:
        """How many records there ever were: the position of the next one."""
        return len(self.store)

    @property
    def first(self) -> int:
        """Position of the first record that is kept; those before it were pruned."""
        return self.store.first

    def rows(self, query: str, *values: object) -> list[Any]:
        """All rows of a query, read while no other thread writes; a damaged file is a `RunError`."""
        return list(self.store.read(query, *values))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Context in which everything is written, or nothing of it; a disk that refuses is a `StorageError`."""
        with self.lock, storage_errors(self.folder, HINT), self.db:
            yield

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

    def add_answers(
        self,
        records: Sequence[Record],
        seconds: float,
        *,
        moment: float,
        version: Version | None = None,
        checkpoint: bytes | None = None,
        ids: Sequence[str] = (),
    ) -> None:
        """Write the records of questions that were answered together, or nothing of them.

        Args:
            seconds: that the pass took; each question has an equal part.
            moment: when, in seconds since 1970.
            version: that answered, if it is not kept yet.
            checkpoint: where the stream stands after them, if that is to be kept.
            ids: of the records, where their clients know them already.
        """
        first, count, words = records[0].position, len(records), self.keep_text == "full"
        with self.writing():
            for record, identifier in zip(records, ids or [new_record_id() for _ in records], strict=True):
                self.store.write_record(redacted(record, self.keep_text), seconds / count)
                insert_served(self.db, record, identifier, moment, count, words=words)
            if version is not None:
                self.store.write_version(version, first)
            if checkpoint is not None:
                self.write_checkpoint(first + count, checkpoint)

    def write_checkpoint(self, position: int, checkpoint: bytes) -> None:
        """Write where the stream stands before a position, inside a transaction."""
        self.db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", (position, checkpoint))

    def add_lesson(self, record: Record, *, snapshot: bytes | None = None) -> None:
        """Write what came of a lesson into its record, and the learner's state where the lesson changed it."""
        body = to_body(redacted(record, self.keep_text))
        with self.writing():
            self.db.execute("UPDATE records SET body = ? WHERE position = ?", (body, record.position))
            if snapshot is not None and record.update is not None:
                self.store.write_snapshot(record.update.version, snapshot)

    def add_event(self, kind: EventKind, version: int, detail: str, *, snapshot: bytes | None = None) -> None:
        """Write an event, and the learner's state where the event changed it."""
        with self.writing():
            latest = len(self) - 1
            self.db.execute(
                "INSERT INTO events (time, kind, position, version, detail) VALUES (?, ?, ?, ?, ?)",
                (time.time(), kind, latest if latest >= 0 else None, version, detail),
            )
            if snapshot is not None:
                self.store.write_snapshot(version, snapshot)

    def add_feedback(
        self, position: int, correct: bool | None, chance: float | None = None, *, drawn: bool = False
    ) -> Label:
        """Write what a person said about an answer; a later word counts, an earlier one is kept.

        Args:
            correct: whether its answer is right; None takes back what was said of it.
            chance: probability that this answer was asked about, in [1e-4, 1]; None if a user volunteered it.
            drawn: whether a review drew it by lot, with a chance that is equal for all.

        Raises:
            ParameterError: there is no such record, or the chance lies outside [1e-4, 1].
        """
        with self.writing():
            record = self.served(position).record
            number = 1 + self.rows("SELECT coalesce(max(number), 0) FROM labels")[0][0]
            source: LabelSource = "review" if drawn else "feedback"
            label = label_of(record, correct, number=number, source=source, chance=1.0 if drawn else chance)
            self.store.write_label(label)
            return label

    def is_drawn(self, position: int) -> bool:
        """Whether the latest label of a record was drawn with a known chance."""
        query = "SELECT chance FROM labels WHERE position = ? ORDER BY number DESC LIMIT 1"
        return any(chance is not None for (chance,) in self.rows(query, position))

    def label_log(self, after: int = 0) -> tuple[Label, ...]:
        """All labels behind this number in order, also those that were corrected or taken back later."""
        return self.store.label_log(after)

    def position_of(self, name: str) -> int:
        """Return the position of a record from its id, or from its number.

        Raises:
            ParameterError: no record has this id.
        """
        if name.isascii() and name.isdigit() and len(name) <= 18:
            return int(name)
        for (position,) in self.rows("SELECT position FROM served WHERE id = ?", name):
            return int(position)
        pruned = f"; those before record {self.first} were pruned" if self.first else ""
        raise ParameterError(f"there is no record {name[:40]!r}{pruned}.")

    def served(self, position: int) -> Served:
        """One record. Raises ParameterError: there is no such record, or it was pruned."""
        if 0 <= position < self.first:
            raise ParameterError(f"the record {position} was pruned; kept are {self.first} to {len(self) - 1}.")
        latest = self.latest(1, until=position)
        if not latest or latest[0].record.position != position:
            raise ParameterError(f"there is no record {position}; the latest is {len(self) - 1}.")
        return latest[0]

    def latest(self, count: int, *, until: int | None = None) -> list[Served]:
        """The last records up to position `until`, the oldest first."""
        with self.lock:
            last = len(self) - 1 if until is None else min(until, len(self) - 1)
            first = max(0, last - count + 1)
            records = list(self.store.records("r.position BETWEEN ? AND ?", first, last))
            query = "SELECT id, time, batch, correct FROM served WHERE position BETWEEN ? AND ? ORDER BY position"
            rows = self.rows(query, first, last)
        if len(rows) != len(records):
            raise self.store.damaged(ValueError("records and their circumstances do not fit together"))
        return [
            Served(record, identifier, moment, batch, None if correct is None else bool(correct))
            for record, (identifier, moment, batch, correct) in zip(records, rows, strict=True)
        ]

    def waiting(self) -> list[Record]:
        """Records whose lesson has not been held yet."""
        return list(self.store.records("r.outcome = 'waiting'"))

    def events(self, count: int = -1, *kinds: EventKind, before: float = math.inf) -> list[Event]:
        """The latest events up to a moment (seconds since 1970), of these kinds if any is named; the oldest first.

        At most `count` of them; -1 for no limit.
        """
        query = f"""
            SELECT time, kind, position, version, detail FROM events
            WHERE {f"kind IN ({', '.join('?' * len(kinds))})" if kinds else "1"} AND time <= ?
            ORDER BY id DESC LIMIT ?"""
        return [Event(*row) for row in self.rows(query, *kinds, before, count)][::-1]

    def counts(self) -> dict[str, int]:
        """How many records there ever were of each outcome of a lesson."""
        return dict(self.rows("SELECT outcome, value FROM counts WHERE value > 0"))

    def paused(self, moment: float = math.inf) -> str | None:
        """Why learning is paused, or was at a moment (seconds since 1970); None if it is not."""
        changes = self.events(1, "pause", "resume", before=moment)
        return changes[0].detail if changes and changes[0].kind == "pause" else None


@contextmanager
def at_one_moment(folder: Path) -> Iterator[ServerStore]:
    """A state folder on a connection of its own: no answer waits for what is read, and all of it is of one moment."""
    with ServerStore(folder) as reader, reader.moment():
        yield reader
