"""Discrimination: whether right answers have higher confidence than wrong ones. Arguments as in `calibration`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.graded import graded


def auroc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Area under the ROC curve: the chance that a right answer is more confident than a wrong one, ties half.

    Higher is better, 0.5 is no better than chance. Undefined (nan) unless there is a right and a wrong answer.

    >>> auroc([0.9, 0.6, 0.3], [1, 0, 0]), auroc([0.9, 0.6], [1, 1])
    (1.0, nan)
    """
    confidences, grades = graded(confidence, correct)
    if grades.size == 0 or grades.min() == grades.max():
        return math.nan
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(grades, confidences))


def auroc_within(confidence: npt.ArrayLike, correct: npt.ArrayLike, domains: Sequence[Hashable]) -> float:
    """The mean AUROC inside the domains, weighted by their pairs of a right and a wrong answer.

    It is the share of such pairs *within* a domain that the right answer wins, ties half. Pooled AUROC also rewards a
    confidence that only tells an easy domain from a hard one. nan if no domain has a right and a wrong answer.

    >>> right, easy_then_hard = [1, 1, 0, 1, 0, 0], ["easy"] * 3 + ["hard"] * 3
    >>> auroc([0.9, 0.9, 0.9, 0.3, 0.3, 0.3], right) > 0.6
    True
    >>> auroc_within([0.9, 0.9, 0.9, 0.3, 0.3, 0.3], right, easy_then_hard)
    0.5
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


def members(domains: Sequence[Hashable], answers: int) -> list[npt.NDArray[np.intp]]:
    """The places of the answers of each domain, in order of appearance.

    Raises:
        ParameterError: not one domain for each of so many answers.
    """
    if len(domains) != answers:
        raise ParameterError(f"AUROC within domains needs a domain per answer, not {len(domains)} for {answers}.")
    places: dict[Hashable, list[int]] = {}
    for index, domain in enumerate(domains):
        places.setdefault(domain, []).append(index)
    return [np.array(each, dtype=np.intp) for each in places.values()]
