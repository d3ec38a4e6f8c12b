"""One SQLite file for each run, with one transaction for each question.

    manifest   key -> JSON: settings, fingerprints, environment, configuration of the adapter
    records    a row for each question: position, seconds, the record as JSON, and columns computed from the JSON
    versions   adapters after bursts and after every KEEP_EVERY updates: safetensors bytes with PEFT's names
    learner    a single row: the latest state of learning
    labels     a log of human judgements (`secl.labels.label.Label`)
    chain      hashes of all rows (`secl.runs.chain`)

Example rows, shortened:

    manifest   ("mode", '"ask"'), ("total", '40'), ("tau", '0.7'), ...
    records    (28, 0.41, '{"position": 28, "question": {"text": "What is the capital of ...', 'asked', None, 0, None)
    labels     (1, 28, 1, 0.82, "quiz/capitals", 0.82, 1795636800.0, "review", 1.0, 0, 0, null)

A transaction writes a question's record and the learner's state together. A run that is killed at any moment continues
after its last finished question.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter

from secl.display import Shown, counted
from secl.errors import ParameterError, QuestionError, RunError, StorageError
from secl.labels.label import Label, LabelKey, LabelSource, label_of, standing
from secl.records import Record
from secl.runs import chain
from secl.runs.encoding import from_body, to_body
from secl.runs.folder import (
    DAMAGE,
    FILE,
    RESUME,
    UNFINISHED,
    check_free,
    check_is_run,
    connect,
    lock_folder,
    storage_errors,
)

FORMAT = 19
"""Number of the file format of runs and servers. secl reads only this format."""

KEEP_EVERY = 50
"""Number of updates between two stored adapter versions inside a long burst."""

SCHEMA = """
CREATE TABLE manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE records (
    position INTEGER PRIMARY KEY, seconds REAL NOT NULL, body TEXT NOT NULL,
    kind TEXT NOT NULL AS (json_extract(body, '$.kind')) STORED,
    outcome TEXT AS (json_extract(body, '$.learning.outcome')) STORED,
    version INTEGER NOT NULL AS (json_extract(body, '$.reply.version')) STORED,
    learned INTEGER AS (json_extract(body, '$.learning.update.version')) STORED);
CREATE TABLE versions (version INTEGER PRIMARY KEY, position INTEGER NOT NULL, drift REAL,
    weights BLOB NOT NULL);
CREATE TABLE learner (id INTEGER PRIMARY KEY CHECK (id = 0), version INTEGER NOT NULL, snapshot BLOB NOT NULL);
CREATE TABLE labels (
    number INTEGER PRIMARY KEY, position INTEGER NOT NULL REFERENCES records, correct INTEGER,
    confidence REAL NOT NULL, domain TEXT NOT NULL, reported REAL NOT NULL, time REAL NOT NULL,
    source TEXT NOT NULL, chance REAL, skipped INTEGER NOT NULL, fact INTEGER NOT NULL,
    correct_answer TEXT);
