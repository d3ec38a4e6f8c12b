"""Monotone maps from confidence to confidence (paper, section "Post-Hoc Calibration Baselines").

Temperature scaling and Platt scaling are fitted in two ways: to grades by cross-validation, which needs labels, and
along a stream to a signal such as normalised P(True), which needs none.
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
from secl.metrics.logistic import fit_logistic

Kind = Literal["temperature", "platt"]
"""Which map to fit."""

CLIP = 1e-6
"""Confidences are kept this far from 0 and 1 before the logit, and so is the base rate of a constant `Platt`."""

T_MIN, T_MAX = 0.01, 100.0
"""Bounds of a fitted temperature; it lies on a bound where the likelihood has no maximum between them."""

RIDGE = 1e-8
"""`fit_platt` adds RIDGE / 2 a^2 to the summed loss: no digit that matters on ordinary data, a finite slope on any."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """Temperature scaling: c becomes sigmoid(logit(c) / t), with c clipped to [CLIP, 1 - CLIP].

    The temperature t lies above 0: 1 keeps c, larger ones pull it towards 0.5.
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
    """

    a: float
    b: float

    def __call__(self, confidence: npt.ArrayLike) -> Vector:
        from scipy.special import expit

        return np.asarray(expit(self.a * np.asarray(confidence, dtype=np.float64) + self.b))


def fit_temperature(confidence: npt.ArrayLike, target: npt.ArrayLike) -> Temperature:
    """Return the temperature with the least cross-entropy to the targets (grades or probabilities), in [T_MIN, T_MAX].

    The optimum lies on a bound if sharper is always better (T_MIN: all answers right and stated above 0.5) or flatter
    is (T_MAX: all of them wrong). If all confidences are 0.5, the temperature is 1.
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
    """Return the slope and intercept of logistic regression: maximum likelihood, but for the tiny `RIDGE` on the slope.

    A soft target y counts as a right answer with weight y and a wrong one with weight 1 - y. The mean of the mapped
    confidences is the mean target. Equal confidences get the constant map to the mean target, clipped to [CLIP, 1 -
    CLIP]; so does a mean target of 0 or 1. Right and wrong answers that a threshold separates give a steep step.
    """
    confidences, targets = with_targets(confidence, target)
    rate = targets.mean()
    if not CLIP <= rate <= 1.0 - CLIP:
        return Platt(0.0, float(_logits(rate)))
    # On other scales slope and intercept are nearly collinear where confidences are close.
    centre, scale = confidences.mean(), max(np.ptp(confidences), 1e-12)
    rows = np.stack([(confidences - centre) / scale, np.ones_like(confidences)], axis=1)
    precision = np.array([RIDGE / scale**2, 0.0])
    slope, level = fit_logistic(rows, targets, np.ones_like(targets), np.zeros(2), precision).parameters
    return Platt(float(slope / scale), float(level - slope * centre / scale))


Map = Temperature | Platt

FITS: Mapping[Kind, Callable[[npt.ArrayLike, npt.ArrayLike], Map]] = {
    "temperature": fit_temperature,
    "platt": fit_platt,
}
"""The fit of each kind of map."""


@dataclass(frozen=True, slots=True, eq=False)
class Recalibrated:
    """Cross-validated confidences, in the order of the questions, and the map of each fold, fitted to the others."""

    confidence: Vector
    fitted: tuple[Map, ...]

    @property
    def value(self) -> float | tuple[float, float]:
        """Mean over the folds of t, or of a and b."""
        means = np.mean([astuple(fold) for fold in self.fitted], axis=0).tolist()
        return means[0] if len(means) == 1 else (means[0], means[1])


FOLDS = 5
"""Folds of cross-validation, and the fewest graded answers for it."""


def cross_validated(confidence: npt.ArrayLike, correct: npt.ArrayLike, kind: Kind) -> Recalibrated:
    """Map every confidence by a map that was fitted to the grades of the other folds.

    Folds are those of scikit-learn's KFold, shuffled. Every fold has its own map, so AUROC over all questions changes.
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size < FOLDS:
        raise ParameterError(f"The questions are too few for {FOLDS} folds, {confidences.size}; grade more of them.")
    from sklearn.model_selection import KFold

    mapped, fitted = np.empty_like(confidences), []
    for others, fold in KFold(FOLDS, shuffle=True, random_state=0).split(confidences):
        fitted.append(FITS[kind](confidences[others], grades[others]))
        mapped[fold] = fitted[-1](confidences[fold])
    return Recalibrated(mapped, tuple(fitted))


FEWEST_SCORED, MOST_REFITTED = 10, 1000
"""Fewest scored questions for a map along a stream, and most that each fit a map anew: long streams stay linear."""


def label_free(confidence: npt.ArrayLike, signal: npt.ArrayLike | Sequence[float | None], kind: Kind) -> Vector:
    """Map each confidence of a stream by a map fitted to the signals of the questions before it, without labels.

    This is the control for learning by weights: the same signal, and at most two numbers to learn. The signal is nan or
    None if a question was not scored. The first `FEWEST_SCORED` scored questions keep their confidences. Then every
    new signal fits a map anew; beyond `MOST_REFITTED`, every 2% more do.
    """
    signals = np.asarray(signal, dtype=np.float64)
    unscored = np.isnan(signals)
    confidences, targets = with_targets(confidence, np.where(unscored, 0.0, signals))
    mapped, scored, count = confidences.copy(), np.flatnonzero(~unscored), FEWEST_SCORED
    while count <= scored.size:
        following = count + (count // 50 if count >= MOST_REFITTED else 1)
        end = scored[following - 1] + 1 if following <= scored.size else None  # the next map begins after its signal
        earlier, later = scored[:count], slice(scored[count - 1] + 1, end)
        mapped[later] = FITS[kind](confidences[earlier], targets[earlier])(confidences[later])
        count = following
    return mapped


def _logits(probability: npt.ArrayLike) -> Vector:
    from scipy.special import logit

    return np.asarray(logit(np.clip(probability, CLIP, 1.0 - CLIP)))
