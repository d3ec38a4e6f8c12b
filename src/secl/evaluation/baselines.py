"""Estimators without further cost: confidences mapped by a fit, and constants.

A star in a title marks a fit to right answers, cross-validated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from secl.evaluation.series import Estimator, Rating, Series
from secl.metrics.recalibration import FOLDS, Kind, Recalibrated, cross_validated, label_free
from secl.records import Record
from secl.signals import Signal

MAPS: dict[Kind, str] = {"temperature": "temperature", "platt": "Platt"}
"""Titles of the fitted maps."""


def with_labels(base: Estimator, kind: Kind) -> Estimator:
    """Return an estimator mapped by a five-fold cross-validated fit to graded answers."""

    def mapped(series: Series, _records: Sequence[Record]) -> Series:
        graded = series.where(series.has_grade)
        if len(graded) < FOLDS:
            return Series()
        fit = cross_validated(graded.confidence, graded.correct, kind)
        return replace(graded, confidence=fit.confidence, fitted=_describe_fit(fit))

    title = f"{base.title} + {MAPS[kind]}*"
    return replace(base, name=f"{base.name}_{kind}", title=title, mapped=mapped, needs_labels=True)


def _describe_fit(mapped: Recalibrated) -> str:
    """Return the mean fit and the range of the mapped confidences, as the paper's tables show them."""
    value = mapped.value
    fit = f"T={value:.3g}" if isinstance(value, float) else f"a={value[0]:.3g}, b={value[1]:.3g}"
    return f"{fit}, range [{min(mapped.confidence):.2f}, {max(mapped.confidence):.2f}]"


def label_free_map(signal: Signal, kind: Kind) -> Estimator:
    """Return stated confidences mapped by a fit to the signals of earlier questions, without labels."""

    def rate(records: Sequence[Record]) -> Iterator[Rating]:
        scores = [_score_of_frozen(signal, record) for record in records]
        undefined = all(math.isnan(score) for score in scores)
        confidences = [] if undefined else label_free([r.frozen.stated for r in records], scores, kind).tolist()
        answers = (record.frozen.answer for record in records)
        return zip(answers, repeat(None) if undefined else confidences, strict=not undefined)

    def passes(record: Record) -> float:
        return 1.0 if record.evidence.p_true is None else 6.0

    def tokens(record: Record) -> float:
        return record.ledger.answering + record.ledger.scoring

    title = f"Label-free {MAPS[kind]}"
    return Estimator(f"label_free_{kind}", title, rate, passes, tokens, needs=signal.needs, frozen=True)


def _score_of_frozen(signal: Signal, record: Record) -> float:
    """Return the signal of the frozen model's answer; nan if undefined."""
    if record.reply.answer != record.frozen.answer:
        return math.nan
    score = signal(record.question, record.reply, record.evidence)
    return math.nan if score is None else score


def constant(stated: Estimator) -> Estimator:
    """Return the running mean of earlier stated confidences: a constant without labels and without a ranking."""

    def mapped(series: Series, _records: Sequence[Record]) -> Series:
        earlier = np.cumsum(series.confidence)[:-1] / np.arange(1, len(series))
        return replace(series, confidence=np.append(series.confidence[:1], np.clip(earlier, 0.0, 1.0)))

    return replace(stated, name="constant", title="Constant, mean stated", mapped=mapped, ranks=False)


def constant_with_labels(stated: Estimator) -> Estimator:
    """Return the share of right answers in the other folds, a constant for each fold."""

    def mapped(series: Series, _records: Sequence[Record]) -> Series:
        graded = series.where(series.has_grade)
        if len(graded) < FOLDS:
            return Series()
        # Platt scaling of equal confidences is the constant map to the share of right answers.
        return replace(graded, confidence=cross_validated([0.5] * len(graded), graded.correct, "platt").confidence)

    title = "Constant, base rate*"
    return replace(stated, name="constant_labelled", title=title, mapped=mapped, needs_labels=True, ranks=False)
