"""Probabilities and grades: checks, bins, normalised P(True), the training target, and logarithms of sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError, check_finite
from secl.settings.groups import Formula

BINS = 10
"""Number of bins of confidences, one for each digit in which a model states its confidence."""

BIN_EDGES = np.arange(BINS + 1) / BINS
"""Borders of the bins: the doubles nearest to k/10."""


@overload
def bin_index(p: float) -> int: ...
@overload
def bin_index(p: npt.NDArray[np.floating] | Sequence[float]) -> npt.NDArray[np.intp]: ...
def bin_index(p: float | npt.NDArray[np.floating] | Sequence[float]) -> int | npt.NDArray[np.intp]:
    """Return the bin of a probability: bin k is [k/10, (k+1)/10), and the last one includes 1.

    The ECE and the bin gate share this rule. A float32 is compared exactly: float32 0.7 lies below 0.7.
    """
    values = np.asarray(p, dtype=np.float64)
    check_probabilities("probability", values)
    index = np.minimum(np.searchsorted(BIN_EDGES, values, side="right") - 1, BINS - 1)
    return int(index) if index.ndim == 0 else np.asarray(index, dtype=np.intp)


def normalised_p_true(p_true: Sequence[float], tau: float, formula: Formula = "log") -> float:
    """Return the normalised P(True) of the first candidate, SECL's training signal.

    "log" is softmax(log P / tau) (the paper's appendix on P(True) normalisation, and our default). "exp" is Eq. normp,
    softmax(P / tau), which has a narrow range: with five candidates and tau = 0.7 at most 0.511.

    With "log" a candidate of P = 0 gets weight 0; if all are 0, each gets 1/n. A nan makes the result nan.

    Args:
        p_true: P("True") of each candidate: first the answer, then the other candidates.
        tau: temperature, above 0; towards 0 the best candidate gets 1, towards infinity each candidate gets 1/n.

    Raises:
        ParameterError: fewer than two candidates, a value outside [0, 1], tau not above 0, or another formula.
    """
    if len(p_true) < 2:
        raise ParameterError(f"normalised P(True) needs at least 2 candidates, not {len(p_true)}.")
    check_finite("temperature tau", tau, tau > 0.0, "be above 0")
    if formula not in ("log", "exp"):
        raise ParameterError(f"the formula of normalised P(True) is 'log' or 'exp', not {formula!r}.")
    values = [float(p) for p in p_true]
    if any(p < 0.0 or p > 1.0 for p in values):
        raise ParameterError(f"P(True) must lie between 0 and 1, but the candidates have {values}.")
    if any(math.isnan(p) for p in values):
        return math.nan
    if formula == "log":
        if max(values) == 0.0:
            return 1.0 / len(values)
        values = [math.log(p) if p > 0.0 else -math.inf for p in values]
    return softmax(values, tau)[0]


def directional_target(stated: float, signal: float, alpha: float, delta: float) -> float:
    """Return the target of a stated confidence (Eq. target): stated + alpha clip(signal - stated, -delta, delta).

    Args:
        alpha: step size, in [0, 1] (paper: 0.5); 1 moves the whole clipped distance.
        delta: bound of the distance, 0 or more (paper: 0.15); a step is at most alpha * delta.

    Raises:
        ParameterError: a value outside its range, or nan.
    """
    for name, number in (("stated confidence", stated), ("signal", signal), ("step size alpha", alpha)):
        check_finite(name, number, 0.0 <= number <= 1.0, "lie between 0 and 1")
    check_finite("bound delta", delta, delta >= 0.0, "be 0 or more")
    return stated + alpha * max(-delta, min(signal - stated, delta))


def softmax(log_p: Sequence[float], tau: float = 1.0) -> list[float]:
    """Return the softmax of log-probabilities that are divided by a temperature.

    `math.fsum` rounds the sum once, so the last digits are the same everywhere, unlike those of scipy's softmax.
    """
    high = max(log_p)  # the largest weight is 1, so the sum neither overflows nor vanishes
    weights = [math.exp((log - high) / tau) for log in log_p]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def log_sum(log_p: Sequence[float]) -> float:
    """Return the logarithm of the sum of probabilities given as logarithms."""
    high = max(log_p)
    return high + math.log(math.fsum(math.exp(log - high) for log in log_p)) if math.isfinite(high) else high


def averaged(orders: Sequence[Sequence[float]]) -> list[float]:
    """Return the softmax of the options' mean log-probabilities over several orders.

    >>> [round(p, 3) for p in averaged([[-1.0, -2.0], [-3.0, -2.0]])]
    [0.5, 0.5]
    """
    return softmax([sum(letters) / len(orders) for letters in zip(*orders, strict=True)])


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
