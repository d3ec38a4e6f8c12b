"""Monotone maps from confidence to confidence (paper, section "Post-Hoc Calibration Baselines").

Temperature scaling and Platt scaling are fitted to grades by cross-validation. They can also be fitted along a stream,
without labels, to a signal such as normalised P(True). Platt scaling and the map of labels (`secl.labels.state`) are
logistic regressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.probability import Vector, graded, with_targets

MapKind = Literal["temperature", "platt"]
"""Kind of map."""

CLIP = 1e-6
"""Minimum distance from 0 and 1 of confidences before the logit, and of the result of a constant `Platt`."""

T_MIN, T_MAX = 0.01, 100.0
"""Bounds of a fitted temperature."""

RIDGE = 1e-8
"""`fit_platt` adds RIDGE / 2 a^2 to the summed loss, for a finite slope on separable data."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """Temperature scaling: c becomes sigmoid(logit(c) / t), with c clipped to [CLIP, 1 - CLIP].

    The temperature t lies above 0: 1 keeps c, and a larger t pulls c towards 0.5.
    """

    t: float

    def __call__(self, confidence: npt.ArrayLike) -> Vector:
        """Map confidences in [0, 1] of any shape."""
        from scipy.special import expit

        return np.asarray(expit(_logits(confidence) / self.t))


@dataclass(frozen=True, slots=True)
class Platt:
    """Platt scaling: c becomes sigmoid(a c + b), on the confidence itself and not on its logit.

    The slope a is negative if more confident answers are right less often.
    """

    a: float
    b: float

    def __call__(self, confidence: npt.ArrayLike) -> Vector:
        from scipy.special import expit

        return np.asarray(expit(self.a * np.asarray(confidence, dtype=np.float64) + self.b))


def fit_temperature(confidence: npt.ArrayLike, target: npt.ArrayLike) -> Temperature:
    """Return the temperature in [T_MIN, T_MAX] with the least cross-entropy to targets (grades or probabilities).

    If all confidences are above 0.5, the optimum is T_MIN when all answers are right, and T_MAX when all answers are
    wrong. If all confidences are 0.5, the temperature is 1.
    """
    confidences, targets = with_targets(confidence, target)
    logits = _logits(confidences)
    if not logits.any():
        return Temperature(1.0)
    from scipy.optimize import brentq
    from scipy.special import expit

    def slope(log_t: float) -> float:  # derivative of the loss by 1/t; the loss is convex in 1/t
        return float(logits @ (expit(logits * math.exp(-log_t)) - targets))

    if slope(math.log(T_MIN)) <= 0.0:
        return Temperature(T_MIN)
    if slope(math.log(T_MAX)) >= 0.0:
        return Temperature(T_MAX)
    return Temperature(math.exp(brentq(slope, math.log(T_MIN), math.log(T_MAX))))


def fit_platt(confidence: npt.ArrayLike, target: npt.ArrayLike) -> Platt:
    """Return the logistic regression of targets on confidences, with a tiny ridge on the slope (`RIDGE`).

    A soft target y counts as a right answer with weight y and a wrong one with weight 1 - y. The mean of the mapped
    confidences is the mean target. Equal confidences, and a mean target of 0 or 1, give a constant map to the mean
    target, clipped to [CLIP, 1 - CLIP]. Separable answers give a steep step.
    """
    confidences, targets = with_targets(confidence, target)
    rate = targets.mean()
    if not CLIP <= rate <= 1.0 - CLIP:
        return Platt(0.0, float(_logits(rate)))
    # Without this scaling, slope and intercept are nearly collinear for close confidences.
    centre, scale = confidences.mean(), max(np.ptp(confidences), 1e-12)
    rows = np.stack([(confidences - centre) / scale, np.ones_like(confidences)], axis=1)
    precision = np.array([RIDGE / scale**2, 0.0])
    (slope, level), *_ = fit_logistic(rows, targets, np.ones_like(targets), np.zeros(2), precision)
    return Platt(float(slope / scale), float(level - slope * centre / scale))


Map = Temperature | Platt

FITS: Mapping[MapKind, Callable[[npt.ArrayLike, npt.ArrayLike], Map]] = {
    "temperature": fit_temperature,
    "platt": fit_platt,
}
"""Function that fits each kind of map."""


FOLDS = 5
"""Number of folds of cross-validation, and minimum number of graded answers."""


def cross_validated(confidence: npt.ArrayLike, correct: npt.ArrayLike, kind: MapKind) -> tuple[Vector, list[float]]:
    """Map every confidence by a map fitted to the grades of the other folds, which are those of scikit-learn's KFold.

    Every fold has its own map. This can change the order of answers from different folds, and therefore the AUROC.

    Returns:
        the mapped confidences, and the mean over the folds of the map's parameters.
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size < FOLDS:
        raise ParameterError(f"{FOLDS} folds need {FOLDS} graded questions, not {confidences.size}; grade more.")
    mapped, fitted = np.empty_like(confidences), []
    for places in np.array_split(np.random.RandomState(0).permutation(confidences.size), FOLDS):
        fold = np.isin(np.arange(confidences.size), places)
        fitted.append(FITS[kind](confidences[~fold], grades[~fold]))
        mapped[fold] = fitted[-1](confidences[fold])
    return mapped, np.mean([astuple(fold) for fold in fitted], axis=0).tolist()


