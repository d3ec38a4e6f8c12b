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
    accepted, right = counts_by_confidence(confidence, correct)
    total = int(accepted[-1]) if accepted.size else 0
    rights, rejections = float(right.max(initial=0.0)), math.floor(max_rejection * total)
    if rejections < 2 or rights in (0.0, total):
        return math.nan
    count = np.arange(total - rejections + 1, total + 1)
    # Within a tie right answers are spread evenly, in expectation.
    ours = np.interp(count, [0.0, *accepted], [0.0, *right]) / count
    oracle, chance = np.minimum(count, rights) / count, rights / total
    return float((ours - chance).mean() / (oracle - chance).mean())


def coverage_at_risk(confidence: npt.ArrayLike, correct: npt.ArrayLike, risk: float) -> float:
    """The largest share of most confident answers whose error rate is `risk` at most; equal confidences stay together.

    It was chosen with these grades, so on other questions the error rate may be higher. 0 if even the most confident
    answers are wrong more often than `risk`, which lies in [0, 1]; nan for n = 0.

    >>> coverage_at_risk([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0], 0.1), coverage_at_risk([0.9, 0.8], [0, 0], 0.2)
    (0.25, 0.0)
    """
    check_finite("risk", risk, 0.0 <= risk <= 1.0, "lie in [0, 1]")
    accepted, right = counts_by_confidence(confidence, correct)
    if not accepted.size:
        return math.nan
    # One division rounds 1/20 to what the literal 0.05 is; 0.05 * count would not.
    within = accepted[(accepted - right) / accepted <= risk]
    return float(within[-1] / accepted[-1]) if within.size else 0.0


def counts_by_confidence(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Answers down to each distinct confidence, the highest first, and right ones among them: two equally long arrays.

    >>> counts_by_confidence([0.2, 0.9, 0.2], [1, 1, 0])
    (array([1., 3.]), array([1., 2.]))
    """
    confidences, grades = graded(confidence, correct)
    distinct, index = np.unique(-confidences, return_inverse=True)
    accepted = np.bincount(index, minlength=distinct.size)
    right = np.bincount(index, weights=grades, minlength=distinct.size)
    return np.cumsum(accepted, dtype=np.float64), np.cumsum(right)
