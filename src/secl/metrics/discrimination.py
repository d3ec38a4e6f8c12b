"""Discrimination: whether right answers have higher confidence than wrong ones."""

from __future__ import annotations

import math

import numpy.typing as npt

from secl.metrics.graded import graded


def auroc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Area under the ROC curve: the chance that a right answer is more confident than a wrong one, ties half.

    Higher is better, 0.5 is no better than chance. Undefined (nan) unless there is a right and a wrong answer.

    Args:
        confidence: n probabilities in [0, 1].
        correct: n grades, right or wrong.

    Raises:
        ParameterError: arguments that `graded` refuses.

    >>> auroc([0.9, 0.6, 0.3], [1, 0, 0]), auroc([0.9, 0.6], [1, 1])
    (1.0, nan)
    """
    confidences, grades = graded(confidence, correct)
    if grades.size == 0 or grades.min() == grades.max():
        return math.nan
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(grades, confidences))
