"""The standard measures, and their intervals by a percentile bootstrap over questions.

`resampled_measures` computes the measures of all resamples at once, for speed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.errors import check_whole
from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc, auroc_within, members
from secl.metrics.graded import Vector, graded
from secl.metrics.probability import BINS, bin_index

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a measure would lie with another sample of questions; both ends are nan if that is undefined."""

    low: float
    high: float


LEVEL = 0.95
"""Level of every interval."""

RESAMPLES = 1000
"""Draws of a bootstrap."""


def percentile_interval(values: npt.ArrayLike) -> Interval:
    """The middle `LEVEL` of the defined values (linear quantiles); nan if fewer than half of them are defined.

    >>> percentile_interval([0.5, 0.5, float("nan")])
    Interval(low=0.5, high=0.5)
    """
    numbers = np.asarray(values, dtype=np.float64)
    defined = numbers[~np.isnan(numbers)]
    if defined.size == 0 or 2 * defined.size < numbers.size:
        return Interval(math.nan, math.nan)
    low, high = np.quantile(defined, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(low), float(high))


MEASURES = {
    "brier": "Brier",
    "ece": "ECE",
    "ada_ece": "AdaECE",
    "auroc": "AUROC",
    "auroc_within": "AUROC within domains",
    "accuracy": "Accuracy",
    "mean_confidence": "Mean confidence",
}
"""The standard measures, those that have an interval, and what people call them, in the order of reports: proper before
binned."""

OF_BOTH_KINDS = ("auroc", "auroc_within")
"""Measures that compare right answers with wrong ones."""

OF_BINS = ("ece", "ada_ece")
"""Calibration errors, which compare the answers of a bin."""

FEWEST_OF_A_KIND = 5
"""Right answers, and wrong ones, below which these have no interval: resamples of one answer say nothing of others."""


