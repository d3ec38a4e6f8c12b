"""Checks of confidences with their grades or targets, once for every measure and map."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError

Vector = npt.NDArray[np.float64]


def graded(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Return both as float64 vectors of one length n: confidences in [0, 1] and 1.0 for right, 0.0 for wrong.

    Raises:
        ParameterError: not two lists of one length, a confidence outside [0, 1] or nan, a grade that is not 0 or 1.
    """
    confidences, grades = _vectors(confidence, correct)
    odd = (grades != 0.0) & (grades != 1.0)
    if odd.any():
        raise ParameterError(f"a grade is right (1) or wrong (0), not {grades[odd][0]}.")
    return confidences, grades


def with_targets(confidence: npt.ArrayLike, target: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Return the same with targets, which are probabilities."""
    confidences, targets = _vectors(confidence, target)
    check_probabilities("target of a map", targets)
    return confidences, targets


def _vectors(confidence: npt.ArrayLike, other: npt.ArrayLike) -> tuple[Vector, Vector]:
    confidences, others = np.asarray(confidence, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if confidences.ndim != 1 or confidences.shape != others.shape:
        raise ParameterError(
            "each answer needs one confidence and one grade or target, two flat lists of the same length, not shapes "
            f"{confidences.shape} and {others.shape}."
        )
    check_probabilities("confidence", confidences)
    return confidences, others


def check_probabilities(name: str, values: Vector) -> None:
    """Check that all values of this name lie in [0, 1]; nan does not."""
    wrong = ~((values >= 0.0) & (values <= 1.0))
    if wrong.any():
        raise ParameterError(f"a {name} must lie between 0 and 1, not {values[wrong][0]}.")
