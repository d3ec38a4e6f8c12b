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
from secl.metrics.graded import graded
from secl.metrics.risk_control import estimated, risk_coverage


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
    curve = risk_coverage(*graded(confidence, correct))
    accepted, right = curve.labels, curve.labels - curve.wrong
    total, rights = curve.total, float(right.max(initial=0))
    rejections = math.floor(max_rejection * total)
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
    curve = risk_coverage(*graded(confidence, correct))
    accepted = estimated(curve, risk, from_labels=True)
    if not curve.answers:
        return math.nan
    return 0.0 if accepted is None else accepted.coverage
