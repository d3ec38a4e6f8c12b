"""All measures of a confidence against the grades of its answers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from secl.evaluation.json_values import HIDDEN
from secl.metrics.bootstrap import RESAMPLES, Interval, intervals
from secl.metrics.calibration import ece_floor
from secl.metrics.discrimination import prr
from secl.metrics.error_interval import ada_ece_interval, ece_interval
from secl.metrics.graded import graded
from secl.metrics.standard import MEASURES, OF_BOTH_KINDS, standard_measures

OF_ORDER = (*OF_BOTH_KINDS, "prr")
"""Measures of ranking, which are undefined for a constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The measures of a confidence on n graded answers, and its cost; an undefined number is nan.

    Attributes:
        n: number of graded answers.
        brier: Brier score.
        ece: expected calibration error, ten equal-width bins.
        ece_floor: expected ECE of a calibrated forecaster with these confidences.
        ece_floor_95: 95% quantile of the ECE of a calibrated forecaster.
        ece_within_floor: whether the ECE is at most `ece_floor_95`, so that chance alone explains it; None for n = 0.
        ada_ece: ECE with ten equal-mass bins.
        auroc: area under the ROC curve; nan if all answers are right or all are wrong.
        auroc_within: mean AUROC inside the domains, weighted by pairs of a right and a wrong answer.
        prr: prediction rejection ratio; nan if AUROC is nan.
        accuracy: share of right answers.
        mean_confidence: mean of the confidences.
        intervals: 95% intervals by measure: of calibration errors by `secl.metrics.error_interval`, of the others by
            `secl.metrics.bootstrap.intervals`; None if not requested.
        cost_paper: forward passes per question, as the paper counts.
        cost_measured: tokens through the network per token of plain answering.
        fitted: fitted parameters in words; None without a fit.
        title, needs_labels, ranks: those of the confidence's `secl.evaluation.series.Estimator`.
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
    cost_paper: float = math.nan
    cost_measured: float = math.nan
    fitted: str | None = None
    title: str = field(default="", metadata={HIDDEN: True})
    needs_labels: bool = field(default=False, metadata={HIDDEN: True})
    ranks: bool = field(default=True, metadata={HIDDEN: True})


def measure(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    ranks: bool = True,
) -> Measures:
    """Return all measures of n confidences against n grades; arguments as in `secl.metrics.bootstrap`.

    With 0 `resamples` there are no intervals. Without `ranks`, as for a constant, measures of ranking are nan.

    >>> measures = measure([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0], resamples=0)
    >>> measures.n, round(measures.ece, 3), measures.accuracy, measures.intervals
    (4, 0.3, 0.25, None)
    """
    confidences, grades = graded(confidence, correct)
    spans, undefined = None, () if ranks else OF_ORDER
    if resamples != 0:
        errors = {"ece": ece_interval(confidences, grades), "ada_ece": ada_ece_interval(confidences, grades)}
        spans = errors | intervals(confidences, grades, domains=domains, resamples=resamples)
        spans |= dict.fromkeys(undefined, Interval(math.nan, math.nan))
        spans = {name: spans[name] for name in MEASURES}
    standard, floor = standard_measures(confidences, grades, domains), ece_floor(confidences)
    values: dict[str, Any] = {**standard, "prr": prr(confidences, grades), **dict.fromkeys(undefined, math.nan)}
    return Measures(
        **values,
        n=int(confidences.size),
        ece_floor=floor.mean,
        ece_floor_95=floor.upper,
        # Sums in another order may differ in the last digits.
        ece_within_floor=standard["ece"] <= floor.upper + 1e-9 if grades.size else None,
        intervals=spans,
        ranks=ranks,
    )
