"""Finding records: by words, domain, confidence, label, threshold and lesson; the newest first, a page at a time.

One condition chooses the rows to look at, each of which SQLite finds by an index, from the newest down; the others are
tested on these rows, `LOOKED` of them at most. So a page costs the same however many records there are: where few of
them fit, it ends early, says how far it came, and the next one goes on there. Pages follow by position, so that records
which arrive meanwhile move nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from secl.errors import ParameterError
from secl.server.audit.index import has_words
from secl.server.audit.store import ServerStore

LOOKED = 20_000
"""Most rows that are looked at for one page; a few hundredths of a second."""

DOMAINS = 100
"""Most domains that are listed."""

Labelled = Literal["right", "wrong", "none"]
"""What people said of an answer; "none" while nobody did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records are looked for; None means all.

    Attributes:
        query: words that question and answer together must contain; several in double quotes stand side by side.
        domain: of the question.
        min_confidence, max_confidence: of the reported confidence, in [0, 1], both included.
        label: what people said of the answer.
        accepted: whether the threshold accepted it.
        learned: whether the model learned from it.

    Raises:
        ParameterError: the lowest confidence lies above the highest.
    """

    query: str = ""
    domain: str | None = None
    min_confidence: float = 0.0
    max_confidence: float = 1.0
    label: Labelled | None = None
    accepted: bool | None = None
    learned: bool | None = None

    def __post_init__(self) -> None:
        if self.min_confidence > self.max_confidence:
            raise ParameterError(
                f"min_confidence is {self.min_confidence} and max_confidence {self.max_confidence}, so nothing can "
                "fit; exchange them."
            )


@dataclass(frozen=True, slots=True)
class Found:
    """One page of records.

    Attributes:
        positions: of records that fit, the newest first.
        before: where the next page begins, as its argument `before`; None if there is nothing older to look at.
        looked: rows that were looked at.
    """

    positions: tuple[int, ...]
    before: int | None
    looked: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A record as lists and charts show it, without its texts.

    Attributes:
        position: place in the stream. `time`: when it was answered, in seconds since 1970.
        domain: of the question.
        confidence, frozen_confidence: reported, and stated by the model that never learned; in [0, 1].
        entropy: of the reply, in nats. All three are None where the confidence was not asked for.
        alarm, in_burst: what the gate said.
        version: of the adapter that answered.
        outcome: what learning did.
        correct: what people said; None while nobody did.
        accepted: whether the threshold accepts it; None without one.
    """

    position: int
    time: float
    domain: str
    confidence: float | None
    frozen_confidence: float | None
    entropy: float | None
    alarm: bool
    in_burst: bool
    version: int
    outcome: str
    correct: bool | None
    accepted: bool | None


@contextmanager
def at_one_moment(folder: Path) -> Iterator[ServerStore]:
    """A state folder on a connection of its own: no answer waits for what is read, and all of it is of one moment."""
    with ServerStore(folder) as reader, reader.moment():
        yield reader


def search(state: ServerStore, wanted: Filter, count: int = 30, before: int | None = None) -> Found:
    """The newest records that fit, older than `before`.

    Raises:
        ParameterError: words are looked for that nothing can be found by.
    """
    rows, values = _rows_to_look_at(state, wanted)
    fits, more = _condition(wanted)
    until = 2**62 if before is None else before
    place = "words.rowid" if wanted.query.strip() else "answers.position"  # each index is read in its own order
    query = f"SELECT answers.position, {fits} FROM {rows} AND {place} < ? ORDER BY {place} DESC"
    positions: list[int] = []
    looked = 0
    with state.lock:
        for position, fit in state.read(query, *more, *values, until):
            if looked == LOOKED or len(positions) == count:
                return Found(tuple(positions), position + 1, looked)
            looked += 1
            if fit:
                positions.append(position)
    return Found(tuple(positions), None, looked)


def _rows_to_look_at(state: ServerStore, wanted: Filter) -> tuple[str, list[object]]:
    """The condition that promises the fewest rows, and its values."""
    if wanted.query.strip():
        return "words CROSS JOIN answers ON answers.position = words.rowid WHERE words MATCH ?", [_match(state, wanted)]
    if wanted.label in ("right", "wrong"):
        return "answers INDEXED BY answers_labelled WHERE correct IS NOT NULL", []
    if wanted.learned:
        return "answers INDEXED BY answers_learned WHERE outcome = 'trained'", []
    if wanted.domain is not None:
        return "answers INDEXED BY answers_of_domain WHERE domain = ?", [wanted.domain]
    return "answers WHERE 1", []


