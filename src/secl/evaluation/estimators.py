"""Every confidence that can be computed from a run's records: the rows of all tables and reports.

An estimator turns records into a series of (confidence, was it right) and says what it costs. Where nothing learns, all
of them rate the frozen model's answers, so that one run serves them all. In a run that learns, evidence is about the
adapted model's answer, and so are the estimators that need any. A new one is one line in `make_estimators`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from secl.data.grading import grade
from secl.recalibration import Kind, Recalibrated, cross_validated, label_free
from secl.records import EvidenceKind, Record, Reply
from secl.settings import Formula
from secl.signals import (
    AnswerProbability,
    DincoSignal,
    NormalisedPTrue,
    RawPTrue,
    SelfConsistency,
    Signal,
    Stated,
    TokenEntropy,
)

FOLDS = 5
"""Folds of cross-validation; fewer graded answers than these cannot be cross-validated."""

MAPS: dict[Kind, str] = {"temperature": "temperature", "platt": "Platt"}
"""Titles of the maps that are fitted to confidences."""

AnswerOf = Literal["reply", "frozen", "own"]
"""Which answer a confidence is about: the reply's, the frozen model's, or one that the estimator chooses itself."""

Family = Literal["reply", "p_true", "samples", "learned", "label_free"]
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
        return record.frozen.answer if self.answers == "frozen" else record.reply.answer


def make_estimators(tau: float = 1.0, formula: Formula = "log") -> dict[str, Estimator]:
    """All estimators by name, in the order of reports.

    Args:
        tau: temperature of normalised P(True), above 0.
        formula: formula of normalised P(True).
    """
    norm_p_true = NormalisedPTrue(tau, formula)
    direct = (
        _of_frozen("stated", "Stated (frozen)", Stated()),
        _of_frozen("stated_hard", "Stated, hard digit", Stated(hard=True)),
        _of_frozen("answer_probability", "Answer probability", AnswerProbability()),
        _of_frozen("token_entropy", "Token entropy, exp(-H)", TokenEntropy()),
        _of_evidence("p_true", "P(True)", RawPTrue(), 2, _tokens_of_one_p_true),
        _of_evidence("norm_p_true", "Normalised P(True)", norm_p_true, 6, _tokens_of_p_true),
        _of_evidence("self_consistency", "Self-consistency", SelfConsistency("mode"), 10, _tokens_of_samples, "own"),
        _of_evidence("dinco", "DINCO (beam answers)", DincoSignal("beam"), 10, _tokens_of_dinco, "own"),
        _of_evidence("dinco_greedy", "DINCO (greedy answers)", DincoSignal("greedy"), 10, _tokens_of_dinco),
        Estimator("secl", "SECL", "learned", _reported, _passes_of_learning, learned=True),
    )
    by_name = {estimator.name: estimator for estimator in direct}
    recalibrated = [
        _cross_validated(by_name[name], kind) for name in ("stated", "norm_p_true", "secl") for kind in MAPS
    ]
    controls = [_label_free(norm_p_true, kind) for kind in MAPS]
    return by_name | {estimator.name: estimator for estimator in (*recalibrated, *controls)}


def _of_frozen(name: str, title: str, signal: Signal) -> Estimator:
    """The frozen model's reply alone."""

    def estimate(records: Sequence[Record]) -> Series:
        rated = ((record, _rate(signal, record, record.frozen)) for record in records)
        return Series(
            tuple(
                Estimate(record.position, confidence, record.frozen_correct, record.ledger.answering)
                for record, confidence in rated
                if confidence is not None
            )
        )

    return Estimator(name, title, "reply", estimate, lambda _record: 1.0, answers="frozen")


def _of_evidence(
    name: str, title: str, signal: Signal, passes: float, tokens: Cost, answers: AnswerOf = "reply"
) -> Estimator:
    """What the frozen model was asked about the reply.

    Args:
        name: name of the estimator.
        title: name for people.
        signal: the confidence.
        passes: forward passes that the paper counts for a question.
        tokens: spent on the evidence; those of the answer are added.
        answers: "own" if the signal chooses the answer.
    """

    def estimate(records: Sequence[Record]) -> Series:
        rated = ((record, _rate(signal, record, record.reply)) for record in records)
        return Series(
            tuple(
                Estimate(record.position, confidence, _correct(signal, record), _answering(record) + tokens(record))
                for record, confidence in rated
                if confidence is not None
            )
        )

    family: Family = "p_true" if signal.needs == "p_true" else "samples"
    return Estimator(
        name, title, family, estimate, lambda _record: passes, answers=answers, needs=signal.needs, signal=signal
    )


