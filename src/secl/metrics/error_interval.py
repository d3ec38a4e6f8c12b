"""Intervals of calibration errors, with correct coverage also near zero.

A calibration error adds up the gaps of its bins in absolute value, so few answers bias it upwards. Bootstrap resamples
add the same bias again, so their percentiles lie above the truth.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from secl.errors import check_whole
from secl.metrics.bootstrap import LEVEL, Interval
from secl.metrics.graded import Vector, graded
from secl.metrics.probability import BINS, bin_index

SHRUNK = np.linspace(0.0, 1.0, 21)
"""True gaps to try, as fractions of the observed gaps."""

WIDENED = np.linspace(0.15, 3.0, 20)
"""Larger true gaps to try, in standard errors beyond the observed gaps."""


def ece_interval(confidence: npt.ArrayLike, correct: npt.ArrayLike, *, draws: int = 400) -> Interval:
    """Return the range of true expected calibration errors that agree with the observed error.

    Each tried world has true gaps. These are the observed gaps times a fraction (`SHRUNK`), or plus some standard
    errors (`WIDENED`), or one gap for all bins, because chance makes the observed gaps more uneven than the true gaps.
    In each world, grades are drawn, binomial in every bin. A world agrees unless the observed error is among the outer
    5 % of its draws. The interval always includes the observed error. docs/lab/log.md has its coverage.
    """
    confidences, grades = graded(confidence, correct)
    return _interval(bin_index(confidences), confidences, grades, draws)


def ada_ece_interval(confidence: npt.ArrayLike, correct: npt.ArrayLike, *, draws: int = 400) -> Interval:
    """Return the interval of the adaptive error, whose bins have equal mass."""
    confidences, grades = graded(confidence, correct)
    index = np.empty(confidences.size, dtype=np.intp)
    for number, run in enumerate(np.array_split(np.argsort(confidences, kind="stable"), BINS)):
        index[run] = number
    return _interval(index, confidences, grades, draws)


def _interval(index: npt.NDArray[np.intp], confidences: Vector, grades: Vector, draws: int) -> Interval:
    check_whole("number of draws", draws, least=1)
    if confidences.size == 0:
        return Interval(math.nan, math.nan)
    sizes = np.bincount(index)
    used = sizes > 0
    sizes = sizes[used]
    stated = np.bincount(index, confidences)[used] / sizes
    right = np.bincount(index, grades)[used] / sizes
    weights = sizes / confidences.size
    observed = float(weights @ np.abs(stated - right))
    gaps = right - stated
    rate = (right * sizes + 0.5) / (sizes + 1.0)  # never 0 or 1, whose standard error would be 0
    spread, signs = np.sqrt(rate * (1.0 - rate) / sizes), np.where(gaps < 0.0, -1.0, 1.0)
    even = np.concatenate([SHRUNK * observed, observed + WIDENED * np.sqrt(weights**2 @ spread**2)])
    worlds = np.concatenate([SHRUNK[:, None] * gaps, gaps + WIDENED[:, None] * signs * spread, even[:, None] * signs])
    truths = np.clip(stated + worlds, 0.0, 1.0)  # accuracy of each bin in each world
    errors = np.abs(stated - truths) @ weights
    drawn = np.random.default_rng(0).binomial(sizes, truths, size=(draws, *truths.shape)) / sizes
    simulated = np.abs(stated - drawn) @ weights
    margin = 1e-9  # sums in another order may differ in the last digits
    not_too_low = (simulated >= observed - margin).mean(axis=0) >= (1.0 - LEVEL) / 2.0
    not_too_high = (simulated <= observed + margin).mean(axis=0) >= (1.0 - LEVEL) / 2.0
    low = errors[not_too_low].min(initial=observed)
    high = errors[not_too_high].max(initial=observed)
    return Interval(float(low), float(high))