def intervals(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """95% intervals of all measures but calibration errors (`error_interval`); arguments as in `resampled_measures`.

    >>> intervals([0.9, 0.2, 0.6], [1, 0, 1], resamples=4)["auroc"]
    Interval(low=nan, high=nan)
    """
    values = resampled_measures(confidence, correct, domains=domains, resamples=resamples, errors=False)
    spans = {name: percentile_interval(each) for name, each in values.items()}
    if fewer_of_a_kind(correct) < FEWEST_OF_A_KIND:
        spans |= dict.fromkeys(OF_BOTH_KINDS, Interval(math.nan, math.nan))
    return spans


def standard_measures(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, domains: Sequence[Hashable] | None = None
) -> dict[str, float]:
    """The standard measures of n answers, in the order of `MEASURES`; nan where undefined.

    `domains` has the domain of each answer; None if they are all from one.
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


def fewer_of_a_kind(correct: npt.ArrayLike) -> int:
    """Right answers or wrong ones, whichever are fewer."""
    grades = np.asarray(correct, dtype=np.float64)
    return int(min(grades.sum(), grades.size - grades.sum()))


def resampled_measures(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    errors: bool = True,
) -> dict[str, Vector]:
    """The standard measures, `MEASURES`, of every resample.

    Adaptive ECE keeps equal confidences in the order given, whatever the order of the draw. Many answers have fewer
    resamples, so that the work on them does not grow: theirs differ less.

    Args:
        confidence, correct, domains: as for `standard_measures`.
        resamples: number of draws, at least 1; at most `DRAWN` / n of them are made, and `FEWEST_RESAMPLES` at least.
        errors: False leaves out the calibration errors, `OF_BINS`.

    Returns:
        One vector with a value for each resample per measure, under its name; empty vectors for n = 0.

    >>> values = resampled_measures([0.9, 0.2, 0.6], [1, 0, 1], resamples=4)
    >>> values["ece"].shape
    (4,)
    """
    check_whole("number of resamples", resamples, least=1)
    confidences, grades = graded(confidence, correct)
    order = np.argsort(confidences, kind="stable")
    places, confidences, grades = np.argsort(order), confidences[order], grades[order]
    count, gaps = order.size, grades - confidences
    parts = [] if domains is None else [np.sort(places[each]) for each in members(domains, count)]
    bin_starts = np.flatnonzero(np.diff(bin_index(confidences), prepend=-1))
    blocks: dict[str, list[Vector]] = {name: [] for name in MEASURES if errors or name not in OF_BINS}
    # How often each answer is drawn says all about a resample, and it stays sorted by confidence.
    for times in _draws(places, resamples):
        blocks["brier"].append(_mean(times, gaps**2))
        if errors:
            sums = times * gaps
            blocks["ece"].append(np.abs(np.add.reduceat(sums, bin_starts, axis=1)).sum(axis=1) / count)
            blocks["ada_ece"].append(_equal_mass_error(times, sums) / count)
        lost, pairs = _lost_pairs(*_levels(times, confidences, grades))
        blocks["auroc"].append(_won(lost, pairs))
        if len(parts) > 1:
            within = [_lost_pairs(*_levels(times[:, part], confidences[part], grades[part])) for part in parts]
            lost, pairs = np.sum(within, axis=0)
        blocks["auroc_within"].append(_won(lost, pairs))
        blocks["accuracy"].append(_mean(times, grades))
        blocks["mean_confidence"].append(_mean(times, confidences))
    return {name: np.concatenate(values) if values else np.empty(0) for name, values in blocks.items()}


BLOCK = 2**17
"""Resamples times answers of a block: so few stay in a processor's cache from one step to the next."""

DRAWN, FEWEST_RESAMPLES = 2_000_000, 100
"""Answers that are drawn in all, and resamples that are made at least: a thousand of them up to 2,000 answers."""


def _draws(places: Indices, resamples: int) -> Iterator[Vector]:
    """Blocks of resamples: how often the answer at each place is drawn, (rows, n); nothing for no answers.

    Answers are drawn by their number and not by their place, so that every confidence of them has the same draws.
    """
    count = places.size
    if count == 0:
        return
    generator = np.random.default_rng(0)
    resamples = min(resamples, max(FEWEST_RESAMPLES, DRAWN // count))
    most = max(1, BLOCK // count)
    for start in range(0, resamples, most):
        rows = min(most, resamples - start)
        drawn = places[generator.integers(count, size=(rows, count))]
        # One count for all rows: each row has a range of places of its own.
        flat = drawn + count * np.arange(rows)[:, None]
        yield np.bincount(flat.ravel(), minlength=rows * count).astype(np.float64).reshape(rows, count)


def _mean(times: Vector, values: Vector) -> Vector:
    """The mean of the values in each resample."""
    # Not a matrix product: the last digits of one can depend on the number of threads.
    return np.asarray(np.einsum("ij,j->i", times, values) / values.size)


def _equal_mass_error(times: Vector, sums: Vector) -> Vector:
    """Adaptive ECE of each resample, times its answers.

    Args:
        times: how often each answer is drawn, (rows, n), the least confident first.
        sums: grade - confidence of each answer, as often as it is drawn.
    """
    rows, count = times.shape
    runs = min(BINS, count)
    size, longer = divmod(count, runs)
    # The first `longer` runs have one answer more, as numpy.array_split cuts.
    cuts = np.arange(1, runs) * size + np.minimum(np.arange(1, runs), longer)
    drawn, total = np.cumsum(times, axis=1), np.cumsum(sums, axis=1)
    # The answer that a cut goes through: one search in all rows, each above the one before.
    offset = count * np.arange(rows)[:, None]
    at = np.searchsorted((drawn + offset).ravel(), cuts + offset) - offset
    of_answer, mass = np.take_along_axis(sums, at, axis=1), np.take_along_axis(times, at, axis=1)
    beyond = np.take_along_axis(drawn, at, axis=1) - cuts
    until = np.take_along_axis(total, at, axis=1) - beyond * (of_answer / mass)
    return np.asarray(np.abs(np.diff(until, axis=1, prepend=0.0, append=total[:, -1:])).sum(axis=1))


def _levels(times: Vector, confidences: Vector, grades: Vector) -> tuple[Vector, Vector]:
    """Row by row, right and wrong answers of each distinct confidence, the highest first; columns are sorted by it."""
    right, starts = times * grades, np.flatnonzero(np.diff(confidences, prepend=-1.0))
    if starts.size < confidences.size:
        right, times = (np.add.reduceat(each, starts, axis=1) for each in (right, times))
    return right[:, ::-1], (times - right)[:, ::-1]


def _lost_pairs(right: Vector, wrong: Vector) -> tuple[Vector, Vector]:
    """Row by row: pairs of a right and a wrong answer that the wrong one wins, and all of them."""
    rights, wrongs = right.sum(axis=1), wrong.sum(axis=1)
    # A wrong answer wins against every right one of a lower confidence, and half against one of its own.
    above = np.cumsum(wrong, axis=1) - wrong / 2.0
    return (right * above).sum(axis=1), rights * wrongs


def _won(lost: Vector, pairs: Vector) -> Vector:
    """AUROC: the share of pairs that the right answer wins; nan without pairs."""
    return np.asarray(1.0 - np.divide(lost, pairs, out=np.full(lost.size, np.nan), where=pairs > 0))
