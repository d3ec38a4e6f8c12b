"""Estimators that cost nothing beside what they start from: confidences mapped by a fit, and constants.

A confidence that is worth its cost beats all of them. A title with a star is fitted to right answers, each fold by the
others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secl.evaluation.series import Estimate, Estimator, Series
from secl.metrics.recalibration import FOLDS, Kind, Recalibrated, cross_validated, label_free
from secl.records import Record
from secl.signals import Signal

MAPS: dict[Kind, str] = {"temperature": "temperature", "platt": "Platt"}
"""Titles of the maps that are fitted to confidences."""


def with_labels(base: Estimator, kind: Kind) -> Estimator:
    """An estimator mapped by what five folds of right answers fit."""

    def estimate(records: Sequence[Record]) -> Series:
        series = base.estimate(records)
        confidences, grades = series.graded()
        if len(grades) < FOLDS:
            return Series()
        mapped = cross_validated(confidences, grades, kind)
        graded = series.where(series.has_grade)
        return replace(graded, confidence=mapped.confidence, fitted=_describe_fit(mapped))

    title = f"{base.title} + {MAPS[kind]}*"
    return replace(base, name=f"{base.name}_{kind}", title=title, estimate=estimate, needs_labels=True)


def _describe_fit(mapped: Recalibrated) -> str:
    """The mean fit and the range of the mapped confidences, as the paper's tables show them."""
    value = mapped.value
    fit = f"T={value:.3g}" if isinstance(value, float) else f"a={value[0]:.3g}, b={value[1]:.3g}"
    return f"{fit}, range [{min(mapped.confidence):.2f}, {max(mapped.confidence):.2f}]"


def label_free_map(signal: Signal, kind: Kind) -> Estimator:
    """The frozen confidence mapped by what earlier scored questions of the stream fit, without any right answer."""

    def estimate(records: Sequence[Record]) -> Series:
        scores = [_score_of_frozen(signal, record) for record in records]
        if all(math.isnan(score) for score in scores):
            return Series()
        mapped = label_free([record.frozen.stated for record in records], scores, kind)
        return Series.of(
            Estimate(r.position, confidence, r.frozen_correct, r.ledger.answering + r.ledger.scoring)
            for r, confidence in zip(records, mapped.tolist(), strict=True)
        )

    def passes(record: Record) -> float:
        return 1.0 if record.evidence.p_true is None else 6.0

    title = f"Label-free {MAPS[kind]}"
    return Estimator(f"label_free_{kind}", title, estimate, passes, answers="frozen", needs=signal.needs)


def _score_of_frozen(signal: Signal, record: Record) -> float:
    """The signal of the frozen model's answer; nan without one."""
    if record.reply.answer != record.frozen.answer:
        return math.nan
    score = signal(record.question, record.reply, record.evidence)
    return math.nan if score is None else score


def constant(stated: Estimator) -> Estimator:
    """The mean of the confidences stated before, whatever the question: no label and no ranking; the first stays."""

    def estimate(records: Sequence[Record]) -> Series:
        series = stated.estimate(records)
        earlier = np.cumsum(series.confidence)[:-1] / np.arange(1, len(series))
        return replace(series, confidence=np.append(series.confidence[:1], np.clip(earlier, 0.0, 1.0)))

    title = "Constant, mean stated"
    return replace(stated, name="constant", title=title, estimate=estimate, ranks=False)


def constant_with_labels(stated: Estimator) -> Estimator:
    """The share of right answers in the other folds, whatever the question."""

    def estimate(records: Sequence[Record]) -> Series:
        series = stated.estimate(records)
        graded = series.where(series.has_grade)
        if len(graded) < FOLDS:
            return Series()
        # Platt scaling of equal confidences is the constant map to the share of right answers.
        mapped = cross_validated([0.5] * len(graded), graded.correct, "platt")
        return replace(graded, confidence=mapped.confidence)

    title = "Constant, base rate*"
    return replace(stated, name="constant_labelled", title=title, estimate=estimate, needs_labels=True, ranks=False)
