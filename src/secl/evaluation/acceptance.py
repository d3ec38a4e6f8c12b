"""Thresholds for accepting answers: the confidence that an accepted answer needs, for a given risk.

A guarantee needs a random sample of answers whose grades are known. Three samples can exist: the labels of a review,
the references, and labels from feedback for which a client drew the answers with equal chances. secl uses the largest
sample, but ignores feedback if labels of a review exist. A label in a sample overrides the reference of its answer.
Volunteers choose which answers to rate, so their labels give only an estimate.

secl tests thresholds in the order of the label-free confidences. Labels must not change that order: if the labels that
test a threshold also changed the confidences, up to 99 % of simulated streams would get a false guarantee
(docs/lab/log.md). People see confidences that labels calibrated. The map from one scale to the other is strictly
increasing in each domain (`secl.labels.state`), so each threshold also has a value on the scale that people see.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from secl.errors import ParameterError
from secl.grading.rules import grade, reported_correct
from secl.labels.label import Label, LabelSource, standing
from secl.labels.state import LabelState
from secl.metrics.probability import Vector
from secl.metrics.risk_control import (
    RiskCoverage,
    Scale,
    Threshold,
    check_level,
    estimated,
    fewest_labels,
    guaranteed,
    labels_needed,
    nearest_risk,
    risk_coverage,
    strictest,
)
from secl.records import Record

Basis = Literal["labels", "volunteers", "confidences"]
"""What a threshold rests on: labels of a random sample, labels of volunteers, or confidences without labels."""

SOURCES = get_args(LabelSource)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers with their confidences and labels.

    Attributes:
        confidence: label-free, in [0, 1]; nan for an unreadable answer, which is never accepted.
        probability: the same, calibrated by labels.
        scales: from the former to the latter, for each domain with a map of its own; None stands for all others.
        correct: 1 or 0, nan without a label.
        basis: origin of the labels.
        references: whether the labels are references, or labels that override them.
        left_out: number of unused labels and references, from outside the sample.
    """

    confidence: Vector
    probability: Vector
    scales: Mapping[str | None, Scale]
    correct: Vector
    basis: Basis
    references: bool = False
    left_out: int = 0

    @property
    def curve(self) -> RiskCoverage:
        """The risk at each coverage."""
        return risk_coverage(self.confidence, self.correct, self.probability, self.scales)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A threshold for a risk, or the reason why no threshold exists.

    Attributes:
        risk: largest permitted share of wrong answers among accepted answers, in [1e-9, 1).
        certainty: probability that the guarantee holds, in (0, 1).
        basis: what `threshold` rests on.
        answers, labels, wrong: number of answers, of labelled answers, and of wrong answers among these.
        threshold: None if no threshold keeps the risk.
        fewest: fewest labels for a guarantee, if all labelled answers are right.
        needed: number of labels for a guarantee if further labels are like the present ones; None if secl knows no
            such number, or if the present labels suffice.
        nearest: lowest risk that the labels guarantee, if they do not guarantee `risk`; otherwise None.
        first: the strictest tested threshold, if the labels do not guarantee `risk`; None if the labels are too few
            for a test.
    """

    risk: float
    certainty: float
    basis: Basis
    answers: int
    labels: int
    wrong: int
    threshold: Threshold | None
    fewest: int
    needed: int | None = None
    nearest: float | None = None
    first: Threshold | None = None

    @property
    def value(self) -> float | None:
        """Lowest confidence to accept, on the scale of `Record.confidence`; None if no threshold keeps the risk.

        `domains` has the value of each domain with a map of its own.
        """
        return None if self.threshold is None else self.threshold.value

    @property
    def domains(self) -> Mapping[str, float]:
        """Lowest confidence to accept in each domain whose confidences labels move by a map of its own."""
        return {} if self.threshold is None else self.threshold.domains

    def accepts(self, record: Record) -> bool:
        """Return whether the threshold accepts an answer, also if later labels have moved its confidence."""
        limit = None if self.threshold is None else self.threshold.label_free
        return limit is not None and record.answer is not None and record.label_free >= limit


class Judgement(NamedTuple):
    """Position, domain, confidence and reference grade of a record, from which `advise` computes a threshold.

    Attributes:
        confidence: label-free, in [0, 1]; nan for an unreadable answer.
        reference: whether the answer is correct by the question's reference; None without a reference.
    """

    position: int
    domain: str
    confidence: float
    reference: bool | None


def judgement_of(record: Record) -> Judgement:
    """Return the judgement of a record; `reference` ignores the label of the record."""
    reference = reported_correct(record) if record.label is None else grade(record.question, record.answer)
    confidence = math.nan if record.answer is None else record.label_free
    return Judgement(record.position, record.question.domain, confidence, reference)


def answers_of(records: Iterable[Record], log: Sequence[Label] = (), calibration: LabelState | None = None) -> Answers:
    """Return the answers of records with their labels; arguments as for `answers_from`."""
    return answers_from(map(judgement_of, records), log, calibration)


def answers_from(
    judgements: Iterable[Judgement], log: Sequence[Label] = (), calibration: LabelState | None = None
) -> Answers:
    """Return answers with their labels.

    Args:
        judgements: one for each record.
        log: labels in order, including corrected and withdrawn ones.
        calibration: gives the scale that people see; by default the calibration by `log`.
    """
    calibration = calibration or LabelState.start().add(log)
    standing_labels = standing(log)
    chances = {source: {each.chance for each in standing_labels if each.source == source} for source in SOURCES}
    labels = {label.position: label for label in standing_labels}
    # If a volunteer later labels an answer of the random sample, the label of the sample counts.
    labels |= {each.position: each for each in standing(e for e in log if e.chance is not None or e.correct is None)}
    judged = list(judgements)
    kept = {judgement.position for judgement in judged}
    # A label stores the confidence of its answer, so labels of pruned records count, too.
    judged += [_of_pruned(each) for each in labels.values() if each.position not in kept]
    known: list[dict[str, bool]] = []  # for each answer, by source: whether the answer is right
    for judgement in judged:
        label = labels.get(judgement.position)
        of_source = {} if judgement.reference is None else {"reference": judgement.reference}
        if label is not None:
            at_random = label.chance is not None and len(chances[label.source] - {None}) == 1
            of_source |= {label.source if at_random else "volunteers": bool(label.correct)}
            of_source |= dict.fromkeys(of_source, bool(label.correct)) if at_random else {}
        known.append(of_source)
    counts = Counter(source for of_source in known for source in of_source)
    # A review beats feedback: secl drew the answers of the review, but cannot check how a client chose answers.
    drawn = [name for name in counts if name != "volunteers" and (name != "feedback" or "review" not in counts)]
    used = max(drawn or counts, key=lambda source: counts[source], default="")
    basis: Basis = "labels" if drawn else "volunteers" if used else "confidences"
    correct = np.array([float(of_source.get(used, math.nan)) for of_source in known])
    left_out = sum(bool(of_source) and used not in of_source for of_source in known)
    confidence = np.array([judgement.confidence for judgement in judged])
    probability = np.array([calibration.calibrated(judgement.domain, judgement.confidence) for judgement in judged])
    return Answers(confidence, probability, calibration.scales, correct, basis, used == "reference", left_out)


def _of_pruned(label: Label) -> Judgement:
    """Return the judgement of a record of which only the label is left; `reported` is 0 for an unreadable answer."""
    return Judgement(label.position, label.domain, label.confidence if label.reported else math.nan, None)


def advise(answers: Answers, risk: float, certainty: float = 0.9) -> Advice:
    """Return the threshold of the largest coverage with at most this risk.

    If the labels guarantee no threshold, the advice has the number of labels that a guarantee needs.

    Raises:
        ParameterError: no answers, or a risk or certainty out of range.
    """
    check_level(risk, certainty)
    if not len(answers.confidence):
        raise ParameterError("there are no answers, so there is nothing to accept; ask some questions first.")
    curve, fewest = answers.curve, fewest_labels(risk, certainty)
    # If volunteers gave too few labels, the threshold rests on the confidences.
    basis: Basis = "confidences" if answers.basis == "volunteers" and curve.total < fewest else answers.basis
    needed = nearest = first = None
    if answers.basis == "labels":
        threshold = guaranteed(curve, risk, certainty)
        if threshold is None:
            needed = labels_needed(curve, risk, certainty)
            nearest = nearest_risk(curve, certainty, above=risk)
            first = strictest(curve, risk, certainty)
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
        wrong=int(curve.wrong[-1]) if curve.wrong.size else 0,
        threshold=threshold,
        fewest=fewest,
        needed=needed,
        nearest=nearest,
        first=first,
    )
