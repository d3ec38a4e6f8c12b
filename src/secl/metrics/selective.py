"""Selective prediction: what remains of the errors if only the most confident answers are given.

Answers are accepted from the most confident one down. Coverage is the share accepted, risk the share of these that is
wrong. Measures depend on the order of the confidences alone. Equal confidences have no order, so `prr` takes the
expectation over all orders of a tie; `coverage_at_risk`, which stands for a threshold, accepts or rejects a tie as a
whole. Arguments are those of `secl.metrics.calibration`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from secl.errors import check_finite
from secl.metrics.graded import Vector, graded


def prr(confidence: npt.ArrayLike, correct: npt.ArrayLike, max_rejection: float = 1.0) -> float:
    """Prediction rejection ratio: of what an oracle gains by rejecting wrong answers first, the share gained.

    The gain is the mean accuracy of the accepted answers over 0, 1, ... rejected ones, floor(max_rejection n) points in
    all, minus the accuracy of all answers, which rejecting at random keeps. 1 is a perfect order, 0 chance, below 0
    (without bound) worse than chance; higher is better. This is the PRR of lm-polygraph (Vashurin et al. 2025), whose
    tables say whether it is full (1.0) or "@50%" (0.5). Malinin and Gales (2021) count a rejected answer as right
    instead; for grades that one is 2 AUROC - 1.

    Up to `max_rejection`, in (0, 1], of the answers are rejected. Undefined (nan) where no order gains anything: all
    answers right or all wrong, or none is ever rejected.

    >>> prr([0.9, 0.8, 0.3], [1, 1, 0]), prr([0.5, 0.5, 0.5], [1, 1, 0]), prr([0.9, 0.8], [1, 1])
    (1.0, 0.0, nan)
    """
    check_finite("largest share rejected", max_rejection, 0.0 < max_rejection <= 1.0, "lie in (0, 1]")
    right, wrong = counts_by_confidence(confidence, correct)
    return float(rejection_ratios(right, wrong, max_rejection)[0]) if right.size else math.nan


def coverage_at_risk(confidence: npt.ArrayLike, correct: npt.ArrayLike, risk: float) -> float:
    """The largest share of most confident answers whose error rate is `risk` at most; equal confidences stay together.

    It was chosen with these grades, so on other questions the error rate may be higher. 0 if even the most confident
    answers are wrong more often than `risk`, which lies in [0, 1]; nan for n = 0.

    >>> coverage_at_risk([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0], 0.1), coverage_at_risk([0.9, 0.8], [0, 0], 0.2)
    (0.25, 0.0)
    """
    check_finite("risk", risk, 0.0 <= risk <= 1.0, "lie in [0, 1]")
    right, wrong = counts_by_confidence(confidence, correct)
    if right.size == 0:
        return math.nan
    accepted = np.cumsum(right + wrong, axis=1)[0]
    # One division rounds 1/20 to what the literal 0.05 is; 0.05 * count would not.
    within = accepted[np.cumsum(wrong, axis=1)[0] / accepted <= risk]
    return float(within[-1] / accepted[-1]) if within.size else 0.0


def counts_by_confidence(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Right and wrong answers of each distinct confidence, the highest first: two arrays of shape (1, distinct).

    >>> counts_by_confidence([0.2, 0.9, 0.2], [1, 1, 0])
    (array([[1., 1.]]), array([[0., 1.]]))
    """
    confidences, grades = graded(confidence, correct)
    distinct, index = np.unique(-confidences, return_inverse=True)
    right, wrong = (np.zeros((1, distinct.size)) for _ in range(2))
    np.add.at(right[0], index, grades)
    np.add.at(wrong[0], index, 1.0 - grades)
    return right, wrong


def rejection_ratios(right: Vector, wrong: Vector, max_rejection: float) -> Vector:
    """`prr` of each row of counts; every row has the same total.

    Args:
        right, wrong: (rows, levels) counts of right and wrong answers, the most confident level first; a level may
            be empty.
        max_rejection: largest share rejected, in (0, 1].
    """
    rights, total = right.sum(axis=1), int(right[0].sum() + wrong[0].sum())
    rejections = math.floor(max_rejection * total)
    if rejections == 0:
        return np.full(len(right), math.nan)
    least = total - rejections + 1
    gained = _mean_accuracy(right, wrong, least) - rights / total
    # The oracle accepts right answers only while there are any: accuracy min(1, rights / accepted).
    harmonic = _harmonic(total)
    pure = np.maximum(rights.astype(np.intp), least - 1)
    perfect = (pure - (least - 1) + rights * (harmonic[total] - harmonic[pure])) / rejections
    possible = perfect - rights / total
    mixed = (rights > 0) & (rights < total) & (rejections > 1)
    ratios: Vector = np.divide(gained, possible, out=np.full(len(right), math.nan), where=mixed)
    return ratios


def _mean_accuracy(right: Vector, wrong: Vector, least_accepted: int) -> Vector:
    """Row by row, the mean expected accuracy of the k most confident answers over k = least_accepted ... n.

    In a level of m answers, r of them right, with R right ones among the s above it, k answers hold
    R + (k - s) r / m right ones in expectation, so their accuracies sum to
    (R - s r / m) (H_end - H_begin) + (r / m) (end - begin), with harmonic numbers H.
    """
    first = least_accepted - 1
    size = right + wrong
    ends = np.cumsum(size, axis=1)
    total = int(ends[0, -1])
    # The levels that are accepted before the first k in every row have no part.
    skipped = int(np.argmax((ends > first).any(axis=0)))
    above, right, size, ends = right[:, :skipped].sum(axis=1), right[:, skipped:], size[:, skipped:], ends[:, skipped:]
    share = right / np.maximum(size, 1.0)
    surplus = np.cumsum(right, axis=1) + above[:, None] - ends * share  # R - s r / m
    end = np.maximum(ends, first).astype(np.intp)
    harmonic = _harmonic(total)
    sums = (surplus * _steps(harmonic[end], harmonic[first]) + share * _steps(end, first)).sum(axis=1)
    return np.asarray(sums / (total - first))


def _steps(values: npt.NDArray[np.floating] | npt.NDArray[np.integer], before: float) -> Vector:
    """Differences along each row, that of the first column to `before`."""
    steps = np.empty(values.shape)
    np.subtract(values[:, 1:], values[:, :-1], out=steps[:, 1:])
    np.subtract(values[:, 0], before, out=steps[:, 0])
    return steps


def _harmonic(count: int) -> Vector:
    """Harmonic numbers H_0 ... H_count."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, count + 1))])
