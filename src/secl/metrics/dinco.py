"""The formulas of DINCO (Wang et al. 2025): confidence normalised over distractors, and self-consistency."""

from __future__ import annotations

from collections.abc import Sequence

COUNTED = 5
"""Number of samples in the consistency term."""

MATCH = 0.9
"""Agreement above which a sample counts as the same answer."""

Matrix = Sequence[Sequence[float]]


def normalised_verbalised_confidence(p_yes: Sequence[float], entails: Matrix, contradicts: Matrix) -> float:
    """Return NVC: P("Yes") of the answer, over the mass of the answer and its distractors (at least 1).

    The weight of a distractor is its contradiction of the answer (mean of both directions), divided by 1 + the sum of
    P(entail) from all other distractors. The answer is first in `p_yes` (n) and in both matrices (n, n), in which
    candidate i entails or contradicts candidate j.
    """
    mass = p_yes[0]
    distractors = range(1, len(p_yes))
    for i in distractors:
        opposition = (contradicts[0][i] + contradicts[i][0]) / 2
        repeated = sum(entails[j][i] for j in distractors if j != i)
        mass += p_yes[i] * opposition / (1 + repeated)
    return p_yes[0] / max(1.0, mass)


def consistency(agreement: Sequence[float]) -> float:
    """Return SC: the share of samples that agree with the answer, which counts as a further sample."""
    return (1 + sum(same > MATCH for same in agreement)) / (len(agreement) + 1)
