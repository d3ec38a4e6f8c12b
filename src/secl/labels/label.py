"""Labels, their log, and the random order of a review."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from secl.errors import ParameterError
from secl.records import Record

DAY = 86400.0

MIN_CHANCE = 1e-4
"""Smallest `Label.chance`. A label's weight is 1 / chance, so a smaller chance would outweigh all other labels."""

LabelKey = tuple[int, int]
"""Position of a record, and the number of a fact in its text; 0 for the whole answer."""

LabelSource = Literal["review", "feedback", "reference"]
"""Source of a label: a review of answers drawn at random (`secl label`, a page), feedback, or the user's references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A human judgement of one answer: an entry in a log of labels. The latest entry about an answer counts.

    Attributes:
        number: number of the entry in the log, from 1; 0 before the log has the entry.
        correct: whether the answer is right; None for a skipped answer, and to withdraw the answer's earlier entries.
        confidence: label-free confidence of the answer; 0 if undefined, as for some unreadable answers.
        reported: `Record.confidence` of the answer, which earlier labels may have moved; 0 for an unreadable answer.
        time: time of the judgement, in seconds since 1970.
        chance: probability with which this answer was chosen for labelling, in [1e-4, 1]. If all probabilities are
            equal, as in a review, the value is 1. None if a person chose the answer, or if the choice is unknown.
        skipped: whether a reviewer saw the answer and gave no judgement. Skipped answers are often wrong ones.
        fact: number of the judged fact in the text (`Record.fact`); 0 for a whole answer.
        correct_answer: the right answer that a person gave, such as "Lima"; None if unknown.

    Raises:
        ParameterError: the chance lies outside [1e-4, 1], or a skipped answer has a judgement.
    """

    number: int
    position: int
    correct: bool | None
    confidence: float
    domain: str
    reported: float
    time: float
    source: LabelSource
    chance: float | None
    skipped: bool = False
    fact: int = 0
    correct_answer: str | None = None

    @property
    def key(self) -> LabelKey:
        return self.position, self.fact

    def __post_init__(self) -> None:
        if self.skipped and self.correct is not None:
            raise ParameterError("a label says that the answer was skipped and also judges it; leave one of them out.")
        if self.chance is not None and not MIN_CHANCE <= self.chance <= 1.0:
            raise ParameterError(f"the chance of a label is {self.chance}; it must lie from {MIN_CHANCE:g} to 1.")


def label_of(
    record: Record,
    correct: bool | None,
    *,
    number: int = 0,
    source: LabelSource = "review",
    chance: float | None,
    skipped: bool = False,
    correct_answer: str | None = None,
) -> Label:
    """Return a label, made now, of the returned answer of a record."""
    return Label(
        number=number,
        position=record.position,
        correct=correct,
        confidence=0.0 if math.isnan(record.confidences.uncalibrated) else record.confidences.uncalibrated,
        domain=record.question.domain,
        reported=record.confidences.expected_grade,
        time=time.time(),
        source=source,
        chance=chance,
        skipped=skipped,
        fact=record.fact,
        correct_answer=correct_answer,
    )


def valid(log: Iterable[Label]) -> tuple[Label, ...]:
    """Return the valid entries of a log, in order: the last label or skip of each answer, unless it was withdrawn."""
    last = {entry.key: entry for entry in log}
    entries = (entry for entry in last.values() if entry.correct is not None or entry.skipped)
    return tuple(sorted(entries, key=lambda entry: entry.number))


def standing(log: Iterable[Label]) -> tuple[Label, ...]:
    """Return the valid labels of a log, in order, without skipped answers.

    >>> same = {"confidence": 0.5, "domain": "", "reported": 0.5, "time": 0.0, "source": "review", "chance": 1.0}
    >>> judgements = ((7, True), (8, True), (7, False), (8, None))
    >>> log = [Label(number=n, position=p, correct=c, **same) for n, (p, c) in enumerate(judgements, start=1)]
    >>> [label.number for label in standing(log)]
    [3]
    """
    return tuple(entry for entry in valid(log) if entry.correct is not None)


def moment_of(since: str, log: Sequence[Label]) -> float:
    """Return a time in seconds since 1970 from a number of days before now, like "30d", or a date in UTC.

    Raises:
        ParameterError: the text is neither, or the latest label is newer than the clock of this computer by a day.

    >>> moment_of("2026-03-01", []), moment_of("2026-03-01T12:30:00", []) - moment_of("2026-03-01", [])
    (1772323200.0, 45000.0)
    """
    if not (days := re.fullmatch(r"(\d{1,6})d", since.strip())):
        try:
            date = datetime.fromisoformat(since.strip())
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            remedy = "give a number of days, like 30d, or a date, like 2026-03-01"
            raise ParameterError(f"since is {since[:40]!r}; {remedy}.") from None
    now = time.time()
    if log and log[-1].time > now + DAY:
        raise ParameterError(
            f"the latest label is from {utc(log[-1].time)}, but the clock of this computer shows {utc(now)}, so an age "
            "in days has no meaning; correct the clock, or give a date."
        )
    return now - int(days[1]) * DAY


def utc(seconds: float) -> str:
    """Return a time in seconds since 1970 as text that `moment_of` reads: "1970-01-01T00:00:00".

    The text of a time that no calendar has is a number of seconds.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s after 1970"


def since_time(log: Sequence[Label], since: float) -> Sequence[Label]:
    """Return the entries of a log from a time on, in seconds since 1970.

    The order of the log decides, not each clock time: an entry counts only if neither the entry nor a later one is
    older, so a clock that once ran ahead makes no old label new.

    >>> same = {"confidence": 0.5, "domain": "", "reported": 0.5, "source": "review", "chance": 1.0, "correct": True}
    >>> log = [Label(number=n, position=n, time=t, **same) for n, t in enumerate((10.0, 99.0, 20.0, 30.0), start=1)]
    >>> [label.number for label in since_time(log, 25.0)]
    [4]
    """
    older = (place for place, entry in enumerate(log, start=1) if entry.time < since)
    return log[max(older, default=0) :]


def random_order(positions: Iterable[int], seed: int) -> list[int]:
    """Return positions of answers in random order: the first n positions are a random sample, for any n.

    The place of an answer depends on position and seed alone, so a queue keeps its order when answers are added.

    >>> random_order(range(8), 42), random_order((6, 1, 9, 2), 42)
    ([0, 4, 6, 1, 2, 5, 7, 3], [9, 6, 1, 2])
    """

    def rank(position: int) -> bytes:
        return hashlib.blake2b(f"review-{seed}-{position}".encode(), digest_size=8).digest()

    return sorted(positions, key=rank)
