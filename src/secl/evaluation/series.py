"""Estimators, which rate the answer of each record, and the series of their confidences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from secl.evidence import EvidenceKind
from secl.grading.rules import correctness
from secl.metrics.probability import Vector
from secl.records import Record

Rating = tuple[str | None, float | None]
"""An answer (None if unreadable) and the probability that it is correct (None if undefined)."""

Cost = Callable[[Record], float]
"""Forward passes, or tokens, of one question."""

Rate = Callable[[Sequence[Record]], Iterable[Rating]]
"""Maps the records of a run to a rating of each."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The confidences of one estimator along a stream. Each array has one entry for each question with a confidence.

    Attributes:
        positions: positions of the questions in the stream.
        confidence: in [0, 1].
        correct: 1 for right, 0 for wrong, nan without a grade.
        tokens: number of tokens through the network for this confidence.
        fitted: fitted parameters in words, for example "T=1.8"; None without a fit.
    """

    positions: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    confidence: Vector = field(default_factory=lambda: np.empty(0))
    correct: Vector = field(default_factory=lambda: np.empty(0))
    tokens: Vector = field(default_factory=lambda: np.empty(0))
    fitted: str | None = None

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def has_grade(self) -> Mask:
        """Mask of the graded answers."""
        return ~np.isnan(self.correct)

    def where(self, rows: Mask | npt.NDArray[np.intp]) -> Self:
        """Return the rows that a mask or a list of row numbers selects."""
        return replace(
            self,
            positions=self.positions[rows],
            confidence=self.confidence[rows],
            correct=self.correct[rows],
            tokens=self.tokens[rows],
        )

    def graded(self) -> tuple[Vector, Vector]:
        """Return confidences and grades of the graded answers."""
        return self.confidence[self.has_grade], self.correct[self.has_grade]


@dataclass(frozen=True)
class Estimator:
    """A rule that computes a confidence from a record.

    Attributes:
        name: short and unique, for files and flags.
        title: name in reports; ends in a star if cross-validated.
        rate: returns answer and confidence of each record of a run.
        paper_passes: cost of one question in forward passes, as the paper counts.
        tokens: cost of one question in tokens through the network.
        needs: required evidence; None if the reply suffices.
        frozen: whether the rated answer is the frozen model's.
        learned: whether the confidence comes from an adapted model; a run without learning has no such confidence.
        needs_labels: whether the confidence is fitted to graded answers.
        ranks: whether the order of confidences has a meaning: not for a constant, and not for maps that differ by fold.
        mapped: recalibrates the confidences from `rate`; by default the identity.
    """

    name: str
    title: str
    rate: Rate
    paper_passes: Cost
    tokens: Cost
    needs: EvidenceKind | None = None
    frozen: bool = False
    learned: bool = False
    needs_labels: bool = False
    ranks: bool = True
    mapped: Callable[[Series, Sequence[Record]], Series] = lambda series, _records: series

    def estimate(self, records: Sequence[Record]) -> Series:
        """Return the series of all records of a run."""
        rated = [
            (record.position, confidence, self._grade(record, answer), self.tokens(record))
            for record, (answer, confidence) in zip(records, self.rate(records), strict=True)
            if confidence is not None and not math.isnan(confidence)
        ]
        positions, confidences, grades, tokens = zip(*rated, strict=True) if rated else ((), (), (), ())
        column = np.array(confidences, dtype=float), np.array(grades, dtype=float), np.array(tokens, dtype=float)
        return self.mapped(Series(np.array(positions, dtype=np.intp), *column), records)

    def _grade(self, record: Record, answer: str | None) -> float:
        grade = record.frozen_correct if self.frozen else correctness(record, answer)
        return math.nan if grade is None else grade
