"""One label: what somebody said about one answer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from secl.errors import ParameterError
from secl.records import Record

MIN_CHANCE = 1e-4
"""Smallest chance of a label. Its weight is the inverse of its chance, so a smaller one would outweigh all others."""

LabelSource = Literal["review", "feedback", "reference"]
"""Who gave it: somebody who was shown answers at random (`secl label`, or a server's review), somebody else (a server's
feedback), or a reference that was revealed for study (`label.labels`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What somebody said about one answer. A log of labels only grows; of one answer the last entry counts.

    Attributes:
        number: of the entry in its log, from 1.
        position: of the record.
        correct: whether its answer is right; None takes the earlier labels of the record back.
        confidence: of the answer without any label, in [0, 1].
        domain: of the question.
        reported: the confidence that was reported with the answer, in [0, 1].
        time: in seconds since 1970.
        source: who gave it.
        chance: probability that this answer was asked about, in [1e-4, 1]; equal for all that are drawn at random.
            None where nobody knows: people volunteered, and speak of what they dislike more often than of the rest.

    Raises:
        ParameterError: the chance lies outside [1e-4, 1].
    """

    number: int
    position: int
    correct: bool | None
    confidence: float
    domain: str
    reported: float
    time: float
    source: LabelSource
    chance: float | None = 1.0

    def __post_init__(self) -> None:
        if self.chance is not None and not MIN_CHANCE <= self.chance <= 1.0:
            raise ParameterError(f"The chance of a label is {self.chance}; it must lie from {MIN_CHANCE:g} to 1.")


def label_of(
    record: Record, correct: bool | None, *, number: int, source: LabelSource = "review", chance: float | None = 1.0
) -> Label:
    """The entry with this number, about the answer that a record reports, made now."""
    return Label(
        number=number,
        position=record.position,
        correct=correct,
        confidence=record.label_free,
        domain=record.question.domain,
        reported=record.confidence,
        time=time.time(),
        source=source,
        chance=chance,
    )


def standing(log: Iterable[Label]) -> tuple[Label, ...]:
    """The labels of a log that count, in order: the last of each answer, unless it was taken back.

    >>> same = {"confidence": 0.5, "domain": "", "reported": 0.5, "time": 0.0, "source": "review"}
    >>> said = ((7, True), (8, True), (7, False), (8, None))
    >>> log = [Label(number=n, position=p, correct=c, **same) for n, (p, c) in enumerate(said, start=1)]
    >>> [label.number for label in standing(log)]
    [3]
    """
    last = {label.position: label for label in log}
    return tuple(sorted((each for each in last.values() if each.correct is not None), key=lambda each: each.number))
