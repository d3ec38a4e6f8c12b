"""A server's own tables, with counters and indexes, so that the overview needs no table scan.

Triggers update the counters in the transaction that changes a record. Counters include pruned records.
"""

from __future__ import annotations

import sqlite3

from secl.evaluation.json_values import defined
from secl.records import Record
from secl.server.entries import answer_text

TABLES = """
CREATE TABLE served (
    position INTEGER PRIMARY KEY REFERENCES records, id TEXT NOT NULL UNIQUE, time REAL NOT NULL,
    batch INTEGER NOT NULL, reported REAL, frozen REAL, accepted INTEGER);
ALTER TABLE records ADD COLUMN domain TEXT AS (json_extract(body, '$.question.domain'));
CREATE VIEW answers AS
    SELECT s.*, r.domain, r.outcome, r.version, r.body,
        (SELECT correct FROM labels WHERE position = s.position ORDER BY number DESC LIMIT 1) AS correct
    FROM served s JOIN records r USING (position);
CREATE INDEX lessons ON records (outcome);
CREATE INDEX answered_by ON records (version);
CREATE INDEX learned_by ON records (learned) WHERE learned IS NOT NULL;
CREATE INDEX kept_at ON versions (position);
CREATE INDEX labels_of ON labels (position, number);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, position INTEGER, version INTEGER, detail TEXT);
CREATE INDEX event_kinds ON events (kind);
CREATE TABLE checkpoints (position INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE counts (outcome TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

CREATE TRIGGER record_added AFTER INSERT ON records BEGIN
    INSERT INTO counts VALUES (NEW.outcome, 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER record_changed AFTER UPDATE ON records WHEN OLD.outcome != NEW.outcome BEGIN
    UPDATE counts SET value = value - 1 WHERE outcome = OLD.outcome;
    INSERT INTO counts VALUES (NEW.outcome, 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;

CREATE VIRTUAL TABLE words USING fts5(question, answer, tokenize = "unicode61 remove_diacritics 2");
CREATE TRIGGER words_deleted AFTER DELETE ON served BEGIN
    DELETE FROM words WHERE rowid = OLD.position; END;
"""
"""`served` has a row for each record: its random id, the time in seconds since 1970, the number of answers in the same
pass, and `reported_numbers`. The view `answers` adds the columns for lists, filters and charts, and the latest label.
"""

INDEXED = 10_000
"""Characters of a question, and of an answer, whose words are indexed."""


def reported_numbers(record: Record) -> tuple[float | None, float | None, bool | None]:
    """Return the confidence, the frozen model's stated confidence, and whether the threshold accepts the answer."""
    return defined(record.confidence), defined(record.frozen.stated), record.accepted


def insert_served(
    db: sqlite3.Connection, record: Record, identifier: str, time: float, batch: int, *, words: bool
) -> None:
    """Write the row of a record, and its `words` for the search, in the transaction that writes the record."""
    row = (record.position, identifier, time, batch, *reported_numbers(record))
    db.execute("INSERT INTO served VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    if words:
        question = "\n".join((record.question.text, *record.question.options))
        texts = (question[:INDEXED], answer_text(record)[:INDEXED])
        db.execute("INSERT INTO words (rowid, question, answer) VALUES (?, ?, ?)", (record.position, *texts))
