"""Which answers of a run or a server may be accepted: a threshold of the confidence, and what is known of it.

Labels are what people said of answers and what references say; where both speak of one answer, people do. A promise
rests on labels of answers that were drawn at random, or on references. Volunteers choose what they speak of, most of
all answers that they dislike, so what they say gives an estimate and no promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from secl.errors import ParameterError
from secl.grading import grade, reported_correct
from secl.labels import Label, LabelSource, LabelState, standing
from secl.metrics.graded import Vector
from secl.metrics.risk_control import (
    RiskCoverage,
    Threshold,
    check_level,
    estimated,
    fewest_labels,
    guaranteed,
    labels_needed,
    nearest_risk,
    risk_coverage,
)
from secl.records import Record

Basis = Literal["labels", "volunteers", "confidences"]
"""What a statement rests on: labels of answers drawn at random, labels that people volunteered, or no label at all."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers with their confidences, and what is known of them.

    Attributes:
        confidence: in [0, 1]; 0 for an answer that could not be read, which nobody can accept.
        correct: 1 or 0, nan without a label.
        basis: what the labels are.
        left_out: labels that people volunteered, and that count for nothing because there are others.
    """

    confidence: Vector
    correct: Vector
    basis: Basis
    left_out: int = 0

    @property
    def curve(self) -> RiskCoverage:
        """Risk over coverage."""
        return risk_coverage(self.confidence, self.correct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A threshold for a risk, or why there is none.

    Attributes:
        risk: largest share of wrong ones among accepted answers, in (0, 1).
        certainty: with which a promise is to hold, in (0, 1).
        basis: what `threshold` rests on.
        answers, labels: how many there are.
        wrong: how many of the labelled answers are wrong.
        surest_wrong: whether the most confident labelled answer is wrong, or one of several that are as confident.
        threshold: None where no threshold will do.
        fewest: labels without an error that the promise takes at least.
        needed: labels that it takes in all, if further ones are like those that are there; None where no number would
            do, or none is needed.
        nearest: the lowest risk that the labels can promise, where they cannot promise this.
    """

    risk: float
    certainty: float
    basis: Basis
    answers: int
    labels: int
    wrong: int
    surest_wrong: bool
    threshold: Threshold | None
    fewest: int
    needed: int | None = None
    nearest: float | None = None


def answers_of(records: Iterable[Record], log: Sequence[Label] = ()) -> Answers:
    """The answers of records with their labels, and with the confidences that such answers get next.

    Args:
        records: with or without references; they are gone through once.
        log: labels in order, also those that were corrected or taken back.
    """
    labels = standing(log)
    drawn = _equally_likely(labels)
    correct_of = {label.position: bool(label.correct) for label in drawn}
    correct_of_volunteers = {
        label.position: bool(label.correct) for label in labels if label.position not in correct_of
    }
    state = LabelState.start().add(log)

    def rows() -> Iterator[tuple[float, float, float]]:
        without_record = {label.position: label for label in labels}
        for record in records:
            known = correct_of.get(record.position, _by_reference(record))
            without_record.pop(record.position, None)
            yield _confidence(record, state), _number(known), _number(correct_of_volunteers.get(record.position))
        for position, label in without_record.items():  # its record was pruned; what a promise needs is in the label
            confidence = state.confidence(label.domain, label.confidence)
            yield confidence, _number(correct_of.get(position)), _number(correct_of_volunteers.get(position))

    columns = np.fromiter(rows(), dtype=np.dtype((np.float64, 3)))
    confidence, correct, of_volunteers = columns.T.copy()
    basis: Basis = "labels" if np.isfinite(correct).any() else "volunteers" if correct_of_volunteers else "confidences"
    left_out = len(correct_of_volunteers) if basis == "labels" else 0
    return Answers(confidence, of_volunteers if basis == "volunteers" else correct, basis, left_out)


def _equally_likely(labels: Sequence[Label]) -> list[Label]:
    """Labels that were all as likely, which a promise needs: all with a chance, or those of one source; else none."""
    drawn = [label for label in labels if label.chance is not None]
    sources = [[label for label in drawn if label.source == source] for source in get_args(LabelSource)]
    return max((group for group in (drawn, *sources) if len({each.chance for each in group}) <= 1), key=len)


def _by_reference(record: Record) -> bool | None:
    """Whether an answer is right, whatever people said of it; None without a reference."""
    return reported_correct(record) if record.label is None else grade(record.question, record.answer)


def _confidence(record: Record, state: LabelState) -> float:
    """As reported; after a log of labels, as such an answer would be reported after them.

    One map for all, also for the labelled ones: their order must not depend on what was said of them.
    """
    if record.answer is None:
        return 0.0
    return state.confidence(record.question.domain, record.label_free) if state.until else record.confidence


def advise(answers: Answers, risk: float, certainty: float = 0.9) -> Advice:
    """The threshold of the largest coverage with a risk, or how far it is away.

    Raises:
        ParameterError: there are no answers, or a risk or certainty is not inside (0, 1).
    """
    check_level(risk, certainty)
    if not len(answers.confidence):
        raise ParameterError("there are no answers, so there is nothing to accept; ask some questions first.")
    curve, fewest = answers.curve, fewest_labels(risk, certainty)
    # A thumb or two say nothing about a share of wrong answers.
    basis: Basis = "confidences" if answers.basis == "volunteers" and curve.total < fewest else answers.basis
    needed = nearest = None
    if answers.basis == "labels":
        threshold = guaranteed(curve, risk, certainty)
        if threshold is None:
            needed = labels_needed(curve, risk, certainty)
            nearest = nearest_risk(curve, certainty, above=risk)
    elif basis == "volunteers":
        threshold = estimated(curve, risk, from_labels=True)
    else:
        threshold, needed = estimated(curve, risk), labels_needed(curve, risk, certainty)
    return Advice(
        risk=risk,
        certainty=certainty,
        basis=basis,
        answers=curve.answers,
        labels=curve.total,
        wrong=int(curve.wrong[-1]),
        surest_wrong=bool(curve.wrong[np.argmax(curve.labels > 0)]),
        threshold=threshold,
        fewest=fewest,
        needed=needed,
        nearest=nearest,
    )


def _number(value: bool | None) -> float:
    return math.nan if value is None else float(value)
