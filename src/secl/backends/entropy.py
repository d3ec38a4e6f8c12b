"""Entropy of a whole vocabulary from the few most probable tokens that a server reports."""

from __future__ import annotations

import math
from collections.abc import Iterable

MIN_LOG_P = -100.0
"""Log-probability that stands for a probability of zero."""

MIN_OTHER_MASS = 1e-6
"""Minimum total probability of the other tokens; smaller totals are rounding errors of float32 log-probabilities."""


def entropy_of(log_p: Iterable[float], vocabulary: int) -> float:
    """Return the entropy in nats from the log-probabilities of the most probable tokens.

    These tokens are the head of the distribution, and the other tokens are its tail. The estimate assumes that the
    tail's probabilities fall as a power of the rank (Zipf), starting from the smallest probability of the head. The
    estimate lies between the entropies for two other tails: a tail of few tokens that all have the head's smallest
    probability, and a tail of all other tokens with equal probabilities.

    >>> round(entropy_of([math.log(0.5), math.log(0.25)], 1000), 3), round(entropy_of([math.log(0.5)] * 2, 1000), 3)
    (1.415, 0.693)
    """
    head = sorted((value for value in log_p if value > MIN_LOG_P), reverse=True)
    partial = -sum(math.exp(value) * value for value in head)
    rest, others = 1.0 - sum(map(math.exp, head)), vocabulary - len(head)
    if not head or others <= 0 or rest < MIN_OTHER_MASS:
        return partial
    low = partial - rest * min(head[-1], math.log(rest))
    high = max(low, partial + rest * math.log(others / rest))
    return min(max(partial + _tail(rest, head[-1], len(head), others), low), high)


def _tail(rest: float, smallest: float, count: int, others: int) -> float:
    """Return the entropy that a tail of mass `rest` adds: p(i) = p(count) (i / count)^-s for a fitted s.

    `count` tokens precede the tail, and `smallest` is ln p(count). Integrals over u = i / count from 1 to R replace
    sums over ranks i. With a = 1 - s the mass is p(count) count (R^a - 1) / a.
    """
    ratio = rest / (math.exp(smallest) * count)
    span = math.log1p(others / count)
    high = min(1.0, 600.0 / span)
    low = -1.0 - 1.0 / ratio  # a lower bound of a, because (R^a - 1) / a < 1 / -a for a < 0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _mass(middle, span) < ratio else (low, middle)
    a = (low + high) / 2
    b = a * span
    moment = span * span / 2 if abs(b) < 1e-4 else (math.exp(b) * (b - 1) + 1) / (a * a)
    return rest * ((1 - a) * moment / ratio - smallest)


def _mass(a: float, span: float) -> float:
    return span if abs(a * span) < 1e-9 else math.expm1(a * span) / a