def _match(state: ServerStore, wanted: Filter) -> str:
    """The words in SQLite's language, each quoted, so that none of them is an operator."""
    if state.keep_text != "full":
        raise ParameterError(
            f"this server keeps no texts (--keep-text {state.keep_text}), so there are no words to find."
        )
    if not has_words(state.db):
        raise ParameterError("this Python's SQLite was built without full-text search (FTS5); leave the words out.")
    parts = [phrase or word for phrase, word in re.findall(r'"([^"]*)"|([^\s"]+)', wanted.query.replace("\0", " "))]
    words = [part for part in parts if re.search(r"\w", part)]
    if not words:
        raise ParameterError("there is no word in the search, only signs; type at least one word.")
    return " ".join(f'"{word}"' for word in words)


def _condition(wanted: Filter) -> tuple[str, list[object]]:
    """What else a row must fulfil, and its values."""
    parts: list[str] = []
    values: list[object] = []
    if wanted.domain is not None:
        parts.append("domain = ?")
        values.append(wanted.domain)
    if wanted.min_confidence > 0.0 or wanted.max_confidence < 1.0:
        parts.append("confidence BETWEEN ? AND ?")
        values += [wanted.min_confidence, wanted.max_confidence]
    if wanted.label is not None:
        parts.append("correct IS ?")
        values.append({"right": 1, "wrong": 0, "none": None}[wanted.label])
    if wanted.accepted is not None:
        parts.append("accepted = ?")
        values.append(wanted.accepted)
    if wanted.learned is not None:
        parts.append("(outcome = 'trained') = ?")
        values.append(wanted.learned)
    return " AND ".join(parts) or "1", values


_ANSWERED = """
    SELECT a.position, s.time, a.domain, a.confidence, r.frozen_confidence, d.entropy, d.alarm, d.in_burst, r.version,
           a.outcome, a.correct, a.accepted
    FROM answers a JOIN served s USING (position) JOIN records r USING (position) JOIN decisions d USING (position)
    WHERE {which} ORDER BY a.position"""


def answered(state: ServerStore, positions: Sequence[int]) -> list[Answered]:
    """The rows at these positions, in their order; those that are no longer there are left out."""
    marks = ", ".join("?" * len(positions))
    with state.lock:
        found = {row[0]: row for row in state.read(_ANSWERED.format(which=f"a.position IN ({marks})"), *positions)}
    return [_answered(found[position]) for position in positions if position in found]


def latest_answered(state: ServerStore, count: int) -> list[Answered]:
    """Of the latest answers those that the model gave with a confidence, the oldest first."""
    latest = """
        a.position IN (SELECT position FROM answers ORDER BY position DESC LIMIT ?)
        AND a.outcome NOT IN ('given', 'unrated')"""
    with state.lock:
        return [_answered(row) for row in state.read(_ANSWERED.format(which=latest), count)]


def latest_labelled(state: ServerStore, count: int) -> list[tuple[float, bool, float | None]]:
    """Reported confidence, correctness and chance of the latest answers that people rated, the oldest first."""
    query = "SELECT confidence, correct, chance FROM answers WHERE correct IS NOT NULL ORDER BY position DESC LIMIT ?"
    with state.lock:
        return [(confidence, bool(right), chance) for confidence, right, chance in state.read(query, count)][::-1]


def kept_versions(state: ServerStore, count: int) -> tuple[list[tuple[int, int, float | None]], int]:
    """The newest kept versions with position and time of their first answer, and how many are kept."""
    query = """
        SELECT v.version, v.position, s.time FROM versions v LEFT JOIN served s USING (position)
        ORDER BY v.version DESC LIMIT ?"""
    with state.lock:
        return list(state.read(query, count)), int(next(state.read("SELECT count(*) FROM versions"))[0])


def domains(state: ServerStore) -> list[str]:
    """The first domains in order, `DOMAINS` at most; each is one step in the index."""
    query = """
        WITH RECURSIVE found (name) AS (
            SELECT min(domain) FROM answers UNION ALL
            SELECT (SELECT min(domain) FROM answers WHERE domain > name) FROM found WHERE name IS NOT NULL)
        SELECT name FROM found WHERE name IS NOT NULL LIMIT ?"""
    with state.lock:
        return [name for (name,) in state.read(query, DOMAINS)]


def _answered(row: tuple[Any, ...]) -> Answered:
    position, time, domain, confidence, frozen, entropy, alarm, in_burst, version, outcome, correct, accepted = row
    return Answered(
        position=position,
        time=time,
        domain=domain,
        confidence=confidence,
        frozen_confidence=frozen,
        entropy=entropy,
        alarm=bool(alarm),
        in_burst=bool(in_burst),
        version=version,
        outcome=outcome,
        correct=None if correct is None else bool(correct),
        accepted=None if accepted is None else bool(accepted),
    )
