"""The log of labels in a run's or a server's SQLite file: entries are added and never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from secl.labels import Label

TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    number INTEGER PRIMARY KEY, position INTEGER NOT NULL REFERENCES records, correct INTEGER,
    confidence REAL NOT NULL, domain TEXT NOT NULL, reported REAL NOT NULL, time REAL NOT NULL,
    source TEXT NOT NULL, chance REAL);
"""
"""One row for each entry (`secl.labels.Label`).

`correct` is NULL where earlier labels of the record are taken back, `chance` where nobody knows it.
"""

_COLUMNS = "number, position, correct, confidence, domain, reported, time, source, chance"


def add_label(db: sqlite3.Connection, label: Label) -> None:
    """Write an entry; its number must be the next one."""
    db.execute(
        f"INSERT INTO labels ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            label.number,
            label.position,
            label.correct,
            label.confidence,
            label.domain,
            label.reported,
            label.time,
            label.source,
            label.chance,
        ),
    )


def read_labels(db: sqlite3.Connection, after: int = 0) -> Iterator[Label]:
    """All entries behind this number in order; none in a run that nobody has labelled."""
    if not has_labels(db):
        return
    for number, position, correct, confidence, domain, reported, time, source, chance in db.execute(
        f"SELECT {_COLUMNS} FROM labels WHERE number > ? ORDER BY number", (after,)
    ):
        yield Label(
            number=number,
            position=position,
            correct=None if correct is None else bool(correct),
            confidence=confidence,
            domain=domain,
            reported=reported,
            time=time,
            source=source,
            chance=chance,
        )


def has_labels(db: sqlite3.Connection) -> bool:
    """Whether there is a table of labels."""
    return bool(db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'labels'").fetchone()[0])
