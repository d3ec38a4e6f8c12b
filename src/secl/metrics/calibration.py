"""Calibration: Brier score, ECE and its floor, adaptive ECE, reliability (paper, appendix "Metric Definitions").

Measures take n confidences in [0, 1] and n grades (right or wrong), return nan for n = 0, and raise a ParameterError
for anything else (`secl.metrics.graded`). Equal-width bins are those of `secl.metrics.probability.bin_index`: [lo, hi),
the last one closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from secl.metrics.graded import graded
from secl.metrics.probability import BIN_EDGES, BINS, bin_index

EXACT = 4000
"""Answers up to which the number of right ones has its exact distribution (a quarter of a second at most)."""

Z = 1.96
"""Standard normal quantile of 97.5%."""

DRAWS = 500
"""Sets of grades whose errors make the floor of the ECE."""


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability diagram: [lo, hi), the number of its answers, their mean confidence and their accuracy.

    Both means are nan without answers.
    """

    lo: float
    hi: float
    count: int
    confidence: float
    accuracy: float


def ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Expected calibration error: sum over equal-width bins of |B|/n |acc(B) - conf(B)|; lower is better, in [0, 1].

    >>> round(ece([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0]), 3)
    0.3
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    gaps = np.bincount(bin_index(confidences), weights=grades - confidences, minlength=BINS)
    return float(np.abs(gaps).sum() / confidences.size)


@dataclass(frozen=True, slots=True)
class EceFloor:
    """ECE of a perfectly calibrated forecaster by chance alone: its mean and its 95% quantile.

    An ECE above `upper` is a calibration error. An ECE below `upper` need not be one.
    """

    mean: float
    upper: float


def ece_floor(confidence: npt.ArrayLike) -> EceFloor:
    """The ECE that these n confidences would have if every one of them were true.

    ECE adds up the gaps of bins in absolute value, so chance alone makes it positive: about .05 for 450 answers. Grades
    are drawn from Bernoulli(confidence), and their ECE is measured. With 500 `DRAWS` the mean is exact to about .0005
    and the quantile to about .001 where 450 answers are spread over all bins. Beyond `EXACT` answers the gaps of bins
    have their normal limits.

    >>> ece_floor([0.0, 1.0]), round(ece_floor([0.5]).mean, 3)
    (EceFloor(mean=0.0, upper=0.0), 0.5)
    """
    confidences = np.sort(graded(confidence, np.zeros(np.shape(confidence)))[0])
    index = bin_index(confidences)
    if confidences.size == 0:
        return EceFloor(math.nan, math.nan)
    generator = np.random.default_rng(0)
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    if confidences.size > EXACT:
        spread = np.sqrt(np.add.reduceat(confidences * (1.0 - confidences), starts))
        gaps = generator.standard_normal((DRAWS, starts.size)) * spread
    else:
        right = generator.random((DRAWS, confidences.size)) < confidences
        gaps = np.add.reduceat(right, starts, axis=1, dtype=np.float64) - np.add.reduceat(confidences, starts)
    simulated = np.abs(gaps).sum(axis=1) / confidences.size
    return EceFloor(float(simulated.mean()), float(np.quantile(simulated, 0.95)))


def ada_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Adaptive ECE: the same sum over equal-mass bins; lower is better, in [0, 1].

    Answers are sorted by confidence and cut into ten runs whose sizes differ by at most one, the longer ones first
    (the rule of numpy.array_split). Equal confidences stay in the order given, so a cut that goes through them depends
    on that order. Fewer answers than bins make bins of one.

    >>> round(ada_ece([0.9] * 10 + [0.6] * 10, [1] * 10 + [0] * 10), 3)
    0.35
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    gaps = (grades - confidences)[np.argsort(confidences, kind="stable")]
    return float(sum(abs(run.sum()) for run in np.array_split(gaps, BINS)) / confidences.size)


def brier(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Brier score: mean of (confidence - grade) squared; lower is better, in [0, 1].

    >>> round(brier([0.9, 0.4], [1, 0]), 3)
    0.085
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    return float(np.mean((confidences - grades) ** 2))


def reliability(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> list[Bin]:
    """The bars of a reliability diagram, lowest bin first; empty bins are included, with nan for both means.

    >>> [(b.lo, b.hi, b.count, round(b.accuracy, 2)) for b in reliability([0.2, 0.91, 0.97], [0, 1, 0]) if b.count]
    [(0.2, 0.3, 1, 0.0), (0.9, 1.0, 2, 0.5)]
    """
    confidences, grades = graded(confidence, correct)
    index, edges = bin_index(confidences), BIN_EDGES.tolist()
    rows = []
    for k in range(BINS):
        inside = index == k
        count = int(inside.sum())
        stated = float(confidences[inside].mean()) if count else math.nan
        right = float(grades[inside].mean()) if count else math.nan
        rows.append(Bin(lo=edges[k], hi=edges[k + 1], count=count, confidence=stated, accuracy=right))
    return rows


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of n, n of at least 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return middle - half, middle + half


@lru_cache(maxsize=32)
def chance_of_count(confidence: tuple[float, ...], right: int) -> float:
    """How probable a number of right answers at least as far out is if every confidence is true; two-sided, exact.

    That number then has a Poisson-binomial distribution. Beyond `EXACT` answers its normal limit is used.

    >>> round(chance_of_count((0.9, 0.9, 0.9), 0), 6)
    0.002
    """
    p = np.asarray(confidence, dtype=np.float64)
    if p.size > EXACT:
        beyond = max(abs(right - float(p.sum())) - 0.5, 0.0)
        return math.erfc(beyond / math.sqrt(2.0 * max(float((p * (1.0 - p)).sum()), 1e-300)))
    counts = np.ones(1)
    for each in p:
        counts = np.convolve(counts, (1.0 - each, each))
    return min(1.0, 2.0 * float(min(counts[: right + 1].sum(), counts[right:].sum())))
