"""Checks of confidences with their grades or targets, for all measures and maps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError

Vector = npt.NDArray[np.float64]


def graded(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Return confidences in [0, 1] and grades (1.0 right, 0.0 wrong) as float64 vectors of one length n.

    Raises:
        ParameterError: the lists differ in length, a confidence is nan or outside [0, 1], or a grade is neither 0 nor
            1.
    """
    confidences, grades = _vectors(confidence, correct)
    odd = (grades != 0.0) & (grades != 1.0)
    if odd.any():
        raise ParameterError(f"a grade is right (1) or wrong (0), not {grades[odd][0]}.")
    return confidences, grades


def with_targets(confidence: npt.ArrayLike, target: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Return confidences and targets in [0, 1] as float64 vectors of one length."""
    confidences, targets = _vectors(confidence, target)
    check_probabilities("target of a map", targets)
    return confidences, targets


def _vectors(confidence: npt.ArrayLike, other: npt.ArrayLike) -> tuple[Vector, Vector]:
    confidences, others = np.asarray(confidence, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if confidences.ndim != 1 or confidences.shape != others.shape:
        raise ParameterError(
            "confidences and grades (or targets) must be two flat lists of the same length, not arrays of the shapes "
            f"{confidences.shape} and {others.shape}."
        )
    check_probabilities("confidence", confidences)
    return confidences, others


def check_probabilities(name: str, values: Vector) -> None:
    """Raise a ParameterError for values outside [0, 1] or nan."""
    wrong = ~((values >= 0.0) & (values <= 1.0))
    if wrong.any():
        raise ParameterError(f"a {name} must lie between 0 and 1, not {values[wrong][0]}.")
