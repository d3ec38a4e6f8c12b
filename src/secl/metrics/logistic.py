"""Logistic regression with a Gaussian prior, by Newton's method, for Platt scaling and the map of labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secl.metrics.graded import Vector

MOST_STEPS, TOLERANCE = 100, 1e-12
"""Newton's method ends after this many steps, or if no parameter moves by more than the tolerance."""


class Fitted(NamedTuple):
    """Parameters (d) at the minimum, the loss, and its second derivatives (d, d)."""

    parameters: Vector
    loss: float
    curvature: Vector


def fit_logistic(rows: Vector, targets: Vector, weights: Vector, mean: Vector, precision: Vector) -> Fitted:
    """Minimise the weighted cross-entropy of sigmoid(rows @ parameters) to targets in [0, 1], plus the prior's penalty.

    Args:
        rows: n rows of d columns; `targets` and `weights` have n entries.
        mean, precision: of the prior of each parameter (d); the penalty is precision / 2 (parameter - mean)^2.

    Raises:
        numpy.linalg.LinAlgError: the curvature is singular or not finite.
    """
    from scipy.special import expit

    def loss(theta: Vector) -> float:
        z, away = rows @ theta, theta - mean
        surprise = np.logaddexp(0.0, -z) * targets + np.logaddexp(0.0, z) * (1.0 - targets)
        return float(weights @ surprise + away * precision @ away / 2.0)

    def curvature(theta: Vector) -> Vector:
        p = expit(rows @ theta)
        return np.asarray((rows * (weights * p * (1.0 - p))[:, None]).T @ rows + np.diag(precision))

    theta, at = mean, loss(mean)
    for _ in range(MOST_STEPS):
        slope = rows.T @ (weights * (expit(rows @ theta) - targets)) + precision * (theta - mean)
        step, share = np.linalg.solve(curvature(theta), slope), 1.0
        while (after := loss(theta - share * step)) > at and share > TOLERANCE:
            share /= 2.0  # the loss is convex, but a whole step can go too far
        theta, at = theta - share * step, after
        if np.abs(share * step).max() <= TOLERANCE:
            break
    return Fitted(theta, at, curvature(theta))
