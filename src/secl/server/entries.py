"""A server's own tables and their entries: records with the circumstances of their replies, and events of learning.

Triggers update counters in the transaction that changes a record, so that the overview needs no table scan. Counters
include pruned records.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from secl.evaluation.json_values import defined
from secl.evaluation.symptoms import source_of
from secl.methods import Plan
from secl.prompts.parsing import is_brief
from secl.question import has_half_character
from secl.records import Record

Values = dict[str, Any]
"""A JSON object."""

EventKind = Literal["start", "rollback", "pause", "resume", "failed_update"]


def _encodable(text: str) -> str:
    if has_half_character(text):
        raise ValueError("it contains an unpaired surrogate, which is invalid Unicode")
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""A text that can be encoded as UTF-8."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of learning, at a time in seconds since 1970, with one sentence (`detail`).

    Attributes:
        position: position of the latest record at this time; None before the first record.
        version: version of the adapter after the event.
    """

    time: float
    kind: str
    position: int | None
    version: int
    detail: str


@dataclass(frozen=True, slots=True)
class Served:
    """A record with the circumstances of its reply.

    Attributes:
        id: random id, which the client gets.
        time: time of the answer, in seconds since 1970.
        batch: number of questions in the same pass.
        label: whether people judged the answer right; None while unlabelled.
    """

    record: Record
    id: str
    time: float
    batch: int
    label: bool | None


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


def indexed_texts(record: Record) -> tuple[str, str]:
    """Return the beginnings of question and answer, whose words the search finds."""
    question = "\n".join((record.question.text, *record.question.options))
    return question[:INDEXED], answer_text(record)[:INDEXED]


def reported_numbers(record: Record) -> tuple[float | None, float | None, bool | None]:
    """Return the confidence, the frozen model's stated confidence, and whether the threshold accepts the answer."""
    return defined(record.confidence), defined(record.frozen.stated), record.accepted


def answer_text(record: Record) -> str:
    """Return the answer in the form that people read, or the whole reply if it has no readable answer."""
    return record.reply.text.strip() if record.answer is None else record.question.named(record.answer)


def remark_on(record: Record, plan: Plan) -> str | None:
    """Return in one sentence why an answer lacks the posterior of a plan; None if it has the posterior."""
    expected = not record.gated or "candidates" in plan.weighed(record.decision.in_burst)
    if source_of(record) == "posterior" or not expected:
        return None
    if record.reply.answer is None:
        return "the answer could not be read, so it has no confidence."
    missing = "there are no two different candidates to compare, or more than the model has letters for"
    if record.posterior is not None:
        missing = "the model's own answer is none of the candidates"
    elif not record.question.options and not is_brief(record.reply.answer, record.question.form):
        missing = "the answer is too long to be compared with others"
    return f"{missing}, so the confidence is the stated one."


def new_record_id() -> str:
    """Return a random id, which only the record's client and readers of all records know."""
    return f"rec_{secrets.token_hex(12)}"


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as UTC: "1970-01-01 00:00:00"."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
