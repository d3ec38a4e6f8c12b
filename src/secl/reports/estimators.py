"""Every confidence that can be read off a run's records, by name: the rows of all tables and reports.

A reading turns records into a series of (confidence, was it right) and says what it costs. Where nothing learns, all
are about the frozen model's answers, so that one run serves them all. In a run that learns, evidence is about the
adapted model's answer, and so are the readings that need any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from secl.data.grading import grade
from secl.recalibration import Kind, Recalibrated, cross_validated, label_free
from secl.records import Record
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
"""Of cross-validation; fewer right-or-wrong answers than these cannot be cross-validated."""

Passes = Callable[[Record], float]
MAPS: dict[Kind, str] = {"temperature": "temperature", "platt": "Platt"}


@dataclass(frozen=True)
class Series:
    """One confidence along a stream.

    Attributes:
        places: positions of the questions that have it.
        confidence: in [0, 1], one for each place.
        correct: whether the answer that it is about is right; None without a reference.
        tokens: that went through the network for it, one for each place.
        fitted: what was fitted, in words, for example "T=1.8"; empty where nothing was.
    """

    places: list[int] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)
    correct: list[bool | None] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    fitted: str = ""


@dataclass(frozen=True)
class Reading:
    """How a confidence is read off records.

    Attributes:
        label: what people call it.
        passes: its cost on one question in forward passes, as the paper counts.
        read: from all records of a run to the series.
        labels: whether it needs right answers to learn from, as no method of ours does.
    """

    label: str
    passes: Passes
    read: Callable[[Sequence[Record]], Series]
    labels: bool = False


def readings(tau: float = 1.0, formula: Formula = "log") -> dict[str, Reading]:
    """All readings by name, in the order of reports.

    Args:
        tau, formula: of normalised P(True).
    """
    norm_p_true = NormalisedPTrue(tau, formula)
    found = {
        "stated": Reading("Stated (frozen)", _constant(1), _of_shadow(Stated())),
        "stated_hard": Reading("Stated, hard digit", _constant(1), _of_shadow(Stated(hard=True))),
        "answer_probability": Reading("Answer probability", _constant(1), _of_shadow(AnswerProbability())),
        "token_entropy": Reading("Token entropy, exp(-H)", _constant(1), _of_shadow(TokenEntropy())),
        "p_true": Reading("P(True)", _constant(2), _of_evidence(RawPTrue(), _one_verdict)),
        "norm_p_true": Reading("Normalised P(True)", _constant(6), _of_evidence(norm_p_true, _verdicts)),
        "self_consistency": Reading(
            "Self-consistency", _constant(10), _of_evidence(SelfConsistency("mode"), lambda r: r.ledger.sampling)
        ),
        "dinco": Reading("DINCO (beam answers)", _constant(10), _of_evidence(DincoSignal("beam"), _dinco)),
        "dinco_greedy": Reading("DINCO (greedy answers)", _constant(10), _of_evidence(DincoSignal("greedy"), _dinco)),
        "secl": Reading("SECL", _learned, _secl),
    }
    for base in ("stated", "norm_p_true", "secl"):
        for kind, name in MAPS.items():
            found[f"{base}_{kind}"] = _cross_validated(found[base], kind, name)
    for kind, name in MAPS.items():
        found[f"label_free_{kind}"] = Reading(f"Label-free {name}", _scored_passes, _label_free(norm_p_true, kind))
    return found


def _constant(passes: float) -> Passes:
    return lambda _record: passes


def _learned(record: Record) -> float:
    """The paper's ledger: 15 passes for a question that trained, 1 for any other."""
    return 15.0 if record.update is not None else 1.0


def _one_verdict(record: Record) -> float:
    p_true = record.evidence.p_true
    return record.ledger.scoring / len(p_true.candidates) if p_true is not None else 0.0


def _verdicts(record: Record) -> float:
    return record.ledger.scoring


def _dinco(record: Record) -> float:
    samples = record.evidence.samples or ()
    return record.ledger.comparing + record.ledger.sampling * min(1.0, 5 / max(1, len(samples)))


