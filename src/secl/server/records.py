"""Lists of records for search, review and labels, and the history of a server.

Each page of a list begins after a fixed record, so new records do not move records to other pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from secl.display import excerpt
from secl.errors import ParameterError
from secl.evaluation.json_values import defined
from secl.facts.records import expected_wrong
from secl.records import LearningOutcome, Record, RecordKind
from secl.runs.manifest import Manifest
from secl.server.entries import JsonObject, StoredText, answer_text, plain_words
from secl.server.store import ServerStore

BEGINNING = 200
"""Maximum length of a question, and of an answer, in a list, in characters."""

NAMED = 60
"""Maximum length of the words that name the document of a field, in characters."""

LabelFilter = Literal["right", "wrong", "none"]
"""The label of an answer; "none" without a label."""


class Search(BaseModel):
    """A search for records. A record must match all given parameters.

    query: parts of words that must all occur in question, options or answer. Double quotes enclose a phrase. label:
    label of the answer; `none` for unlabelled answers. before: value of `before` in the reply with the previous page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    query: Annotated[StoredText, Field(max_length=200)] = ""
    domain: Annotated[StoredText, Field(max_length=100)] = ""
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    max_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    label: LabelFilter | None = None
    accepted: bool | None = None
    before: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    count: Annotated[int, Field(ge=1, le=100)] = 30


def search(state: ServerStore, wanted: Search) -> RecordList:
    """Return the newest records that match. Raises ParameterError: contradictory bounds, or an unusable query."""
    if wanted.min_confidence > wanted.max_confidence:
        bounds = f"min_confidence is {wanted.min_confidence} and max_confidence {wanted.max_confidence}"
        raise ParameterError(f"{bounds}, so no record can match; exchange the two bounds.")
    if wanted.query.strip() and state.keep_text != "full":
        kept = f"this server keeps no texts (--keep-text {state.keep_text})"
        raise ParameterError(f"{kept}, so a search for words finds nothing; search by domain, confidence or label.")
    wishes: list[tuple[str, object]] = [
        ("position < ?", wanted.before),
        ("domain = ?", wanted.domain or None),
        ("reported >= ?", wanted.min_confidence or None),
        ("reported <= ?", wanted.max_confidence if wanted.max_confidence < 1 else None),
        ("ifnull(correct, 2) = ?", wanted.label and {"right": 1, "wrong": 0, "none": 2}[wanted.label]),
        ("accepted = ?", wanted.accepted),
    ]
    for phrase, word in re.findall(r'"([^"]*)"|([^\s"]+)', wanted.query):
        wishes.append(("instr(words, ?)", plain_words(phrase or word) or None))
    conditions = [(condition, value) for condition, value in wishes if value is not None]
    where = " AND ".join(condition for condition, _ in conditions) or "1"
    query = f"{_POINTS} WHERE {where} ORDER BY position DESC LIMIT ?"
    rows = state.rows(query, *(value for _, value in conditions), wanted.count + 1)
    points = _points(state, rows[: wanted.count])
    positions = [each.position for each in points]
    stored = _records_at(state, positions)
    listed = [
        Listed(
            **dict(point),
            question=excerpt(_asked(stored[point.position]), BEGINNING),
            answer=excerpt(answer_text(stored[point.position]), BEGINNING),
        )
        for point in points
    ]
    return RecordList(records=listed, before=positions[-1] if len(rows) > wanted.count else None)


class Point(BaseModel):
    """A record as lists and charts show it.

    time: in seconds since 1970. frozen_confidence: stated by the frozen model. label: whether people judged the answer
    right, null while unlabelled. accept: lowest accepted confidence at the time of the answer, null without a
    threshold; of a text, the highest threshold of its facts. accepted: whether the confidence, or each fact, reaches
    its threshold. facts: number of the facts of a text; null for other answers. expected_wrong: how many of them are
    expected to be wrong.
    """

    record_id: str
    position: int
    time: float
    domain: str
    confidence: float | None
    frozen_confidence: float | None
    entropy: float | None
    version: int
    kind: RecordKind
    outcome: LearningOutcome | None
    alarm: bool
    in_burst: bool
    label: bool | None
    accept: float | None
    accepted: bool | None
    facts: int | None
    expected_wrong: float | None

    @property
    def expected_grades(self) -> list[float]:
        """Expected grade of the answer, or the mean of the facts of a text for each fact; empty if unknown."""
        if self.facts and self.expected_wrong is not None:
            return [1 - self.expected_wrong / self.facts] * self.facts
        return [] if self.confidence is None else [self.confidence]


