"""Graded answers: confidences beside whether the answers are right, validated once for every measure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError

Vector = npt.NDArray[np.float64]


def graded(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Both as float64 vectors of one length n: confidences in [0, 1] and 1.0 for right, 0.0 for wrong.

    Args:
        confidence: n probabilities that the answer is right.
        correct: n truth values (True/False or 1/0).

    Raises:
        ParameterError: not two lists of one length, a confidence outside [0, 1] or nan, a grade that is not 0 or 1.

    >>> graded([0.5, 1.0], [True, False])
    (array([0.5, 1. ]), array([1., 0.]))
    """
    confidences = np.asarray(confidence, dtype=np.float64)
    grades = np.asarray(correct, dtype=np.float64)
    if confidences.ndim != 1 or confidences.shape != grades.shape:
        raise ParameterError(
            "a measure needs one confidence and one grade per answer, two flat lists of the same length, "
            f"not shapes {confidences.shape} and {grades.shape}."
        )
    wrong = ~((confidences >= 0.0) & (confidences <= 1.0))
    if wrong.any():
        raise ParameterError(f"a confidence must lie between 0 and 1, not {confidences[wrong][0]}.")
    odd = (grades != 0.0) & (grades != 1.0)
    if odd.any():
        raise ParameterError(f"a grade is right (1) or wrong (0), not {grades[odd][0]}.")
    return confidences, grades