FEWEST_SCORED, MOST_REFITTED = 10, 1000
"""A map along a stream needs `FEWEST_SCORED` signals. Up to `MOST_REFITTED` signals, each signal causes a new fit."""


def label_free(confidence: npt.ArrayLike, signal: npt.ArrayLike | Sequence[float | None], kind: MapKind) -> Vector:
    """Map each confidence of a stream by a map fitted to the signals of earlier questions, without labels.

    This is the baseline for SECL: the same signal fits one or two parameters instead of an adapter. The signal is nan
    or None for a question without a signal. Confidences stay unchanged up to `FEWEST_SCORED` signals. Then each new
    signal causes a new fit. Beyond `MOST_REFITTED` signals, a new fit waits for 2% more signals.
    """
    signals = np.asarray(signal, dtype=np.float64)
    unscored = np.isnan(signals)
    confidences, targets = with_targets(confidence, np.where(unscored, 0.0, signals))
    mapped, scored, count = confidences.copy(), np.flatnonzero(~unscored), FEWEST_SCORED
    while count <= scored.size:
        following = count + (count // 50 if count >= MOST_REFITTED else 1)
        # A map fitted to `count` signals applies after the question of the last of these signals, up to and including
        # the question whose signal causes the next fit.
        end = scored[following - 1] + 1 if following <= scored.size else None
        earlier, later = scored[:count], slice(scored[count - 1] + 1, end)
        mapped[later] = FITS[kind](confidences[earlier], targets[earlier])(confidences[later])
        count = following
    return mapped


def _logits(probability: npt.ArrayLike) -> Vector:
    from scipy.special import logit

    return np.asarray(logit(np.clip(probability, CLIP, 1.0 - CLIP)))


MOST_STEPS, TOLERANCE = 100, 1e-12
"""Newton's method ends after `MOST_STEPS` steps, or when no parameter moves by more than `TOLERANCE`."""


def fit_logistic(
    rows: Vector, targets: Vector, weights: Vector, mean: Vector, precision: Vector
) -> tuple[Vector, float, Vector]:
    """Minimise the weighted cross-entropy of sigmoid(rows @ parameters) to targets in [0, 1], plus the prior's penalty.

    Args:
        rows: n rows of d columns; `targets` and `weights` have n entries.
        mean, precision: of the prior of each parameter (d); the penalty is precision / 2 (parameter - mean)^2.

    Returns:
        the parameters (d) at the minimum, the loss, and its second derivatives (d, d).

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
    return theta, at, curvature(theta)