class Listed(Point):
    """A record in a list, with the first words of its question and answer."""

    question: str
    answer: str


class RecordList(BaseModel):
    """A page of records, the newest first. before: position to request the next page; null on the last page."""

    records: list[Listed]
    before: int | None


_POINTS = """
    SELECT id, position, time, domain, reported, frozen, nullif(json_extract(body, '$.reply.entropy'), 'nan'), version,
           kind, outcome, coalesce(json_extract(body, '$.learning.decision.alarm'), 0),
           coalesce(json_extract(body, '$.learning.decision.in_burst'), 0), correct,
           coalesce(json_extract(body, '$.labelled.accept'), json_extract(body, '$.threshold')), accepted,
           json_array_length(body, '$.facts'), NULL
    FROM answers"""


def _points(state: ServerStore, rows: Sequence[Sequence[object]]) -> list[Point]:
    """Return the points of rows of `_POINTS`; those of texts get the threshold and the expected errors of the facts."""
    points = [Point.model_validate(dict(zip(Point.model_fields, row, strict=True))) for row in rows]
    texts = _records_at(state, [point.position for point in points if point.facts is not None])
    known = {
        position: {
            "accept": record.accept,
            "expected_wrong": defined(expected_wrong(record.facts)) if record.facts else None,
        }
        for position, record in texts.items()
    }
    return [point.model_copy(update=known.get(point.position)) for point in points]


def _records_at(state: ServerStore, positions: Sequence[int]) -> dict[int, Record]:
    marks = ", ".join("?" * len(positions))
    return {each.position: each for each in state.records(f"r.position IN ({marks})", *positions)}


def _asked(record: Record) -> str:
    """Return the question. The question of a field begins with the first words of its document."""
    question = record.question
    if record.kind == "field" and question.context and question.context != question.text:
        return f"{excerpt(question.context, NAMED)}: {question.text}"
    return question.text


def latest_points(state: ServerStore, count: int) -> list[Point]:
    """Return the model's own answers among the latest `count` records, the oldest first."""
    latest = "position IN (SELECT position FROM served ORDER BY position DESC LIMIT ?) AND kind != 'given'"
    return _points(state, state.rows(f"{_POINTS} WHERE {latest} ORDER BY position", count))


class LabelledAnswer(NamedTuple):
    """A labelled answer or fact of a server.

    Attributes:
        confidence: as the client saw it.
        uncalibrated: the label-free confidence.
        chance: probability with which the answer was chosen for rating; None if unknown.
        position: of the record. The facts of a text have the same position.
    """

    confidence: float
    correct: bool
    uncalibrated: float
    chance: float | None = None
    position: int = 0


def labelled_answers(state: ServerStore, count: int) -> list[LabelledAnswer]:
    """Return the latest `count` labelled answers and facts, in order."""
    query = """
        SELECT reported, correct, confidence, chance, position FROM labels l WHERE correct IS NOT NULL
        AND number = (SELECT max(number) FROM labels WHERE position = l.position AND fact = l.fact)
        ORDER BY position DESC, fact DESC LIMIT ?"""
    rows = state.rows(query, count)[::-1]
    return [LabelledAnswer(float(shown), bool(right), float(free), *others) for shown, right, free, *others in rows]


def history(state: ServerStore) -> JsonObject:
    """Return the history of a server as plain values.

    answers: number of all records, pruned ones included. first: position of the first kept record. began, ended: times
    of the first and last kept record, in seconds since 1970; None without records. version: version of the learned
    weights. lessons: number of records by outcome of learning. labelled: number of labelled answers; a text with
    labelled facts is one. labels: number of labels.
    """
    settings = Manifest.of(state).settings
    counts = state.label_counts(0)
    ((began, ended),) = state.rows("SELECT min(time), max(time) FROM served")
    return {
        "model": settings.model.name,
        "answers": len(state),
        "first": state.first,
        "began": began,
        "ended": ended,
        "version": state.learned_version(),
        "learns": settings.named_method.learns,
        "paused": state.paused(),
        "lessons": state.counts(),
        "labelled": len(counts),
        "labels": sum(counts.values()),
        "versions": state.kept_versions(),
        "events": [asdict(event) for event in state.events()],
    }
