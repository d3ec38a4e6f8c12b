"""All measures of one confidence against the grades of its answers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from secl.metrics.bootstrap import RESAMPLES, Interval, intervals
from secl.metrics.calibration import ece_floor
from secl.metrics.discrimination import prr
from secl.metrics.error_interval import ada_ece_interval, ece_interval
from secl.metrics.graded import graded
from secl.metrics.standard import MEASURES, OF_BOTH_KINDS, standard_measures

OF_ORDER = (*OF_BOTH_KINDS, "prr")
"""Measures of the order of answers, which a constant does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The measures of a confidence on n graded answers; an undefined measure is nan.

    Attributes:
        n: answers that counted.
        brier: Brier score.
        ece: expected calibration error, ten equal-width bins.
        ece_floor: the expected ECE of a perfectly calibrated forecaster with these confidences.
        ece_floor_95: the 95% quantile of that.
        ece_within_floor: whether the ECE is that at most, so that chance alone may have made it; None for n = 0.
        ada_ece: ECE with ten equal-mass bins.
        auroc: area under the ROC curve; nan if all answers are right or all are wrong.
        auroc_within: mean AUROC inside the domains, weighted by pairs of a right and a wrong answer.
        prr: prediction rejection ratio; nan where AUROC is.
        accuracy: share of right answers.
        mean_confidence: mean of the confidences.
        intervals: 95% intervals by name of the measure, those of calibration errors by `secl.metrics.error_interval`,
            the others by a bootstrap over questions, and nan if there is none (`secl.metrics.bootstrap.intervals`);
            None if they were not asked for.
    """

    n: int
    brier: float
    ece: float
    ece_floor: float
    ece_floor_95: float
    ece_within_floor: bool | None
    ada_ece: float
    auroc: float
    auroc_within: float
    prr: float
    accuracy: float
    mean_confidence: float
    intervals: Mapping[str, Interval] | None


def measure(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> Measures:
    """Return all measures of n confidences against n grades; arguments as in `secl.metrics.bootstrap`.

    There are no intervals with 0 resamples.

    >>> measures = measure([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0], resamples=0)
    >>> measures.n, round(measures.ece, 3), measures.accuracy, measures.intervals
    (4, 0.3, 0.25, None)
    """
    confidences, grades = graded(confidence, correct)
    spans = None
    if resamples != 0:
        errors = {"ece": ece_interval(confidences, grades), "ada_ece": ada_ece_interval(confidences, grades)}
        spans = errors | intervals(confidences, grades, domains=domains, resamples=resamples)
        spans = {name: spans[name] for name in MEASURES}
    standard, floor = standard_measures(confidences, grades, domains), ece_floor(confidences)
    return Measures(
        **standard,
        n=int(confidences.size),
        ece_floor=floor.mean,
        ece_floor_95=floor.upper,
        # Sums in another order may differ in the last digits.
        ece_within_floor=standard["ece"] <= floor.upper + 1e-9 if grades.size else None,
        prr=prr(confidences, grades),
        intervals=spans,
    )


def without_ranking(measures: Measures) -> Measures:
    """Return the measures of a constant: measures of ranking are nan, and so are their intervals."""
    undefined: dict[str, Any] = dict.fromkeys(OF_ORDER, math.nan)
    spans = measures.intervals
    if spans is not None:
        none = Interval(math.nan, math.nan)
        spans = {name: none if name in OF_ORDER else each for name, each in spans.items()}
    return replace(measures, **undefined, intervals=spans)
