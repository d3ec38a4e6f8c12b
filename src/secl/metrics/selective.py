"""Selective prediction: what remains of the errors if only the most confident answers are given.

Answers are accepted from the most confident one down. Coverage is the share accepted, risk the share of these that is
wrong. `prr` depends on the order of the confidences alone. Equal confidences have no order, so it takes the expectation
over all orders of a tie. Arguments are those of `secl.metrics.calibration`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from secl.metrics.graded import graded
from secl.metrics.risk_control import risk_coverage


def prr(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Prediction rejection ratio: of what an oracle gains by rejecting wrong answers first, the share gained.

    The gain is the mean accuracy of the accepted answers over 0, 1, ... n - 1 rejected ones, minus the accuracy of all
    answers, which rejecting at random keeps. 1 is a perfect order, 0 chance, below 0 (without bound) worse than chance;
    higher is better. This is the full PRR of lm-polygraph (Vashurin et al. 2025). Malinin and Gales (2021) count a
    rejected answer as right instead; for grades that one is 2 AUROC - 1.

    Undefined (nan) where no order gains anything: all answers right or all wrong.

    >>> prr([0.9, 0.8, 0.3], [1, 1, 0]), prr([0.5, 0.5, 0.5], [1, 1, 0]), prr([0.9, 0.8], [1, 1])
    (1.0, 0.0, nan)
    """
    curve = risk_coverage(*graded(confidence, correct))
    accepted, right = curve.labels, curve.labels - curve.wrong
    total, rights = curve.total, float(right.max(initial=0))
    if rights in (0.0, total):
        return math.nan
    count = np.arange(1, total + 1)
    # Within a tie right answers are spread evenly, in expectation.
    ours = np.interp(count, [0.0, *accepted], [0.0, *right]) / count
    oracle, chance = np.minimum(count, rights) / count, rights / total
    return float((ours - chance).mean() / (oracle - chance).mean())
