"""Tables of a server's state folder, besides those of a run: ids, times and batches of records, events, checkpoints.

Triggers count lessons by their outcome in the transaction that changes a record, so that the overview needs no table
scan. The counts include pruned records, which the server has deleted because of their age. A server that keeps no texts
redacts its records: numbers, option letters and domains remain.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from secl.evaluation.json_values import defined
from secl.evidence import Evidence, Thought
from secl.labels.label import utc
from secl.posterior.views import answering_reply, most_probable_texts
from secl.question import NOT_KEPT, Question, has_half_character
from secl.records import Record, Reply

JsonObject = dict[str, Any]
"""A JSON object."""

EventKind = Literal["start", "rollback", "pause", "resume", "failed_update"]


def _make_encodable(text: str) -> str:
    if has_half_character(text):
        raise ValueError("the text contains an unpaired surrogate, which is invalid Unicode")
    return text


StoredText = Annotated[str, AfterValidator(_make_encodable)]
"""A text that can be encoded as UTF-8."""

Keep = Literal["none", "full"]
"""Texts that a server stores: none, or all ("full")."""

ANOTHER = "(another one, not kept)"
"""Text in place of the frozen model's open answer if the adapted model's answer differs."""


@dataclass(frozen=True, slots=True)
class Event:
    """A rollback, pause or resumption of learning, a failed update, or a start with another machine or library.

    Attributes:
        time: in seconds since 1970.
        position: number of the latest record at this time; None before the first record.
        version: version of the learned weights after the event; 0 for a start.
        detail: one sentence; for a start, names and versions of machine and libraries.
    """

    time: float
    kind: str
    position: int | None
    version: int
    detail: str


@dataclass(frozen=True, slots=True)
class Served:
    """A record with its id, time, batch and label.

    Attributes:
        id: random id, which the client gets.
        time: time of the answer, in seconds since 1970.
        batch: number of records that were computed together.
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
    batch INTEGER NOT NULL, reported REAL, frozen REAL, accepted INTEGER, words TEXT);
ALTER TABLE records ADD COLUMN domain TEXT AS (json_extract(body, '$.question.domain'));
CREATE VIEW answers AS
    SELECT s.*, r.domain, r.kind, r.outcome, r.version, r.body,
        coalesce(
            (SELECT correct FROM labels WHERE position = s.position AND fact = 0 ORDER BY number DESC LIMIT 1),
            (SELECT iif(min(correct), iif(count(*) = json_array_length(r.body, '$.facts'), 1, NULL), min(correct))
             FROM (SELECT correct, max(number) FROM labels WHERE position = s.position AND fact > 0 GROUP BY fact)
             WHERE correct IS NOT NULL)) AS correct
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

