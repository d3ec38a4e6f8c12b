"""Tables of a state folder beside those of a run, with counters and indexes: no query of the page scans them all.

Counters and the labels that stand are kept by triggers, so they change in the transaction that changes what they count.
They count everything that ever was, also what has been pruned.
"""

from __future__ import annotations

SERVED = """
CREATE TABLE served (
    position INTEGER PRIMARY KEY REFERENCES records, time REAL NOT NULL, batch INTEGER NOT NULL,
    name TEXT);
CREATE UNIQUE INDEX named ON served (name) WHERE name IS NOT NULL;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, position INTEGER, version INTEGER, detail TEXT);
CREATE INDEX lessons ON records (outcome);
"""
"""When each question was answered, and with how many others; what happened to learning.

`time` is in seconds since 1970. `name` is that under which a stream promised the record before it had a position.
"""

POSTERIORS = """
CREATE TABLE posteriors (
    position INTEGER PRIMARY KEY REFERENCES records, views TEXT NOT NULL, confidence REAL NOT NULL,
    differs INTEGER NOT NULL);
"""
"""One row for each record with a posterior: its group, the reported confidence, whether any view carried information,
and whether the best answer differs from the model's own."""

KEPT = """
CREATE TABLE checkpoints (position INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE standing (
    position INTEGER PRIMARY KEY, number INTEGER NOT NULL, reported REAL NOT NULL, correct INTEGER NOT NULL);
CREATE TABLE counts (kind TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (kind, name))
    WITHOUT ROWID;
CREATE INDEX answered_by ON records (version);
CREATE INDEX burst_questions ON decisions (position) WHERE in_burst;
CREATE INDEX updated ON updates (position);
CREATE INDEX event_kinds ON events (kind);
CREATE INDEX kept_at ON versions (position);

CREATE TRIGGER record_added AFTER INSERT ON records BEGIN
    INSERT INTO counts VALUES ('outcome', NEW.outcome, 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER record_changed AFTER UPDATE OF outcome ON records WHEN OLD.outcome != NEW.outcome BEGIN
    UPDATE counts SET value = value - 1 WHERE kind = 'outcome' AND name = OLD.outcome;
    INSERT INTO counts VALUES ('outcome', NEW.outcome, 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER posterior_added AFTER INSERT ON posteriors BEGIN
    INSERT INTO counts VALUES ('posterior', 'answers', 1) ON CONFLICT DO UPDATE SET value = value + 1;
    INSERT INTO counts VALUES ('posterior', 'differs', NEW.differs)
        ON CONFLICT DO UPDATE SET value = value + excluded.value;
END;
CREATE TRIGGER label_given AFTER INSERT ON labels WHEN NEW.correct IS NOT NULL BEGIN
    INSERT OR REPLACE INTO standing VALUES (NEW.position, NEW.number, NEW.reported, NEW.correct);
END;
CREATE TRIGGER label_taken_back AFTER INSERT ON labels WHEN NEW.correct IS NULL BEGIN
    DELETE FROM standing WHERE position = NEW.position;
END;
"""
"""Checkpoints of the stream, the labels that stand, counters, and indexes."""

TABLES = SERVED + POSTERIORS + KEPT
