"""A run's SQLite file: its tables, how it is opened, and how records, updates, versions and labels are rows in it.

Whatever inserts does so inside a transaction of its caller.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json

from secl.errors import RunError, StorageError
from secl.labels import MIN_CHANCE, Label
from secl.records import Record
from secl.runs.encoding import from_plain, to_plain

SCHEMA = """
CREATE TABLE manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE records (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL, domain TEXT NOT NULL, confidence REAL,
    frozen_confidence REAL, signal REAL, correct INTEGER, version INTEGER NOT NULL, outcome TEXT NOT NULL,
    seconds REAL NOT NULL, body TEXT NOT NULL);
CREATE TABLE decisions (
    position INTEGER PRIMARY KEY REFERENCES records, alarm INTEGER NOT NULL, in_burst INTEGER NOT NULL,
    remaining INTEGER NOT NULL, statistic REAL, entropy REAL);
CREATE TABLE updates (
    version INTEGER PRIMARY KEY, position INTEGER NOT NULL REFERENCES records, before REAL NOT NULL,
    target REAL NOT NULL, after REAL NOT NULL, losses TEXT NOT NULL);
CREATE TABLE versions (version INTEGER PRIMARY KEY, position INTEGER NOT NULL, drift REAL,
    weights BLOB NOT NULL);
CREATE TABLE learner (id INTEGER PRIMARY KEY CHECK (id = 0), position INTEGER NOT NULL, snapshot BLOB NOT NULL);
CREATE TABLE labels (
    number INTEGER PRIMARY KEY, position INTEGER NOT NULL REFERENCES records, correct INTEGER,
    confidence REAL NOT NULL, domain TEXT NOT NULL, reported REAL NOT NULL, time REAL NOT NULL,
    source TEXT NOT NULL, chance REAL);
"""
"""A label is a row with the fields of `secl.labels.Label`; entries are added and never changed."""

RECORDS = """
SELECT r.body, d.alarm, d.in_burst, d.remaining, d.statistic, u.version, u.before, u.target, u.after, u.losses
FROM records r JOIN decisions d USING (position) LEFT JOIN updates u USING (position)"""
"""The rows that `read_record` reads."""

LABEL = tuple(field.name for field in fields(Label))
_LABELS = TypeAdapter(Label)


@dataclass(frozen=True, slots=True)
class Version:
    """An adapter version to keep.

    Attributes:
        number: of the version.
        weights: in the safetensors format.
        drift: norm of what it adds to the weights over that of the weights; None where nobody measured it.
    """

    number: int
    weights: bytes
    drift: float | None = None


def insert_record(db: sqlite3.Connection, record: Record, seconds: float) -> None:
    """Write a record with its decision and its update."""
    body = to_plain(record)
    decision, update = body.pop("decision"), body.pop("update")
    db.execute(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record.position,
            record.question.id,
            record.question.domain,
            record.reply.stated,
            record.frozen.stated,
            record.signal,
            record.correct,
            record.reply.version,
            record.outcome,
            seconds,
            json.dumps(body),
        ),
    )
    db.execute(
        "INSERT INTO decisions VALUES (:position, :alarm, :in_burst, :remaining, :statistic, :entropy)",
        {**decision, "position": record.position, "entropy": record.reply.entropy},
    )
    if update is not None:
        insert_update(db, record.position, update)


def insert_update(db: sqlite3.Connection, position: int, update: Mapping[str, object]) -> None:
    """Write the update of a record."""
    db.execute(
        "INSERT INTO updates VALUES (:version, :position, :before, :target, :after, :losses)",
        {**update, "losses": json.dumps(update["losses"]), "position": position},
    )


def insert_snapshot(db: sqlite3.Connection, position: int, snapshot: bytes) -> None:
    """Write the learner's state, in place of an earlier one."""
    db.execute("INSERT OR REPLACE INTO learner VALUES (0, ?, ?)", (position, snapshot))


def insert_version(db: sqlite3.Connection, version: Version, position: int) -> None:
    """Keep an adapter version as the one after a position, unless it is kept already."""
    values = (version.number, position, version.drift, version.weights)
    db.execute("INSERT OR IGNORE INTO versions VALUES (?, ?, ?, ?)", values)


def add_label(db: sqlite3.Connection, label: Label) -> None:
    """Write an entry of the log of labels; its number must be the next one."""
    db.execute("INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", astuple(label))


def read_label(row: tuple[Any, ...]) -> Label:
    """A label from its row."""
    values = dict(zip(LABEL, row, strict=True))
    if isinstance(values["chance"], float):  # one label of a tiny chance must not keep a state from being read
        values["chance"] = max(MIN_CHANCE, values["chance"])
    return _LABELS.validate_python(values)


def read_record(row: tuple[Any, ...]) -> Record:
    """A record from its row, with its decision and its update."""
    body, alarm, in_burst, remaining, statistic, version, before, target, after, losses = row
    update = {"version": version, "before": before, "target": target, "after": after}
    return from_plain(
        {
            **_values(body),
            "decision": {
                "alarm": bool(alarm),
                "in_burst": bool(in_burst),
                "remaining": remaining,
                "statistic": statistic,
            },
            "update": None if version is None else {**update, "losses": json.loads(losses)},
        }
    )


def _values(body: str) -> dict[str, object]:
    """The JSON object of a row, by a parser that is three times as fast as Python's."""
    try:
        return dict(from_json(body))
    except ValueError:  # half a character, which only Python's parser reads
        return dict(json.loads(body))


def connect(path: Path, writable: bool) -> sqlite3.Connection:
    """Open a run's file.

    Raises:
        RunError: it is no database.
    """
    # A server's threads take turns with it; see `secl.server.store`.
    db = sqlite3.connect(path, timeout=30, isolation_level="DEFERRED", check_same_thread=False)
    try:
        if not writable:
            db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.DatabaseError as problem:
        db.close()
        if isinstance(problem, sqlite3.OperationalError):  # the disk refuses, whatever the file holds
            raise StorageError(
                f"cannot open {path}: {problem}; free space or permissions, then try again."
            ) from problem
        raise RunError(f"{path} is damaged or no run: {problem}.") from problem
    return db
