"""What an estimator is: a confidence computed from records, the series it gives along a stream, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from secl.evidence import EvidenceKind
from secl.records import Record
from secl.signals import Signal

AnswerOf = Literal["reply", "frozen", "own", "best"]
"""Which answer a confidence is about: the reply's, the frozen model's, one that the estimator chooses itself, or the
posterior's most probable candidate."""

Family = Literal["reply", "p_true", "candidates", "samples", "learned", "label_free"]
"""Estimators of one kind, which charts draw alike."""

Cost = Callable[[Record], float]
"""Forward passes, or tokens, spent on one question."""


@dataclass(frozen=True, slots=True)
class Estimate:
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


@dataclass(frozen=True, slots=True)
class Series:
    """One confidence along a stream.

    Attributes:
        estimates: one for each question that has it, in order.
        fitted: what was fitted, in words, for example "T=1.8"; None where nothing was.
    """

    estimates: tuple[Estimate, ...] = ()
    fitted: str | None = None

    def graded(self) -> tuple[list[float], list[bool]]:
        """Confidences and grades of the answers that have a grade."""
        graded = [(each.confidence, each.correct) for each in self.estimates if each.correct is not None]
        return [confidence for confidence, _ in graded], [correct for _, correct in graded]


@dataclass(frozen=True)
class Estimator:
    """How a confidence is computed from records.

    Attributes:
        name: short and unique, for files and flags.
        title: name for people; ends in a star if it needs labels.
        family: its kind.
        estimate: maps all records of a run to the series.
        paper_passes: cost of one question in forward passes, as the paper counts.
        answers: the answer that the confidence is about.
        needs: evidence without which there is no confidence; None for the reply alone.
        learned: true if it rates what the adapted model reports, which a run without learning does not have.
        needs_labels: true if it is fitted to right answers, as no method of ours is.
        signal: chooses the answer where `answers` is "own".
    """

    name: str
    title: str
    family: Family
    estimate: Callable[[Sequence[Record]], Series]
    paper_passes: Cost
    answers: AnswerOf = "reply"
    needs: EvidenceKind | None = None
    learned: bool = False
    needs_labels: bool = False
    signal: Signal | None = None

    def answer(self, record: Record) -> str | None:
        """The answer that the confidence is about; None if it could not be read."""
        if self.answers == "own" and self.signal is not None:
            return self.signal.answer(record.question, record.reply, record.evidence)
        if self.answers == "best":
            return record.best_answer
        return record.frozen.answer if self.answers == "frozen" else record.reply.answer