def _of_shadow(signal: Signal) -> Callable[[Sequence[Record]], Series]:
    """Read off the frozen model's reply alone."""

    def read(records: Sequence[Record]) -> Series:
        series = Series()
        for record in records:
            confidence = signal(record.question, record.frozen, record.evidence)
            if confidence is not None:
                _add(series, record, confidence, record.frozen_correct, record.ledger.answering)
        return series

    return read


def _of_evidence(signal: Signal, spent: Callable[[Record], float]) -> Callable[[Sequence[Record]], Series]:
    """Read off what the frozen model was asked about the reply."""

    def read(records: Sequence[Record]) -> Series:
        series = Series()
        for record in records:
            confidence = signal(record.question, record.reply, record.evidence)
            if confidence is None:
                continue
            answer = signal.answer(record.question, record.reply, record.evidence)
            correct = record.correct if answer == record.reply.answer else grade(record.question, answer)
            _add(series, record, confidence, correct, record.ledger.answering + record.ledger.adapting + spent(record))
        return series

    return read


def _secl(records: Sequence[Record]) -> Series:
    """The reported confidence; evidence that was recorded outside bursts is there to compare with, not for learning."""
    series = Series()
    for record in records:
        ledger = record.ledger
        guessed = ledger.scoring if record.evidence.p_true is None else 0.0  # a burst foreseen that did not come
        tokens = ledger.total if record.decision.in_burst else ledger.answering + ledger.adapting + guessed
        _add(series, record, record.reply.confidence, record.correct, tokens)
    return series


def _cross_validated(base: Reading, kind: Kind, name: str) -> Reading:
    """A reading mapped by what five folds of right answers fit."""

    def read(records: Sequence[Record]) -> Series:
        found = base.read(records)
        kept = [i for i, correct in enumerate(found.correct) if correct is not None]
        if len(kept) < FOLDS:
            return Series()
        grades = [bool(found.correct[i]) for i in kept]
        mapped = cross_validated([found.confidence[i] for i in kept], grades, kind, folds=FOLDS)
        return Series(
            [found.places[i] for i in kept],
            [float(value) for value in mapped.confidence],
            list(grades),
            [found.tokens[i] for i in kept],
            _fitted(mapped),
        )

    return Reading(f"{base.label} + {name}*", base.passes, read, labels=True)


def _fitted(mapped: Recalibrated) -> str:
    """The mean fit and the range of the mapped confidences, as the paper's tables show them."""
    value = mapped.value
    fit = f"T={value:.3g}" if isinstance(value, float) else f"a={value[0]:.3g}, b={value[1]:.3g}"
    return f"{fit}, range [{mapped.low:.2f}, {mapped.high:.2f}]"


def _label_free(signal: Signal, kind: Kind) -> Callable[[Sequence[Record]], Series]:
    """The frozen confidence mapped by what earlier scored questions of the stream fit, without any right answer."""

    def read(records: Sequence[Record]) -> Series:
        stated = [record.frozen.confidence for record in records]
        scores = [_scored(signal, record) for record in records]
        if all(math.isnan(score) for score in scores):
            return Series()
        mapped = label_free(stated, scores, kind)
        series = Series()
        for record, confidence in zip(records, mapped, strict=True):
            tokens = record.ledger.answering + record.ledger.scoring
            _add(series, record, float(confidence), record.frozen_correct, tokens)
        return series

    return read


def _scored(signal: Signal, record: Record) -> float:
    """The signal of the frozen model's answer; nan without one."""
    if record.reply.answer != record.frozen.answer:
        return math.nan
    found = signal(record.question, record.reply, record.evidence)
    return math.nan if found is None else found


def _scored_passes(record: Record) -> float:
    return 1.0 if record.evidence.p_true is None else 6.0


def _add(series: Series, record: Record, confidence: float, correct: bool | None, tokens: float) -> None:
    series.places.append(record.position)
    series.confidence.append(confidence)
    series.correct.append(correct)
    series.tokens.append(tokens)


READINGS: dict[str, str] = {name: reading.label for name, reading in readings().items()}
"""What people call each reading."""
