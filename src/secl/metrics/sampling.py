"""Checks of a sample of labelled answers: how it was drawn, how much its labels are worth, whether answers changed.

A guarantee (`secl.metrics.risk_control`) assumes labels of a random sample of independent answers that are like later
answers. The confidences, domains, documents and ages of the labelled answers show whether these assumptions fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from secl.metrics.probability import Vector

Integers = npt.NDArray[np.integer]
Flags = npt.NDArray[np.bool_]

RESAMPLES, SEED = 1000, 42
"""Number of random samples with which `selection` compares a sample, and the seed of their choice."""

MOST_GROUPS = 30
"""Most groups of answers whose shares `selection` compares: groups by confidence, and by domain."""

STRATA = 5
"""`change` compares answers of the same fifth of the confidences."""


def effective_sizes(units: Integers) -> Vector:
    """Return, for each n, what the first n labels are worth: a number of independent labels (Kish 1965).

    Labels of one unit, such as a document, may be right or wrong together. If a sample has s_1, s_2, ... labels of its
    units, it is worth (sum s)^2 / sum s^2 labels of different units, however strongly labels of one unit agree.

    >>> effective_sizes(np.array([1, 2, 3])).tolist(), effective_sizes(np.array([7, 7, 7, 5])).round(2).tolist()
    ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.6])
    """
    order = np.argsort(units, kind="stable")
    _, starts, sizes = np.unique(units[order], return_index=True, return_counts=True)
    earlier = np.empty(units.size, np.intp)  # number of earlier labels of the same unit
    earlier[order] = np.arange(units.size) - np.repeat(starts, sizes)
    worth: Vector = np.arange(1, units.size + 1) ** 2 / np.cumsum(2 * earlier + 1)
    return worth


def selection(drawn: Flags, confidence: Vector, domain: Integers) -> float:
    """Return the p-value of the hypothesis that the drawn answers are a random sample of all answers.

    Two permutation tests compare the drawn answers with random samples of the same size: Kuiper's test (1960) of their
    confidences, which finds differences of location and of spread, and a chi-squared test of the shares of domains.
    The result is twice the smaller p-value, at most 1 (Bonferroni).

    Args:
        drawn: for each answer, whether it belongs to the sample.
        confidence: of each answer; equal confidences stay in one group.
        domain: number of each answer's domain.
    """
    if drawn.all() or not drawn.any():
        return 1.0
    by_domain = _rarity(
        drawn, domain, lambda sample, shares: np.asarray(((sample - shares) ** 2 / shares).sum(axis=-1))
    )
    return min(1.0, 2.0 * min(_rarity(drawn, _by_rank(confidence), _kuiper), by_domain))


def _rarity(drawn: Flags, group: Integers, distance: Callable[[Vector, Vector], Vector]) -> float:
    """Return the share of random samples whose numbers in the groups are at least as unusual as those of the sample."""
    group = np.unique(group, return_inverse=True)[1]
    sizes = np.bincount(group)
    if sizes.size > MOST_GROUPS:  # the smaller groups form one group
        rank = np.argsort(np.argsort(-sizes, kind="stable"))
        group = np.minimum(rank, MOST_GROUPS - 1)[group]
        sizes = np.bincount(group)
    count = int(drawn.sum())
    random = np.random.default_rng(SEED).multivariate_hypergeometric(sizes, count, RESAMPLES)
    shares = sizes / drawn.size
    found = distance(np.bincount(group[drawn], minlength=sizes.size) / count, shares)
    return float((1 + np.count_nonzero(distance(random / count, shares) >= found - 1e-9)) / (RESAMPLES + 1))


def _kuiper(sample: Vector, shares: Vector) -> Vector:
    """Return the largest distance above plus the largest distance below between two distribution functions."""
    differences = np.cumsum(sample - shares, axis=-1)
    distance: Vector = differences.max(axis=-1).clip(0) - differences.min(axis=-1).clip(None, 0)
    return distance


def _by_rank(confidence: Vector, groups: int = MOST_GROUPS) -> Integers:
    """Return a group number for each answer, in the order of the confidences; groups are of about equal size."""
    _, index, sizes = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = np.cumsum(sizes) - sizes / 2
    numbers: Integers = (middle / confidence.size * groups).astype(np.intp)[index]
    return numbers


def change(confidence: Vector, correct: Vector) -> tuple[float, int]:
    """Return the p-value of the hypothesis that answers are equally often right at all ages, and the latest change.

    The cumulative sum of the differences between labels and the mean label at like confidences is compared with a
    Brownian bridge (Kolmogorov's distribution). The second number is the index of the first label after the change, if
    there is one.

    Args:
        confidence, correct: of the labelled answers, the oldest label first.
    """
    from scipy.special import kolmogorov

    stratum = _by_rank(confidence, STRATA)
    sizes = np.maximum(np.bincount(stratum, minlength=STRATA), 1)
    mean = (np.bincount(stratum, correct, STRATA) / sizes)[stratum]
    variance = float((mean * (1 - mean)).sum())
    if variance == 0:
        return 1.0, 0
    path = np.abs(np.cumsum(correct - mean))
    return float(kolmogorov(path.max() / math.sqrt(variance))), int(path.argmax()) + 1
