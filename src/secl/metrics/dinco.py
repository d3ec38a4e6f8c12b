"""The formulas of DINCO (Wang et al. 2025): confidence normalised over distractors, and self-consistency."""

from __future__ import annotations

from collections.abc import Sequence

COUNTED = 5
"""Samples that the consistency half looks at."""

MATCH = 0.9
"""A sample says the same as the answer above this agreement."""

Matrix = Sequence[Sequence[float]]


def normalised_verbalised_confidence(p_yes: Sequence[float], entails: Matrix, contradicts: Matrix) -> float:
    """NVC: P("Yes") of the first candidate over the mass of all that contradict it and are not said twice.

    A distractor counts as much as it contradicts the answer (mean of both directions) and as it is not entailed by the
    other distractors: 1 / (1 + sum of P(entail) from each of them). The mass is at least 1, so nothing is inflated.

    Args:
        p_yes: P("Yes") of n candidates, the answer first.
        entails: (n, n) probabilities that candidate i entails candidate j.
        contradicts: (n, n) probabilities that candidate i contradicts candidate j.

    >>> normalised_verbalised_confidence([0.9, 0.6], [[1, 0], [0, 1]], [[0, 1], [1, 0]])
    0.6
    """
    mass = p_yes[0]
    rivals = range(1, len(p_yes))
    for i in rivals:
        opposition = (contradicts[0][i] + contradicts[i][0]) / 2
        repeated = sum(entails[j][i] for j in rivals if j != i)
        mass += p_yes[i] * opposition / (1 + repeated)
    return p_yes[0] / max(1.0, mass)


def consistency(agreement: Sequence[float]) -> float:
    """SC: share of the samples that say the same as the answer, the answer itself counted as one more sample.

    >>> consistency([1.0, 0.95, 0.9, 0.2, 0.0])
    0.5
    """
    return (1 + sum(value > MATCH for value in agreement)) / (len(agreement) + 1)
