"""Discrimination: whether right answers have higher confidence than wrong ones; higher is better."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.graded import graded
from secl.metrics.risk_control import risk_coverage


def auroc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the area under the ROC curve: the share of pairs in which the right answer is more confident, ties half.

    0.5 is chance; nan if all answers are right or all are wrong.
    """
    confidences, grades = graded(confidence, correct)
    right = int(grades.sum())
    if right in (0, grades.size):
        return math.nan
    from scipy.stats import rankdata

    # pairs in which the wrong answer has the lower confidence
    won = rankdata(confidences)[grades == 1].sum() - right * (right + 1) / 2
    return float(won / (right * (grades.size - right)))


def auroc_within(confidence: npt.ArrayLike, correct: npt.ArrayLike, domains: Sequence[Hashable]) -> float:
    """Return the mean AUROC inside the domains, weighted by their pairs of a right and a wrong answer.

    Pooled AUROC also rewards a confidence that only distinguishes easy from hard domains. Without any pair, the result
    is nan.
    """
    confidences, grades = graded(confidence, correct)
    areas, pairs = [], []
    for places in members(domains, grades.size):
        right = int(grades[places].sum())
        if 0 < right < len(places):
            areas.append(auroc(confidences[places], grades[places]))
            pairs.append(right * (len(places) - right))
    # Shares, not numpy.average: a single domain keeps its AUROC to the last digit.
    return float(np.dot(areas, np.array(pairs) / sum(pairs))) if areas else math.nan


def prr(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the prediction rejection ratio: gain by rejecting the least confident answers, over an oracle's gain.

    The gain is the mean accuracy of the remaining answers after 0, 1, ... rejections, minus the accuracy of all.
    1 is a perfect order, 0 is chance, and worse orders are negative without bound. This is the full PRR of lm-polygraph
    (Vashurin et al. 2025). Malinin and Gales (2021) count a rejected answer as right; for grades their ratio is
    2 AUROC - 1. Ties count by the expectation over their orders. nan if all answers are right or all are wrong.
    """
    curve = risk_coverage(*graded(confidence, correct))
    right = curve.labels - curve.wrong
    total, rights = curve.total, float(right.max(initial=0))
    if rights in (0.0, total):
        return math.nan
    count = np.arange(1, total + 1)
    # Within a tie right answers are spread evenly, in expectation.
    ours = np.interp(count, [0.0, *curve.labels], [0.0, *right]) / count
    oracle, chance = np.minimum(count, rights) / count, rights / total
    return float((ours - chance).mean() / (oracle - chance).mean())


def members(domains: Sequence[Hashable], answers: int) -> list[npt.NDArray[np.intp]]:
    """Return the places of the answers of each domain, in order of appearance."""
    if len(domains) != answers:
        raise ParameterError(f"AUROC within domains needs a domain per answer, not {len(domains)} for {answers}.")
    places: dict[Hashable, list[int]] = {}
    for index, domain in enumerate(domains):
        places.setdefault(domain, []).append(index)
    return [np.array(numbers, dtype=np.intp) for numbers in places.values()]
