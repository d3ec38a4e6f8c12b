"""What an estimator is: a confidence computed from records, the series it gives along a stream, and its cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from secl.evidence import EvidenceKind
from secl.metrics.graded import Vector
from secl.records import Record
from secl.signals import Signal

AnswerOf = Literal["reply", "frozen", "own", "best", "reported"]
"""Which answer a confidence is about: the reply's, the frozen model's, one that the estimator chooses itself, the
posterior's most probable candidate, or what was answered in the end."""

Cost = Callable[[Record], float]
"""Forward passes, or tokens, spent on one question."""


class Estimate(NamedTuple):
    """One confidence.

    Attributes:
        position: place of the question in the stream, from 0.
        confidence: probability that the answer is right, in [0, 1].
        correct: whether the answer that it is about is right; None without a reference.
        tokens: tokens that went through the network for it.
    """

    position: int
    confidence: float
    correct: bool | None
    tokens: float


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One confidence along a stream: a column for each field of `Estimate`, in order, with a row for each question.

    Attributes:
        positions: of the questions that have it.
        confidence: in [0, 1].
        correct: 1 for right, 0 for wrong, nan without a reference.
        tokens: that went through the network for it.
        fitted: what was fitted, in words, for example "T=1.8"; None where nothing was.
    """

    positions: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    confidence: Vector = field(default_factory=lambda: np.empty(0))
    correct: Vector = field(default_factory=lambda: np.empty(0))
    tokens: Vector = field(default_factory=lambda: np.empty(0))
    fitted: str | None = None

    @classmethod
    def of(cls, estimates: Iterable[Estimate]) -> Self:
        """The series of these estimates, one after the other."""
        rows = np.fromiter(
            ((position, p, math.nan if right is None else right, tokens) for position, p, right, tokens in estimates),
            dtype=[("position", np.intp), ("confidence", float), ("correct", float), ("tokens", float)],
        )
        position, confidence, correct, tokens = (rows[name].copy() for name in rows.dtype.names or ())
        return cls(position, confidence, correct, tokens)

    @classmethod
    def rated(
        cls,
        records: Iterable[Record],
        confidence: Callable[[Record], float | None],
        correct: Callable[[Record], bool | None],
        tokens: Cost,
    ) -> Self:
        """The series of a function of each record, without the records for which it is None."""
        rated = ((record, confidence(record)) for record in records)
        return cls.of(
            Estimate(record.position, value, correct(record), tokens(record))
            for record, value in rated
            if value is not None
        )

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def has_grade(self) -> Mask:
        """Which answers have a grade."""
        return ~np.isnan(self.correct)

    def where(self, rows: Mask | npt.NDArray[np.intp]) -> Self:
        """Some of the rows alone, by a mask or by their numbers."""
        return replace(
            self,
            positions=self.positions[rows],
            confidence=self.confidence[rows],
            correct=self.correct[rows],
            tokens=self.tokens[rows],
        )

    def graded(self) -> tuple[Vector, Vector]:
        """Confidences and grades of the answers that have a grade."""
        return self.confidence[self.has_grade], self.correct[self.has_grade]


@dataclass(frozen=True)
class Estimator:
    """How a confidence is computed from records.

    Attributes:
        name: short and unique, for files and flags.
        title: name for people; ends in a star if it is cross-validated.
        estimate: maps all records of a run to the series.
        paper_passes: cost of one question in forward passes, as the paper counts.
        answers: the answer that the confidence is about.
        needs: evidence without which there is no confidence; None for the reply alone.
        learned: true if it rates what the adapted model reports, which a run without learning does not have.
        needs_labels: true if it is fitted to right answers, as no method of ours is.
        ranks: false where the order of answers means nothing: for a constant, and for maps that differ between folds.
        signal: chooses the answer where `answers` is "own".
    """

    name: str
    title: str
    estimate: Callable[[Sequence[Record]], Series]
    paper_passes: Cost
    answers: AnswerOf = "reply"
    needs: EvidenceKind | None = None
    learned: bool = False
    needs_labels: bool = False
    ranks: bool = True
    signal: Signal | None = None

    def answer(self, record: Record) -> str | None:
        """The answer that the confidence is about; None if it could not be read."""
        if self.answers == "own" and self.signal is not None:
            return self.signal.answer(record.question, record.reply, record.evidence)
        if self.answers == "best":
            return record.best_answer
        if self.answers == "reported":
            return record.answer
        return record.frozen.answer if self.answers == "frozen" else record.reply.answer
