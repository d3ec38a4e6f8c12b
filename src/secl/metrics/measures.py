"""Measures of confidences: calibration (paper, appendix "Metric Definitions") and discrimination.

Calibration compares confidences with accuracy. Discrimination is the degree to which right answers have higher
confidences than wrong answers; higher is better. Every measure takes n confidences in [0, 1] and n grades (right or
wrong), returns nan for n = 0, and raises a ParameterError for other arguments (`secl.metrics.probability.graded`).
`bin_index` defines the bins of equal width.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.probability import BIN_EDGES, BINS, bin_index, graded
from secl.metrics.risk_control import risk_coverage

MOST_EXACT = 4000
"""Maximum number of answers for exact distributions. For more answers, secl uses normal approximations."""

Z = 1.96
"""Standard normal quantile of 97.5%."""

FLOOR_DRAWS = 500
"""Number of simulated sets of grades for the floor of the ECE."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A bar of a reliability diagram: a bin [lo, hi), its number of answers, mean confidence and accuracy (or nan)."""

    lo: float
    hi: float
    count: int
    confidence: float
    accuracy: float


def ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the expected calibration error: sum over equal-width bins of |B|/n |acc(B) - conf(B)|, in [0, 1]."""
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    gaps = np.bincount(bin_index(confidences), weights=grades - confidences, minlength=BINS)
    return float(np.abs(gaps).sum() / confidences.size)


@dataclass(frozen=True, slots=True)
class EceFloor:
    """Mean and 95% quantile (`upper`) of a calibrated forecaster's ECE. An ECE above `upper` shows miscalibration."""

    mean: float
    upper: float


def ece_floor(confidence: npt.ArrayLike, design: float = 1.0) -> EceFloor:
    """Return the ECE that n calibrated confidences have by chance alone: about .05 for 450 answers.

    The ECE adds up the gaps of bins in absolute value, so chance makes the ECE positive. The floor is simulated with
    grades from Bernoulli(confidence). For 450 answers spread over all bins, `FLOOR_DRAWS` simulations have a standard
    error of about .0005 for the mean and .001 for the quantile. Beyond `MOST_EXACT` answers, the gaps are drawn from
    normal distributions.

    Args:
        confidence: of each answer.
        design: number of answers that vary as one independent answer (`secl.metrics.intervals.design_effect`).
    """
    confidences = np.sort(graded(confidence, np.zeros(np.shape(confidence)))[0])
    index = bin_index(confidences)
    if confidences.size == 0:
        return EceFloor(math.nan, math.nan)
    generator = np.random.default_rng(0)
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    if confidences.size > MOST_EXACT:
        spread = np.sqrt(np.add.reduceat(confidences * (1.0 - confidences), starts))
        gaps = generator.standard_normal((FLOOR_DRAWS, starts.size)) * spread
    else:
        right = generator.random((FLOOR_DRAWS, confidences.size)) < confidences
        gaps = np.add.reduceat(right, starts, axis=1, dtype=np.float64) - np.add.reduceat(confidences, starts)
    simulated = np.abs(gaps).sum(axis=1) / confidences.size
    if design > 1.0:
        simulated = np.minimum(simulated * math.sqrt(design), 1.0)
    return EceFloor(float(simulated.mean()), float(np.quantile(simulated, 0.95)))


def ada_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the adaptive ECE: the same sum as in `ece`, but over bins with equal numbers of answers, in [0, 1].

    Answers are sorted by confidence and split into ten bins by numpy.array_split. Answers of equal confidence share
    their mean grade, so the result does not depend on the order of the answers.
    """
    confidences, grades = graded(confidence, correct)
    if confidences.size == 0:
        return math.nan
    distinct, index, sizes = np.unique(confidences, return_inverse=True, return_counts=True)
    gaps = np.repeat(np.bincount(index, grades) / sizes - distinct, sizes)
    return float(sum(abs(run.sum()) for run in np.array_split(gaps, BINS)) / confidences.size)


def brier(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the Brier score: mean of (confidence - grade) squared, in [0, 1]."""
    confidences, grades = graded(confidence, correct)
    return float(np.mean((confidences - grades) ** 2)) if confidences.size else math.nan