CREATE TRIGGER record_added AFTER INSERT ON records WHEN NEW.outcome IS NOT NULL BEGIN
    INSERT INTO counts VALUES (NEW.outcome, 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
CREATE TRIGGER record_changed AFTER UPDATE ON records WHEN OLD.outcome != NEW.outcome BEGIN
    UPDATE counts SET value = value - 1 WHERE outcome = OLD.outcome;
    INSERT INTO counts VALUES (NEW.outcome, 1) ON CONFLICT DO UPDATE SET value = value + 1;
END;
"""
"""`served` has a row for each record: its random id, its time in seconds since 1970, and the size of its batch. The
function `listed_values` gives the last four columns. The view `answers` joins `served` with `records`, and adds the
latest label of each answer. A text is wrong if a fact is labelled as wrong, and right if all its facts are right.
"""

SEARCHED = 10_000
"""Maximum number of characters of a question, and of an answer, that a search reads."""


def listed_values(record: Record, keep: Keep) -> tuple[float | None, float | None, bool | None, str | None]:
    """Return what lists show and search: the confidence, the frozen model's stated confidence, whether the threshold
    accepts the answer, and the words of the question with its options and of the answer, if texts may be stored.
    """
    words = None
    if keep == "full":
        question = " ".join((record.question.text, *record.question.options))
        words = f"{plain_words(question[:SEARCHED])} {plain_words(answer_text(record)[:SEARCHED])}"
    return defined(record.confidence), defined(record.frozen.stated), record.accepted, words


def plain_words(text: str) -> str:
    """Return a text without capitals and accents, with single spaces between its words.

    >>> plain_words("Where is  Malmö?")
    'where is malmo?'
    """
    letters = (each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join("".join(letters).split()).encode("utf-8", "replace").decode()  # an answer may hold a surrogate


def answer_text(record: Record) -> str:
    """Return the answer in the form that people read, or the whole reply if it has no readable answer."""
    return record.reply.text.strip() if record.answer is None else record.question.named(record.answer)


def new_record_id() -> str:
    """Return a random id. Only the client that asked, and callers with the role "read", can see the id of a record."""
    return f"rec_{secrets.token_hex(12)}"


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as UTC, "1970-01-01 00:00:00", or as a number if no calendar has the year."""
    return utc(seconds).replace("T", " ")


def redacted(record: Record, keep: Keep) -> Record:
    """Return a record without the texts that may not be stored; equal candidates become equal numbers."""
    if keep == "full":
        return record
    question, posterior, number = record.question, record.posterior, _numbered(record)
    if posterior is not None:
        posterior = replace(posterior, candidates=tuple(map(number, posterior.candidates)))
    reply, frozen = (replace(each, thought=_redacted_thought(each.thought)) for each in (record.reply, record.frozen))
    if not question.options:
        frozen = _redacted_reply(frozen, NOT_KEPT if frozen.answer == reply.answer else ANOTHER)
        reply = _redacted_reply(reply, NOT_KEPT)
    return replace(
        record,
        question=Question(
            NOT_KEPT,
            tuple(f"(option {letter}, not kept)" for letter in question.letters),
            domain=question.domain,
            form=question.form,
            # The id of a field begins with a digest of the text. Remove the digest, which could confirm a guessed text.
            id=question.id.partition("/")[2] if record.kind == "field" else question.id,
            context=question.context and NOT_KEPT,
            system=question.system and NOT_KEPT,
            history=tuple(replace(turn, text=NOT_KEPT, calls=()) for turn in question.history),
        ),
        reply=reply,
        learning=record.learning and replace(record.learning, frozen=frozen),
        evidence=_redacted_evidence(record.evidence, answering_reply(record), number),
        posterior=posterior,
        facts=None if record.facts is None else tuple(redacted(fact, keep) for fact in record.facts),
    )


def _numbered(record: Record) -> Callable[[str], str]:
    """Return a function that replaces a record's candidate by a number; equal candidates get equal numbers."""
    compared = (record.evidence.candidates, record.evidence.p_true, record.posterior)
    texts = [text for each in compared if each is not None for text in each.candidates]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}
    return lambda text: f"(candidate {numbers[text]}, not kept)"


def _redacted_evidence(evidence: Evidence, reply: Reply, number: Callable[[str], str]) -> Evidence:
    p_true, candidates = evidence.p_true, evidence.candidates
    if p_true is not None:
        p_true = replace(p_true, candidates=tuple(map(number, p_true.candidates)))
    if candidates is not None:
        texts = most_probable_texts(candidates, reply)
        lengths = (len(each.split()) for each in candidates.candidates)
        candidates = replace(
            candidates,
            candidates=tuple(map(number, candidates.candidates)),
            letters=tuple(replace(each, thought=_redacted_thought(each.thought)) for each in candidates.letters),
            samples=tuple(
                replace(each, text=each.text and NOT_KEPT, thought=_redacted_thought(each.thought))
                for each in candidates.samples
            ),
            words=candidates.words or tuple(texts.get(n, (0.0, words))[1] for n, words in enumerate(lengths)),
        )
    return Evidence(p_true=p_true, candidates=candidates)


def _redacted_thought(thought: Thought | None) -> Thought | None:
    return None if thought is None else replace(thought, text=None)


def _redacted_reply(reply: Reply, answer: str) -> Reply:
    return replace(reply, text=NOT_KEPT, answer=None if reply.answer is None else answer)