def _rate(signal: Signal, record: Record, reply: Reply) -> float | None:
    return signal(record.question, reply, record.evidence)


def _correct(signal: Signal, record: Record) -> bool | None:
    """Whether the answer that the signal is about is right."""
    answer = signal.answer(record.question, record.reply, record.evidence)
    return record.correct if answer == record.reply.answer else grade(record.question, answer)


def _answering(record: Record) -> float:
    return record.ledger.answering + record.ledger.adapting


def _tokens_of_one_p_true(record: Record) -> float:
    p_true = record.evidence.p_true
    return record.ledger.scoring / len(p_true.candidates) if p_true is not None else 0.0


def _tokens_of_p_true(record: Record) -> float:
    return record.ledger.scoring


def _tokens_of_samples(record: Record) -> float:
    return record.ledger.sampling


def _tokens_of_dinco(record: Record) -> float:
    samples = record.evidence.samples or ()
    return record.ledger.comparing + record.ledger.sampling * min(1.0, 5 / max(1, len(samples)))


def _passes_of_learning(record: Record) -> float:
    """The paper's ledger: 15 passes for a question that trained, 1 for any other."""
    return 15.0 if record.update is not None else 1.0


def _reported(records: Sequence[Record]) -> Series:
    """The reported confidence; evidence that was recorded outside bursts is there to compare with, not for learning."""

    def tokens(record: Record) -> float:
        ledger = record.ledger
        if record.decision.in_burst:
            return ledger.total
        # P(True) without evidence was prefetched for a burst that did not come.
        return _answering(record) + (ledger.scoring if record.evidence.p_true is None else 0.0)

    return Series(tuple(Estimate(r.position, r.reply.confidence, r.correct, tokens(r)) for r in records))


def _cross_validated(base: Estimator, kind: Kind) -> Estimator:
    """An estimator mapped by what five folds of right answers fit."""

    def estimate(records: Sequence[Record]) -> Series:
        series = base.estimate(records)
        confidences, grades = series.graded()
        if len(grades) < FOLDS:
            return Series()
        mapped = cross_validated(confidences, grades, kind, folds=FOLDS)
        graded = (each for each in series.estimates if each.correct is not None)
        return Series(
            tuple(
                replace(each, confidence=confidence) for each, confidence in zip(graded, mapped.confidence, strict=True)
            ),
            _describe_fit(mapped),
        )

    title = f"{base.title} + {MAPS[kind]}*"
    return replace(base, name=f"{base.name}_{kind}", title=title, estimate=estimate, needs_labels=True)


def _describe_fit(mapped: Recalibrated) -> str:
    """The mean fit and the range of the mapped confidences, as the paper's tables show them."""
    value = mapped.value
    fit = f"T={value:.3g}" if isinstance(value, float) else f"a={value[0]:.3g}, b={value[1]:.3g}"
    return f"{fit}, range [{mapped.low:.2f}, {mapped.high:.2f}]"


def _label_free(signal: Signal, kind: Kind) -> Estimator:
    """The frozen confidence mapped by what earlier scored questions of the stream fit, without any right answer."""

    def estimate(records: Sequence[Record]) -> Series:
        scores = [_score_of_frozen(signal, record) for record in records]
        if all(math.isnan(score) for score in scores):
            return Series()
        mapped = label_free([record.frozen.confidence for record in records], scores, kind)
        return Series(
            tuple(
                Estimate(r.position, confidence, r.frozen_correct, r.ledger.answering + r.ledger.scoring)
                for r, confidence in zip(records, mapped.tolist(), strict=True)
            )
        )

    def passes(record: Record) -> float:
        return 1.0 if record.evidence.p_true is None else 6.0

    title = f"Label-free {MAPS[kind]}"
    return Estimator(f"label_free_{kind}", title, "label_free", estimate, passes, answers="frozen", needs=signal.needs)


def _score_of_frozen(signal: Signal, record: Record) -> float:
    """The signal of the frozen model's answer; nan without one."""
    if record.reply.answer != record.frozen.answer:
        return math.nan
    score = _rate(signal, record, record.reply)
    return math.nan if score is None else score


ESTIMATORS: dict[str, Estimator] = make_estimators()
"""All estimators, with normalised P(True) at tau 1."""
