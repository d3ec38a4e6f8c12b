"""The index of a state folder: a small row for each record, and its words; what lists, filters and charts read.

Records are wide, and what people look for stands deep inside them. The index is derived from them and can be made anew;
SQLite's triggers keep it true when a lesson, a label or a deletion follows. Words are indexed where texts are kept.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from secl.records import Record
from secl.server.audit.wording import answer_text

if TYPE_CHECKING:
    from secl.server.audit.store import ServerStore

TABLES = """
CREATE TABLE answers (
    position INTEGER PRIMARY KEY REFERENCES records, domain TEXT NOT NULL, confidence REAL, accepted INTEGER,
    outcome TEXT NOT NULL, correct INTEGER, chance REAL);
CREATE INDEX answers_of_domain ON answers (domain, position);
CREATE INDEX answers_labelled ON answers (position) WHERE correct IS NOT NULL;
CREATE INDEX answers_learned ON answers (position) WHERE outcome = 'trained';
CREATE INDEX labels_of ON labels (position, number);
CREATE TRIGGER lesson_held AFTER UPDATE OF outcome ON records BEGIN
    UPDATE answers SET outcome = new.outcome WHERE position = new.position; END;
CREATE TRIGGER answer_labelled AFTER INSERT ON labels BEGIN
    UPDATE answers SET correct = new.correct, chance = new.chance WHERE position = new.position; END;
"""
"""One row for each record: reported confidence, whether the threshold accepts it, what learning did, and the label that
stands with its chance. `accepted` is NULL without a threshold."""

WORDS = """
CREATE VIRTUAL TABLE words USING fts5(question, answer, tokenize = "unicode61 remove_diacritics 2");
CREATE TRIGGER words_deleted AFTER DELETE ON answers BEGIN
    DELETE FROM words WHERE rowid = old.position; END;
"""

DELETED = """
CREATE TRIGGER record_deleted AFTER DELETE ON records BEGIN
    DELETE FROM answers WHERE position = old.position; END;
"""

INDEXED = 10_000
"""First characters of a question and of an answer whose words are indexed."""

_LABEL = "SELECT correct, chance FROM labels WHERE position = ? ORDER BY number DESC LIMIT 1"


def index_tables() -> str:
    """The tables of a new folder, in SQL."""
    with closing(sqlite3.connect(":memory:")) as db:
        return TABLES + DELETED + (WORDS if has_full_text_search(db) else "")


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


def _row(record: Record) -> tuple[str, float | None, bool | None, str]:
    """What a record's row says, but for its label."""
    accepted = None if record.abstained is None else not record.abstained
    return record.question.domain, record.confidence if record.rated else None, accepted, record.outcome


class IndexCheck:
    """Compares the rows of an index with the records that they are about.

    Args:
        state: whose records follow in order.
    """

    def __init__(self, state: ServerStore) -> None:
        query = "SELECT position, domain, confidence, accepted, outcome FROM answers ORDER BY position"
        self._rows = iter(state.read(query))
        self._row: tuple[Any, ...] | None = None

    def differences(self, record: Record) -> Iterator[str]:
        """How the row of a record differs from it."""
        while self._row is None or self._row[0] < record.position:
            self._row = next(self._rows, (math.inf,))
        if self._row[0] != record.position:
            yield "it is missing in the index"
        elif self._row[1:] != _row(record):
            yield f"the index has {', '.join(map(str, self._row[1:]))}, the record {', '.join(map(str, _row(record)))}"
