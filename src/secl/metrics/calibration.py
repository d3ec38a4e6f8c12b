"""Calibration: ECE, adaptive ECE, Brier score and reliability (paper, appendix "Metric Definitions").

Every function takes n confidences in [0, 1] and n grades (right or wrong), and returns nan for n = 0. Equal-width bins
are those of `secl.metrics.probability.bin_index`: [lo, hi), the last one closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.metrics.graded import graded
from secl.metrics.probability import bin_edges, bin_index
from secl.validation import check_whole


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability diagram.

    Attributes:
        lo: lower border, included.
        hi: upper border, excluded except in the last bin.
        count: answers with a confidence in it.
        confidence: their mean confidence; nan if there are none.
        accuracy: the share of them that is right; nan if there are none.
    """

    lo: float
    hi: float
    count: int
    confidence: float
    accuracy: float


def ece(confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = 10) -> float:
    """Expected calibration error: sum over equal-width bins of |B|/n |acc(B) - conf(B)|; lower is better, in [0, 1].

    Raises:
        ParameterError: arguments that `graded` or `bin_index` refuse.

    >>> round(ece([0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0]), 3)
    0.3
    """
    confidences, grades = graded(confidence, correct)
    index = bin_index(confidences, bins)
    if confidences.size == 0:
        return math.nan
    gaps = np.bincount(index, weights=grades - confidences, minlength=bins)
    return float(np.abs(gaps).sum() / confidences.size)


def ada_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = 10) -> float:
    """Adaptive ECE: the same sum over equal-mass bins; lower is better, in [0, 1].

    Answers are sorted by confidence and cut into `bins` runs whose sizes differ by at most one, the longer ones first
    (the rule of numpy.array_split). Equal confidences stay in the order given, so a cut that goes through them depends
    on that order. Fewer answers than bins make bins of one.

    Raises:
        ParameterError: arguments that `graded` refuses, or fewer than one bin.

    >>> round(ada_ece([0.9, 0.8, 0.7, 0.6], [1, 1, 1, 0], bins=2), 3)
    0.15
    """
    confidences, grades = graded(confidence, correct)
    check_whole("number of bins", bins, least=1)
    if confidences.size == 0:
        return math.nan
    gaps = (grades - confidences)[np.argsort(confidences, kind="stable")]
    return float(sum(abs(run.sum()) for run in np.array_split(gaps, bins)) / confidences.size)


def brier(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Brier score: mean of (confidence - grade) squared; lower is better, in [0, 1].

    Raises:
        ParameterError: arguments that `graded` refuses.

    >>> round(brier([0.9, 0.4], [1, 0]), 3)
    0.085
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    return float(np.mean((confidences - grades) ** 2))


def reliability(confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = 10) -> list[Bin]:
    """The bars of a reliability diagram, lowest bin first; empty bins are included, with nan for both means.

    Raises:
        ParameterError: arguments that `graded` or `bin_index` refuse.

    >>> [(b.lo, b.hi, b.count, round(b.accuracy, 2)) for b in reliability([0.2, 0.7, 0.9], [0, 1, 0], bins=2)]
    [(0.0, 0.5, 1, 0.0), (0.5, 1.0, 2, 0.5)]
    """
    confidences, grades = graded(confidence, correct)
    index, edges = bin_index(confidences, bins), bin_edges(bins)
    rows = []
    for k in range(bins):
        inside = index == k
        count = int(inside.sum())
        stated = float(confidences[inside].mean()) if count else math.nan
        right = float(grades[inside].mean()) if count else math.nan
        rows.append(Bin(lo=float(edges[k]), hi=float(edges[k + 1]), count=count, confidence=stated, accuracy=right))
    return rows
