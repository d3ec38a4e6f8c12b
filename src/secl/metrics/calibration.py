"""Calibration: Brier score, ECE and its floor, adaptive ECE, reliability (paper, appendix "Metric Definitions").

Every measure of `secl.metrics` takes n confidences in [0, 1] and n grades (right or wrong), returns nan for n = 0, and
raises a ParameterError for other arguments (`secl.metrics.graded`). `bin_index` defines the bins of equal width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from secl.metrics.graded import graded
from secl.metrics.probability import BIN_EDGES, BINS, bin_index

MOST_EXACT = 4000
"""Maximum number of answers for exact distributions and simulations; larger numbers get normal limits."""

Z = 1.96
"""Standard normal quantile of 97.5%."""

FLOOR_DRAWS = 500
"""Simulated sets of grades for the floor of the ECE."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A bar of a reliability diagram: [lo, hi), number of answers, their mean confidence and accuracy, or nan."""

    lo: float
    hi: float
    count: int
    confidence: float
    accuracy: float


def ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the expected calibration error: sum over equal-width bins of |B|/n |acc(B) - conf(B)|, in [0, 1]."""
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    gaps = np.bincount(bin_index(confidences), weights=grades - confidences, minlength=BINS)
    return float(np.abs(gaps).sum() / confidences.size)


@dataclass(frozen=True, slots=True)
class EceFloor:
    """Mean and 95% quantile (`upper`) of a calibrated forecaster's ECE; an ECE above `upper` is a calibration error."""

    mean: float
    upper: float


def ece_floor(confidence: npt.ArrayLike) -> EceFloor:
    """Return the ECE by chance alone of n calibrated confidences.

    ECE adds up the gaps of bins in absolute value, so it is positive by chance: about .05 for 450 answers. The floor is
    simulated with grades from Bernoulli(confidence). `FLOOR_DRAWS` give the mean to about .0005 and the quantile to
    about .001 for 450 answers in all bins. Beyond `MOST_EXACT` answers the gaps have their normal limits.
    """
    confidences = np.sort(graded(confidence, np.zeros(np.shape(confidence)))[0])
    index = bin_index(confidences)
    if confidences.size == 0:
        return EceFloor(math.nan, math.nan)
    generator = np.random.default_rng(0)
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    if confidences.size > MOST_EXACT:
        spread = np.sqrt(np.add.reduceat(confidences * (1.0 - confidences), starts))
        gaps = generator.standard_normal((FLOOR_DRAWS, starts.size)) * spread
    else:
        right = generator.random((FLOOR_DRAWS, confidences.size)) < confidences
        gaps = np.add.reduceat(right, starts, axis=1, dtype=np.float64) - np.add.reduceat(confidences, starts)
    simulated = np.abs(gaps).sum(axis=1) / confidences.size
    return EceFloor(float(simulated.mean()), float(np.quantile(simulated, 0.95)))


def ada_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the adaptive ECE: the same sum over bins of equal mass, in [0, 1].

    Answers are sorted by confidence and split into ten by numpy.array_split. Equal confidences keep their given
    order. If a cut falls between equal confidences, the result depends on this order.
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    gaps = (grades - confidences)[np.argsort(confidences, kind="stable")]
    return float(sum(abs(run.sum()) for run in np.array_split(gaps, BINS)) / confidences.size)


def brier(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the Brier score: mean of (confidence - grade) squared, in [0, 1]."""
    confidences, grades = graded(confidence, correct)
    return float(np.mean((confidences - grades) ** 2)) if confidences.size else math.nan


def reliability(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> list[Bin]:
    """Return the ten bars of a reliability diagram, the lowest bin first."""
    confidences, grades = graded(confidence, correct)
    index, bars = bin_index(confidences), []
    for k, (lo, hi) in enumerate(pairwise(BIN_EDGES.tolist())):
        inside = index == k
        count = int(inside.sum())
        means = [float(numbers[inside].mean()) if count else math.nan for numbers in (confidences, grades)]
        bars.append(Bin(lo, hi, count, *means))
    return bars


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share of n, n of at least 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    from scipy.stats import binomtest

    interval = binomtest(round(share * n), n).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


@lru_cache(maxsize=32)
def chance_of_count(confidence: tuple[float, ...], right: int) -> float:
    """Return the two-sided p-value of a number of right answers under calibrated confidences.

    The number has a Poisson-binomial distribution; beyond `MOST_EXACT` answers the normal limit is used.
    """
    p = np.asarray(confidence, dtype=np.float64)
    if p.size > MOST_EXACT:
        beyond = max(abs(right - float(p.sum())) - 0.5, 0.0)
        return math.erfc(beyond / math.sqrt(2.0 * max(float((p * (1.0 - p)).sum()), 1e-300)))
    counts = np.ones(1)
    for chance in p:
        counts = np.convolve(counts, (1.0 - chance, chance))
    return min(1.0, 2.0 * float(min(counts[: right + 1].sum(), counts[right:].sum())))
