"""Monotone maps from confidence to confidence (paper, section "Post-Hoc Calibration Baselines").

Two maps, temperature scaling and Platt scaling, and two ways to fit them: to grades by cross-validation, which needs
labels, and along a stream to a signal such as normalised P(True), which needs none. Neither touches the model. Lists
that are no confidences with their grades or targets are a ParameterError (`secl.metrics.graded`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.graded import Vector, graded, with_targets

Kind = Literal["temperature", "platt"]
"""Which map to fit."""

EPSILON = 1e-6
"""Confidences are kept this far from 0 and 1 before the logit, and so is the base rate of a constant `Platt`."""

T_MIN, T_MAX = 0.01, 100.0
"""Bounds of a fitted temperature; it lies on a bound where the likelihood has no maximum between them."""

RIDGE = 1e-8
"""`fit_platt` adds RIDGE / 2 a^2 to the summed loss: no digit that matters on ordinary data, a finite slope on any."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """Temperature scaling: c becomes sigmoid(logit(c) / t), with c clipped to [EPSILON, 1 - EPSILON].

    The temperature t lies above 0: 1 keeps c, larger ones pull it towards 0.5.

    >>> Temperature(2.0)([0.1, 0.5, 0.9]).round(3).tolist()
    [0.25, 0.5, 0.75]
    """

    t: float

    def __call__(self, confidence: npt.ArrayLike) -> Vector:
        """Confidences in [0, 1] of any shape to mapped ones of the same shape."""
        from scipy.special import expit

        return np.asarray(expit(_logits(confidence) / self.t))


@dataclass(frozen=True, slots=True)
class Platt:
    """Platt scaling: c becomes sigmoid(a c + b), on the confidence itself and not on its logit.

    The slope a lies below 0 where more confident answers are less often right.

    >>> Platt(4.0, -2.0)([0.0, 0.5, 1.0]).round(3).tolist()
    [0.119, 0.5, 0.881]
    """

    a: float
    b: float

    def __call__(self, confidence: npt.ArrayLike) -> Vector:
        from scipy.special import expit

        return np.asarray(expit(self.a * np.asarray(confidence, dtype=np.float64) + self.b))


def fit_temperature(confidence: npt.ArrayLike, target: npt.ArrayLike) -> Temperature:
    """The temperature with the least cross-entropy to the targets (grades or probabilities), within [T_MIN, T_MAX].

    The optimum lies on a bound where sharper is always better (T_MIN: all answers right and stated above 0.5) or
    flatter is (T_MAX: all of them wrong). All confidences 0.5: no temperature matters, it is 1.

    >>> round(fit_temperature([0.9, 0.9, 0.9, 0.9], [1, 1, 1, 0]).t, 3)
    2.0
    """
    confidences, targets = with_targets(confidence, target)
    logits = _logits(confidences)
    if not logits.any():
        return Temperature(1.0)
    from scipy.optimize import brentq
    from scipy.special import expit

    def slope(log_t: float) -> float:  # of the loss, which is convex in 1/t
        return float(logits @ (expit(logits * math.exp(-log_t)) - targets))

    if slope(math.log(T_MIN)) <= 0.0:
        return Temperature(T_MIN)
    if slope(math.log(T_MAX)) >= 0.0:
        return Temperature(T_MAX)
    return Temperature(math.exp(brentq(slope, math.log(T_MIN), math.log(T_MAX))))


def fit_platt(confidence: npt.ArrayLike, target: npt.ArrayLike) -> Platt:
    """The slope and intercept of logistic regression: maximum likelihood, but for the tiny `RIDGE` on the slope.

    A soft target y counts as a right answer with weight y and a wrong one with weight 1 - y. The mean of the mapped
    confidences is the mean target. All confidences equal: the constant map to the mean target. A mean target within
    `EPSILON` of 0 or 1 (one class): the constant map to it, clipped to [EPSILON, 1 - EPSILON]. Right and wrong answers
    that a threshold separates: a steep but finite step.

    >>> fitted = fit_platt([0.2, 0.2, 0.2, 0.8, 0.8, 0.8], [0, 0, 1, 0, 1, 1])
    >>> fitted([0.2, 0.8]).round(4).tolist()
    [0.3333, 0.6667]
    """
    confidences, targets = with_targets(confidence, target)
    rate = targets.mean()
    if not EPSILON <= rate <= 1.0 - EPSILON:
        return Platt(0.0, float(_logits(rate)))
    from scipy.optimize import minimize
    from scipy.special import expit

    centre = confidences.mean()  # uncentred, slope and intercept are nearly collinear when confidences are close
    columns = np.stack([confidences - centre, np.ones_like(confidences)])
    ridge = np.array([RIDGE, 0.0])

    def loss_and_gradient(weights: Vector) -> tuple[float, Vector]:
        z = weights @ columns
        entropy = targets @ np.logaddexp(0.0, -z) + (1.0 - targets) @ np.logaddexp(0.0, z)
        return float(entropy + ridge @ weights**2 / 2.0), columns @ (expit(z) - targets) + ridge * weights

    def hessian(weights: Vector) -> Vector:
        z = weights @ columns
        return np.asarray((columns * expit(z) * expit(-z)) @ columns.T + np.diag(ridge))

    # Newton's steps are exact to rounding; the trust region holds them where right and wrong are nearly separable.
    options = {"gtol": 1e-9, "max_trust_radius": 1e6}
    solution = minimize(loss_and_gradient, np.zeros(2), jac=True, hess=hessian, method="trust-exact", options=options)
    a, level = solution.x
    return Platt(float(a), float(level - a * centre))


Map = Temperature | Platt
Fit = Callable[[npt.ArrayLike, npt.ArrayLike], Map]

FITS: Mapping[Kind, Fit] = {"temperature": fit_temperature, "platt": fit_platt}
"""The fit of each kind of map."""


@dataclass(frozen=True, slots=True, eq=False)
class Recalibrated:
    """Confidences that cross-validation mapped, in the order of the questions, and the map of each fold.

    A map is fitted to all other folds, so that no map saw the grade of a confidence that it maps.
    """

    confidence: Vector
    fitted: tuple[Map, ...]

    @property
    def value(self) -> float | tuple[float, float]:
        """Mean over the folds of what was fitted: t, or a and b."""
        means = np.mean([astuple(each) for each in self.fitted], axis=0).tolist()
        return means[0] if len(means) == 1 else (means[0], means[1])


FOLDS = 5
"""Folds of cross-validation; fewer graded answers than these cannot be cross-validated."""


def cross_validated(confidence: npt.ArrayLike, correct: npt.ArrayLike, kind: Kind) -> Recalibrated:
    """Map every confidence by a map that was fitted to the grades of the other folds.

    Folds are those of scikit-learn's KFold, shuffled. A map keeps the order within its fold (a Platt map
    with a < 0 reverses it), but every fold has its own, so AUROC over all questions can change.

    >>> made = cross_validated([0.9] * 20, [True, False] * 10, "platt")
    >>> len(made.fitted), round(float(made.confidence.mean()), 1)
    (5, 0.5)
    """
    confidences, grades = graded(confidence, correct)
    fit = FITS[kind]
    if confidences.size < FOLDS:
        raise ParameterError(f"The questions are too few for {FOLDS} folds, {confidences.size}; grade more of them.")
    from sklearn.model_selection import KFold

    mapped, fitted = np.empty_like(confidences), []
    for others, fold in KFold(FOLDS, shuffle=True, random_state=0).split(confidences):
        fitted.append(fit(confidences[others], grades[others]))
        mapped[fold] = fitted[-1](confidences[fold])
    return Recalibrated(mapped, tuple(fitted))


FEWEST = 10
"""Scored questions from which on confidences are mapped along a stream."""


def label_free(confidence: npt.ArrayLike, signal: npt.ArrayLike | Sequence[float | None], kind: Kind) -> Vector:
    """Map each of n confidences of a stream by a map fitted to the signals of the questions before it: no labels.

    Answer first, learn after: the signal of a question changes later confidences only. It is the control for learning
    by weights, with the same signal and two numbers at most to learn. The first `FEWEST` scored questions keep their
    confidences; then every new signal fits anew to all before it, and beyond `OFTEN` signals, 2% more of them do. The
    signal is nan or None where a question was not scored.

    >>> label_free([0.9] * 12, [0.6] * 9 + [None, 0.6, 0.2], "platt").round(3).tolist()[9:]
    [0.9, 0.9, 0.6]
    """
    signals = np.asarray(signal, dtype=np.float64)
    unscored = np.isnan(signals)
    confidences, targets = with_targets(confidence, np.where(unscored, 0.0, signals))
    fit = FITS[kind]
    mapped = confidences.copy()
    scored = np.flatnonzero(~unscored)
    counts = _fits(scored.size)
    ends = [*(scored[each - 1] + 1 for each in counts[1:]), confidences.size]  # the next map begins behind its signal
    for count, end in zip(counts, ends, strict=False):
        earlier = scored[:count]
        later = slice(earlier[-1] + 1, end)
        mapped[later] = fit(confidences[earlier], targets[earlier])(confidences[later])
    return mapped


OFTEN = 1000
"""Scored questions up to which every new one fits a map anew."""


def _fits(scored: int) -> list[int]:
    """The numbers of scored questions at which a map is fitted: so few that the work on a long stream stays linear."""
    counts, count = [], FEWEST
    while count <= scored:
        counts.append(count)
        count += count // 50 if count >= OFTEN else 1
    return counts


def _logits(probability: npt.ArrayLike) -> Vector:
    from scipy.special import logit

    return np.asarray(logit(np.clip(probability, EPSILON, 1.0 - EPSILON)))
