"""The index of a state folder: a small row for each record, and its words; what lists, filters and charts read.

Records are wide, and what people look for stands deep inside them. The index is derived from them and can be made anew;
SQLite's triggers keep it true when a lesson, a label or a deletion follows. Words are indexed where texts are kept.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from secl.records import Record
from secl.runs.folder import storage_errors
from secl.server.audit.wording import answer_text

if TYPE_CHECKING:
    from secl.server.audit.store import ServerStore

log = logging.getLogger("secl.server")

TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    position INTEGER PRIMARY KEY REFERENCES records, domain TEXT NOT NULL, confidence REAL NOT NULL, accepted INTEGER,
    outcome TEXT NOT NULL, correct INTEGER, chance REAL);
CREATE INDEX IF NOT EXISTS answers_of_domain ON answers (domain, position);
CREATE INDEX IF NOT EXISTS answers_labelled ON answers (position) WHERE correct IS NOT NULL;
CREATE INDEX IF NOT EXISTS answers_learned ON answers (position) WHERE outcome = 'trained';
CREATE INDEX IF NOT EXISTS labels_of ON labels (position, number);
CREATE TRIGGER IF NOT EXISTS lesson_held AFTER UPDATE OF outcome ON records BEGIN
    UPDATE answers SET outcome = new.outcome WHERE position = new.position; END;
CREATE TRIGGER IF NOT EXISTS answer_labelled AFTER INSERT ON labels BEGIN
    UPDATE answers SET correct = new.correct, chance = new.chance WHERE position = new.position; END;
"""
"""One row for each record: reported confidence, whether the threshold accepts it, what learning did, and the label that
stands with its chance. `accepted` is NULL without a threshold."""

WORDS = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(question, answer, tokenize = "unicode61 remove_diacritics 2");
CREATE TRIGGER IF NOT EXISTS words_deleted AFTER DELETE ON answers BEGIN
    DELETE FROM words WHERE rowid = old.position; END;
"""

DELETED = """
CREATE TRIGGER IF NOT EXISTS record_deleted AFTER DELETE ON records BEGIN
    DELETE FROM answers WHERE position = old.position; END;
"""

INDEXED = 10_000
"""First characters of a question and of an answer whose words are indexed."""

BATCH = 1000
"""Records of an earlier version's folder that are indexed in one transaction."""

_LABEL = "SELECT correct, chance FROM labels WHERE position = ? ORDER BY number DESC LIMIT 1"


def open_index(state: ServerStore) -> None:
    """Make the tables in a folder that is opened for writing, and index what is not indexed yet."""
    with storage_errors(state.folder):
        state.db.executescript(TABLES + DELETED)
        if has_full_text_search(state.db):
            state.db.executescript(WORDS)
    _catch_up(state)


def has_full_text_search(db: sqlite3.Connection) -> bool:
    """Whether SQLite was built with FTS5, as nearly always."""
    return bool(db.execute("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'").fetchone()[0])


def has_words(db: sqlite3.Connection) -> bool:
    """Whether there is a table of words."""
    return bool(db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'words'").fetchone()[0])


def add_to_index(state: ServerStore, record: Record) -> None:
    """Index a record, inside the transaction that writes it."""
    db = state.db
    label = db.execute(_LABEL, (record.position,)).fetchone() or (None, None)
    db.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", (record.position, *_row(record), *label))
    if state.keep_text == "full" and has_words(db):
        asked = "\n".join((record.question.text, *record.question.options))
        texts = (asked[:INDEXED], answer_text(record)[:INDEXED])
        db.execute("INSERT INTO words (rowid, question, answer) VALUES (?, ?, ?)", (record.position, *texts))


def _row(record: Record) -> tuple[str, float, bool | None, str]:
    """What a record's row says, but for its label."""
    accepted = None if record.abstained is None else not record.abstained
    return record.question.domain, record.confidence, accepted, record.outcome


def has_index(db: sqlite3.Connection) -> bool:
    """Whether there is an index; a folder of an earlier version has none before a server has opened it."""
    return bool(db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'answers'").fetchone()[0])


class IndexCheck:
    """Compares the rows of an index with the records that they are about; without an index nothing differs.

    Args:
        state: whose records follow in order.
    """

    def __init__(self, state: ServerStore) -> None:
        query = "SELECT position, domain, confidence, accepted, outcome FROM answers ORDER BY position"
        self._rows = iter(state.read(query)) if has_index(state.db) else None
        self._row: tuple[Any, ...] | None = None

    def differences(self, record: Record) -> Iterator[str]:
        """How the row of a record differs from it."""
        if self._rows is None:
            return
        while self._row is None or self._row[0] < record.position:
            self._row = next(self._rows, (math.inf,))
        if self._row[0] != record.position:
            yield "it is missing in the index"
        elif self._row[1:] != _row(record):
            yield f"the index has {', '.join(map(str, self._row[1:]))}, the record {', '.join(map(str, _row(record)))}"


def _catch_up(state: ServerStore) -> None:
    """Index the records of a folder that an earlier version wrote; a stop in between does no harm."""
    indexed = state.db.execute("SELECT coalesce(max(position), -1) FROM answers").fetchone()[0]
    last = state.db.execute("SELECT coalesce(max(position), -1) FROM records").fetchone()[0]
    if last > indexed:
        log.info("indexing records %d to %d, once", indexed + 1, last)
    for first in range(indexed + 1, last + 1, BATCH):
        with storage_errors(state.folder), state.db:
            for record in list(state.records("r.position BETWEEN ? AND ?", first, first + BATCH - 1)):
                add_to_index(state, record)