def reliability(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> list[Bin]:
    """Return the ten bars of a reliability diagram, the lowest bin first."""
    confidences, grades = graded(confidence, correct)
    index, bars = bin_index(confidences), []
    for k, (lo, hi) in enumerate(pairwise(BIN_EDGES.tolist())):
        inside = index == k
        count = int(inside.sum())
        means = [float(numbers[inside].mean()) if count else math.nan for numbers in (confidences, grades)]
        bars.append(Bin(lo, hi, count, *means))
    return bars


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share of n independent answers, for n of at least 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    added = Z * Z / n
    half = Z * math.sqrt(share * (1.0 - share) / n + added / (4.0 * n))
    ends = ((share + added / 2.0 + each) / (1.0 + added) for each in (-half, half))
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return low, high


@lru_cache(maxsize=32)
def chance_of_count(confidence: tuple[float, ...], right: int) -> float:
    """Return the two-sided p-value of the number of right answers, if the confidences are calibrated.

    The number has a Poisson-binomial distribution; beyond `MOST_EXACT` answers, a normal approximation is used.
    """
    p = np.asarray(confidence, dtype=np.float64)
    if p.size > MOST_EXACT:
        beyond = max(abs(right - float(p.sum())) - 0.5, 0.0)
        return math.erfc(beyond / math.sqrt(2.0 * max(float((p * (1.0 - p)).sum()), 1e-300)))
    counts = np.ones(1)
    for chance in p:
        counts = np.convolve(counts, (1.0 - chance, chance))
    return min(1.0, 2.0 * float(min(counts[: right + 1].sum(), counts[right:].sum())))


def auroc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the area under the ROC curve: the share of pairs in which the right answer has the higher confidence.

    A tie counts half. 0.5 is chance; nan if all answers are right or all are wrong.
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
    """Return the mean AUROC of the domains, weighted by their numbers of pairs of a right and a wrong answer.

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
    # For a single domain, this product is exactly the AUROC of the domain. numpy.average would round differently.
    return float(np.dot(areas, np.array(pairs) / sum(pairs))) if areas else math.nan


def prr(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the prediction rejection ratio: gain from rejecting by confidence, divided by the gain of a perfect order.

    The gain is the mean accuracy of the remaining answers after 0, 1, ... rejections, minus the accuracy of all. 1 is a
    perfect order, 0 is chance, and worse orders have negative values without a lower bound. This is the full PRR of
    lm-polygraph (Vashurin et al. 2025). Malinin and Gales (2021) count a rejected answer as right; for grades their
    ratio is 2 AUROC - 1. For ties, the result is the expectation over their orders. nan if all answers are right or
    all are wrong.
    """
    curve = risk_coverage(*graded(confidence, correct))
    right = curve.labels - curve.wrong
    total, rights = curve.total, float(right.max(initial=0))
    if rights in (0.0, total):
        return math.nan
    count = np.arange(1, total + 1)
    # In expectation, right answers are spread evenly among answers with equal confidences.
    ours = np.interp(count, [0.0, *curve.labels], [0.0, *right]) / count
    oracle, chance = np.minimum(count, rights) / count, rights / total
    return float((ours - chance).mean() / (oracle - chance).mean())


def members(domains: Sequence[Hashable], answers: int) -> list[npt.NDArray[np.intp]]:
    """Return the indices of the answers of each domain; domains come in order of appearance."""
    if len(domains) != answers:
        raise ParameterError(
            f"AUROC within domains needs one domain for each answer, not {len(domains)} domains for {answers} answers."
        )
    places: dict[Hashable, list[int]] = {}
    for index, domain in enumerate(domains):
        places.setdefault(domain, []).append(index)
    return [np.array(numbers, dtype=np.intp) for numbers in places.values()]


MEASURES = {
    "brier": "Brier",
    "ece": "ECE",
    "ada_ece": "AdaECE",
    "auroc": "AUROC",
    "auroc_within": "AUROC within domains",
    "accuracy": "Accuracy",
    "mean_confidence": "Mean confidence",
}
"""Titles of the standard measures, in the order of reports."""

OF_BOTH_KINDS = ("auroc", "auroc_within")
"""Measures that compare right answers with wrong ones."""

OF_BINS = ("ece", "ada_ece")
"""Calibration errors, which compare confidence and accuracy in each bin."""


def standard_measures(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, domains: Sequence[Hashable] | None = None
) -> dict[str, float]:
    """Return the standard measures of n answers, in the order of `MEASURES`; nan where undefined.

    `domains` has the domain of each answer; None stands for a single domain.
    """
    confidences, grades = graded(confidence, correct)
    area = auroc(confidences, grades)
    return {
        "brier": brier(confidences, grades),
        "ece": ece(confidences, grades),
        "ada_ece": ada_ece(confidences, grades),
        "auroc": area,
        "auroc_within": area if domains is None else auroc_within(confidences, grades, domains),
        "accuracy": float(np.mean(grades)) if grades.size else math.nan,
        "mean_confidence": float(np.mean(confidences)) if confidences.size else math.nan,
    }


def rarer_kind(correct: npt.ArrayLike) -> int:
    """Return the number of right or of wrong answers, whichever is smaller."""
    grades = np.asarray(correct, dtype=np.float64)
    return int(min(grades.sum(), grades.size - grades.sum()))


def running_mean(values: npt.ArrayLike, window: int) -> npt.NDArray[np.float64]:
    """Return running means: each value averaged with up to `window` - 1 values before it, without nan values.

    >>> running_mean([1.0, 3.0, float("nan"), 5.0], 2).tolist()
    [1.0, 2.0, 3.0, 5.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(numbers)
    sums = np.concatenate([[0.0], np.cumsum(np.where(defined, numbers, 0.0))])
    counts = np.concatenate([[0], np.cumsum(defined)])
    ends = np.arange(1, len(numbers) + 1)
    starts = np.maximum(ends - window, 0)
    count = (counts[ends] - counts[starts]).astype(np.float64)
    return np.asarray((sums[ends] - sums[starts]) / np.where(count > 0, count, np.nan))