"""
"""In `records`, `version` is the adapter version that answered, and `learned` is the version after the question's
update. `labels` has the fields of `secl.labels.label.Label` as columns. secl adds labels and never changes them."""

_SAMPLE = """
    SELECT position, fact,
        max(iif(chance IS NOT NULL AND (correct IS NOT NULL OR skipped), 2 * number + skipped, 0)) AS latest
    FROM labels WHERE position BETWEEN ? AND ? GROUP BY position, fact
    HAVING latest > 2 * max(iif(correct IS NULL AND NOT skipped, number, 0))"""

_LATEST = "SELECT position, correct, max(number) FROM labels WHERE position >= ? GROUP BY position, fact"

_FACT_COUNTS = """
    SELECT position, json_array_length(body, '$.facts') FROM records
    WHERE position >= ? AND json_type(body, '$.facts') = 'array' AND json_type(body, '$.posterior') = 'null'"""

REPLACED = ("learner", "failures", "checkpoints")
"""Tables in which a later row replaces the earlier row with the same key."""

_LABEL = tuple(field.name for field in fields(Label))
_LABELS = TypeAdapter(Label)


@dataclass(frozen=True, slots=True)
class Version:
    """An adapter version to store.

    Attributes:
        weights: safetensors bytes.
        drift: `Model.relative_norm`; None if not measured.
    """

    number: int
    weights: bytes
    drift: float | None = None


class Store(Shown):
    """An open run or server state, and a context manager. One process may write while other processes read.

    `db` is the connection to SQLite, for modules that store their own tables in the file.
    """

    def __init__(self, folder: str | Path, *, writable: bool = False) -> None:
        self.folder = folder = Path(folder)
        check_is_run(folder)
        with ExitStack() as resources:
            if writable:
                resources.enter_context(lock_folder(folder))
            self.db = resources.enter_context(closing(connect(folder / FILE, writable)))
            self._check_format()
            self._resources = resources.pop_all()

    @classmethod
    def create(cls, folder: Path, manifest: dict[str, object], tables: str = "") -> Self:
        """Make a new run folder with a manifest. `tables` is SQL that creates more tables.

        Raises:
            RunError: the folder is not empty.
            StorageError: writing fails.
        """
        check_free(folder)
        unfinished = folder / UNFINISHED
        with storage_errors(folder, "start again"):
            folder.mkdir(parents=True, exist_ok=True)
            unfinished.unlink(missing_ok=True)
            try:
                with closing(sqlite3.connect(unfinished)) as db, db:
                    db.executescript(f"PRAGMA journal_mode = WAL; {SCHEMA} {chain.TABLE} {tables}")
                    for key, value in {"format": FORMAT, **manifest}.items():
                        _write(db, "manifest", key, json.dumps(value))
                unfinished.rename(folder / FILE)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        try:
            return cls(folder, writable=True)
        except StorageError:
            (folder / FILE).unlink(missing_ok=True)  # without records, the file is useless and would block a new start
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _facts(self) -> dict[str, object]:
        try:
            return {"folder": self.folder, "records": len(self)}
        except RunError:  # the store is closed
            return {"folder": self.folder}

    def close(self) -> None:
        """Close the file and release the lock."""
        self._resources.close()

    def _check_format(self) -> None:
        number = self.manifest.get("format")
        if number != FORMAT:
            raise RunError(
                f"{self.folder} has the format {number}, but this version of secl reads format {FORMAT}; begin a new "
                "folder, or read this one with the version of secl that made it."
            )

    @property
    def manifest(self) -> dict[str, Any]:
        """Settings, fingerprints, environment and the configuration of the adapter."""
        rows = list(self.read("SELECT key, value FROM manifest"))
        try:
            return {key: json.loads(value) for key, value in rows}
        except (ValueError, TypeError, RecursionError) as problem:
            raise self.damaged(problem) from problem

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the block as one transaction. Raises StorageError: writing fails; the store is unchanged."""
        with storage_errors(self.folder, RESUME), self.db:
            yield

    def add(
        self, record: Record, seconds: float, *, snapshot: bytes | None = None, kept: Version | None = None
    ) -> None:
        """Write a record, with the learner's snapshot and an adapter version if given, in one transaction.

        Raises:
            StorageError: writing fails; the store is unchanged.
        """
        with self.writing():
            self.write_record(record, seconds)
            if snapshot is not None:
                self.write_snapshot(record.update.version if record.update else record.reply.version, snapshot)
            if kept is not None:
                self.write_version(kept, record.position)

    def keep(self, version: Version) -> None:
        """Store an adapter version with the position of the latest question."""
        with self.writing():
            self.write_version(version, len(self) - 1)

    def write(self, table: str, *row: object) -> None:
        """Write a row, whose first value is its key, and extend the chain, inside a transaction of the caller.

        Raises sqlite3.IntegrityError: the table has a row with this key, and is not one of `REPLACED`.
        """
        _write(self.db, table, *row)

    def write_record(self, record: Record, seconds: float) -> None:
        self.write("records", record.position, seconds, to_body(record))

    def write_snapshot(self, version: int, snapshot: bytes) -> None:
        self.write("learner", 0, version, snapshot)

    def write_version(self, version: Version, position: int) -> None:
        """Store an adapter version with the position of its latest question, unless the version is already stored."""
        if not self.keeps(version.number):
            self.write("versions", version.number, position, version.drift, version.weights)

    def records(self, where: str = "1", *values: object) -> Iterator[Record]:
        """Yield all records in order as stored, or only those whose row `r` satisfies the SQL condition `where`.

        Labels do not change stored records; `current_records` yields records with labels and present confidences.
        """
        for (body,) in self.read(f"SELECT body FROM records r WHERE {where} ORDER BY r.position", *values):
            try:
                yield from_body(body)
            except (
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                RecursionError,
                QuestionError,
                ParameterError,
            ) as problem:
                raise self.damaged(problem) from problem

    def record(self, position: int) -> Record:
        """Return the record at a position, or raise a ParameterError."""
        record = next(self.records("r.position = ?", position), None) if position in range(len(self)) else None
        if record is None:
            raise ParameterError(
                f"{self.folder} has no record {position}; its {len(self)} records are numbered from 0."
            )
        return record

    @property
    def is_server(self) -> bool:
        """Whether the folder holds the state of a server, not a run."""
        return bool(next(self.read("SELECT count(*) FROM sqlite_master WHERE name = 'served'"))[0])

    def __len__(self) -> int:
        """Return the number of records, including pruned records."""
        return int(next(self.read("SELECT coalesce(max(position) + 1, 0) FROM records"))[0])

    @property
    def first(self) -> int:
        """Position of the first stored record; a server prunes old records."""
        return int(next(self.read("SELECT coalesce(min(position), 0) FROM records"))[0])

    @property
    def pruned(self) -> str | None:
        """A sentence about pruned records; None if no record is pruned."""
        first = self.first
        return f"The records 0 to {first - 1} of {self.folder} were pruned." if first else None

    def keeps(self, version: int) -> bool:
        """Return whether an adapter version is stored."""
        return bool(list(self.read("SELECT 1 FROM versions WHERE version = ?", version)))

    @property
    def seconds(self) -> float:
        """Total time spent on all questions."""
        return float(next(self.read("SELECT total(seconds) FROM records"))[0])

    def snapshot(self) -> bytes | None:
        """Return the learner's latest state; None before the first update."""
        row = next(self.read("SELECT snapshot FROM learner"), None)
        return None if row is None else bytes(row[0])

    def add_feedback(
        self,
        position: int,
        correct: bool | None,
        chance: float | None = None,
        *,
        drawn: bool = False,
        skipped: bool = False,
        fact: int = 0,
    ) -> None:
        """Write a label, or that a reviewer `skipped` the answer; `correct=None` withdraws earlier entries.

        The latest label counts. The store keeps all labels.

        Args:
            chance: probability with which the answer was chosen for rating, in [1e-4, 1]; None for volunteers.
            drawn: whether a review drew the answer at random, so that its chance is 1.
            fact: number of the judged fact in a text; 0 for the whole answer, or for all facts of a text.

        Raises:
            ParameterError: the record or the fact does not exist, the text has several facts of which an unknown one is
                wrong, or the chance is out of range.
        """
        source: LabelSource = "review" if drawn else "feedback"
        chance = 1.0 if drawn else chance
        judged = _judged(self.record(position), fact, correct)
        self.add_labels(label_of(each, correct, source=source, chance=chance, skipped=skipped) for each in judged)

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Write the next entries of the log of labels in one transaction, and number them. Raises StorageError."""
        with self.writing():
            (latest,) = next(self.read("SELECT coalesce(max(number), 0) FROM labels"))
            for number, label in enumerate(labels, latest + 1):
                self.write("labels", *astuple(replace(label, number=number)))

    def sample(self, first: int = 0, last: int = 2**63 - 1) -> dict[LabelKey, bool]:
        """Return the answers at positions `first` to `last` in the random sample, and whether each is skipped.

        An answer belongs to the sample if it got a label, or a skip, of known chance since its entries were last
        withdrawn. Later labels of volunteers change nothing.
        """
        rows = self.read(_SAMPLE, first, last)
        return {(position, fact): bool(latest % 2) for position, fact, latest in rows}

    def fact_counts(self, first: int = 0) -> dict[int, int]:
        """Return the number of facts of each text from position `first` on that is judged by its facts, by position."""
        return dict(self.read(_FACT_COUNTS, first))

    def label_log(self, after: int = 0) -> tuple[Label, ...]:
        """Return all labels with a number above `after`, in order, including corrected and withdrawn labels."""
        try:
            rows = self.read("SELECT * FROM labels WHERE number > ? ORDER BY number", after)
            return tuple(_LABELS.validate_python(dict(zip(_LABEL, row, strict=True))) for row in rows)
        except (ValueError, ParameterError) as problem:
            raise self.damaged(problem) from problem

    def labels(self) -> tuple[Label, ...]:
        """Return the valid labels: the latest label of each answer, unless withdrawn."""
        return standing(self.label_log())

    def label_count(self) -> int:
        """Return the number of labelled answers and facts, without withdrawn labels."""
        return int(next(self.read(f"SELECT count(*) FROM ({_LATEST}) WHERE correct IS NOT NULL", 0))[0])

    def verdicts(self, position: int) -> dict[int, bool]:
        """Return whether an answer is labelled as right, by the number of the fact; 0 for the whole answer."""
        latest = "SELECT fact, correct, max(number) FROM labels WHERE position = ? GROUP BY fact"
        query = f"SELECT fact, correct FROM ({latest}) WHERE correct IS NOT NULL"
        return {fact: bool(correct) for fact, correct in self.read(query, position)}

    def label_counts(self, first: int) -> dict[int, int]:
        """Return the number of labels of each labelled answer from position `first` on, by position."""
        counted = f"SELECT position, count(*) FROM ({_LATEST}) WHERE correct IS NOT NULL GROUP BY position"
        return dict(self.read(counted, first))

    def versions(self) -> list[int]:
        """Return the numbers of the stored adapter versions."""
        return [int(version) for (version,) in self.read("SELECT version FROM versions ORDER BY version")]

    def weights(self, version: int) -> bytes:
        """Return a stored adapter version as safetensors bytes, or raise a RunError."""
        row = next(self.read("SELECT weights FROM versions WHERE version = ?", version), None)
        if row is None:
            numbers = ", ".join(map(str, self.versions())) or "none"
            raise RunError(f"{self.folder} does not keep adapter version {version}; the kept versions are {numbers}.")
        return bytes(row[0])

    def read(self, query: str, *values: object) -> Iterator[Any]:
        """Yield the rows of a query; raise a RunError if the file is damaged."""
        try:
            yield from self.db.execute(query, values)
        except DAMAGE as problem:
            raise self.damaged(problem) from problem

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Within the block, all reads see the same state, even if another process writes meanwhile."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            self.db.rollback()

    def damaged(self, problem: Exception) -> RunError:
        return RunError(f"{self.folder / FILE} is damaged or not a database of secl: {problem}.")


def _judged(record: Record, fact: int, correct: bool | None) -> Sequence[Record]:
    """Return the answer or the facts that a label is about. Raises ParameterError."""
    facts, position = record.facts or (), record.position
    if fact:
        if not 1 <= fact <= len(facts):
            raise ParameterError(
                f"the answer at position {position} has {counted(len(facts), 'fact')}, so it has no fact {fact}."
            )
        return facts[fact - 1 : fact]
    if record.parts is None:
        return [record]
    if not facts:
        raise ParameterError(f"the text at position {position} states no facts, so there is nothing to label.")
    if correct is False and len(facts) > 1:
        raise ParameterError(
            f"the text at position {position} states {len(facts)} facts; name the wrong one (fact: 1 to {len(facts)})."
        )
    return facts


def _write(db: sqlite3.Connection, table: str, *row: object) -> None:
    verb = "REPLACE" if table in REPLACED else "INSERT"
    db.execute(f"{verb} INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    chain.extend(db, table, row[0])
