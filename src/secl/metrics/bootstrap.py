"""Percentile bootstrap over questions: intervals of measures.

`resampled_measures` computes the standard measures of all resamples at once, for speed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError, check_whole
from secl.metrics.discrimination import members
from secl.metrics.graded import Vector, graded
from secl.metrics.probability import bin_index
from secl.metrics.selective import rejection_ratios

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a measure would lie with another sample of questions; both ends are nan if that is undefined."""

    low: float
    high: float


def percentile_interval(values: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The middle `level` of the defined values (linear quantiles); nan if fewer than half of them are defined.

    Raises:
        ParameterError: a level outside (0, 1).

    >>> percentile_interval([0.0, 1.0, 2.0, 3.0, 4.0], level=0.5)
    Interval(low=1.0, high=3.0)
    """
    if not 0.0 < level < 1.0:
        raise ParameterError(f"the level of an interval must lie between 0 and 1, not {level}.")
    numbers = np.asarray(values, dtype=np.float64)
    defined = numbers[~np.isnan(numbers)]
    if defined.size == 0 or 2 * defined.size < numbers.size:
        return Interval(math.nan, math.nan)
    low, high = np.quantile(defined, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high))


OF_BOTH_KINDS = ("auroc", "auroc_within", "prr_50")
"""Measures that compare right answers with wrong ones."""

FEWEST_OF_A_KIND = 5
"""Right answers, and wrong ones, below which these have no interval: resamples of one answer say nothing of others."""


def intervals(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """95% intervals of the standard measures; arguments are those of `resampled_measures`.

    >>> intervals([0.9, 0.2, 0.6], [1, 0, 1], resamples=4)["auroc"]
    Interval(low=nan, high=nan)
    """
    values = resampled_measures(confidence, correct, domains=domains, resamples=resamples, seed=seed)
    found = {name: percentile_interval(values[name]) for name in MEASURES}
    if fewer_of_a_kind(correct) < FEWEST_OF_A_KIND:
        found |= dict.fromkeys(OF_BOTH_KINDS, Interval(math.nan, math.nan))
    return found


def fewer_of_a_kind(correct: npt.ArrayLike) -> int:
    """Right answers or wrong ones, whichever are fewer."""
    grades = np.asarray(correct, dtype=np.float64)
    return int(min(grades.sum(), grades.size - grades.sum()))


def resampled_measures(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    bins: int = 10,
) -> dict[str, Vector]:
    """The standard measures, `MEASURES`, of every resample.

    Adaptive ECE keeps equal confidences in the order given, whatever the order of the draw.

    Args:
        confidence: n probabilities in [0, 1].
        correct: n grades, right or wrong.
        domains: the domain of each answer; None if they are all from one.
        resamples: number of draws, at least 1.
        seed: seed of numpy's default generator.
        bins: number of bins of both calibration errors.

    Returns:
        One vector of length `resamples` per measure, under its name; empty vectors for n = 0.

    Raises:
        ParameterError: arguments that `graded` refuses, or a number out of range.

    >>> values = resampled_measures([0.9, 0.2, 0.6], [1, 0, 1], resamples=4)
    >>> values["ece"].shape
    (4,)
    """
    cells = _cells(*graded(confidence, correct), domains, bins)
    count, gaps = cells.of.size, cells.grade - cells.confidence
    blocks: dict[str, list[Vector]] = {name: [] for name in MEASURES}
    # How often each cell is drawn says all about a resample, and it stays sorted by confidence.
    for times in _draws(cells, resamples, seed):
        blocks["brier"].append(_mean(times, gaps**2, count))
        blocks["ece"].append(np.abs(np.add.reduceat(times * gaps, cells.bin_starts, axis=1)).sum(axis=1) / count)
        drawn, sums = (_summed(each, cells.cut_starts) for each in (times, times * gaps))
        blocks["ada_ece"].append(_equal_mass_error(drawn, sums, bins) / count)
        right, wrong = _levels(times, cells.confidence, cells.grade)
        lost, pairs = _lost_pairs(right, wrong)
        blocks["auroc"].append(_won(lost, pairs))
        within = [
            _lost_pairs(*_levels(times[:, part], cells.confidence[part], cells.grade[part])) for part in cells.parts
        ]
        sums_within = np.sum(within, axis=0) if len(within) > 1 else (lost, pairs)
        blocks["auroc_within"].append(_won(sums_within[0], sums_within[1]))
        blocks["prr_50"].append(rejection_ratios(right, wrong, 0.5))
        blocks["accuracy"].append(_mean(times, cells.grade, count))
        blocks["mean_confidence"].append(_mean(times, cells.confidence, count))
    return {name: np.concatenate(values) if values else np.empty(0) for name, values in blocks.items()}


MEASURES = ("brier", "ece", "ada_ece", "auroc", "auroc_within", "prr_50", "accuracy", "mean_confidence")
"""Names of the standard measures, those that have an interval, in the order of reports: proper before binned."""


BLOCK = 2**17
"""Rows times cells of a block: so few stay in a processor's cache from one step to the next."""

EACH = 2000
"""Answers up to which each is a cell of its own, so that its resamples are exact."""

BUCKETS = 500
"""Buckets of more answers, at least; pairs in one of them count half for AUROC, 1 of 500, as if they were ties."""


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Answers of one grade, one domain and one confidence, nearly; sorted by confidence.

    Attributes:
        of: the cell of each answer.
        confidence, grade: of each cell.
        bin_starts: the first cell of each bin with answers.
        cut_starts: the first cell of each group that a cut between bins of equal mass goes through as a whole.
        parts: the cells of each domain; empty where domains do not matter.
    """

    of: Indices
    confidence: Vector
    grade: Vector
    bin_starts: Indices
    cut_starts: Indices
    parts: list[Indices]


def _cells(confidences: Vector, grades: Vector, domains: Sequence[Hashable] | None, bins: int) -> _Cells:
    """Answers in cells: each by itself up to `EACH` of them, else by buckets of confidence of about equal mass.

    So the work on a resample does not grow with the answers. A cell has the mean confidence of its bucket. No bucket
    crosses the border of a bin, and equal confidences are in one bucket.
    """
    order = np.argsort(confidences, kind="stable")
    of, confidences, grades = np.argsort(order), confidences[order], grades[order]
    domain, count = np.zeros(order.size, dtype=np.intp), 1
    if domains is not None:
        found = members(domains, order.size)
        count = max(1, len(found))
        for number, places in enumerate(found):
            domain[of[places]] = number
    index = bin_index(confidences, bins)
    cut_starts = np.arange(order.size)
    if order.size > EACH:
        first_equal = np.searchsorted(confidences, confidences)
        bucket = _runs(first_equal * BUCKETS // order.size * bins + index)
        starts = np.flatnonzero(np.diff(bucket, prepend=-1))
        means = np.add.reduceat(confidences, starts) / np.diff(starts, append=order.size)
        # Rounding must not carry a mean out of its bucket.
        means = np.clip(means, confidences[starts], np.maximum.reduceat(confidences, starts))
        _, first, cell = np.unique(
            (bucket * count + domain) * 2 + grades.astype(np.intp), return_index=True, return_inverse=True
        )
        of = cell[of]
        bucket, grades, index, domain = bucket[first], grades[first], index[first], domain[first]
        confidences, cut_starts = means[bucket], np.flatnonzero(np.diff(bucket, prepend=-1))
    parts = [] if domains is None else [np.flatnonzero(domain == number) for number in range(count)]
    return _Cells(of, confidences, grades, np.flatnonzero(np.diff(index, prepend=-1)), cut_starts, parts)


def _runs(values: Indices) -> Indices:
    """The number of the run of equal values that each belongs to, from 0."""
    return np.cumsum(np.diff(values, prepend=-1) != 0) - 1


def _draws(cells: _Cells, resamples: int, seed: int) -> Iterator[Vector]:
    """Blocks of resamples: how often each cell is drawn, (rows, cells); nothing for no questions.

    Questions are drawn whatever the cells are, so the same seed draws the same questions for every confidence.
    """
    check_whole("number of resamples", resamples, least=1)
    questions, size = cells.of.size, cells.confidence.size
    if questions == 0:
        return
    generator = np.random.default_rng(seed)
    few, at_once = max(1, BLOCK // size), max(1, 2**20 // questions)  # 8 MB of positions at once
    for start in range(0, resamples, few):
        rows = min(few, resamples - start)
        sizes = (min(at_once, rows - done) for done in range(0, rows, at_once))
        yield np.concatenate(
            [_times(cells.of[generator.integers(questions, size=(n, questions))], size) for n in sizes]
        )


def _times(drawn: Indices, cells: int) -> Vector:
    """How often each cell is drawn in each row: (rows, n) cells to (rows, cells) counts."""
    rows = len(drawn)
    # One count for all rows: each row has a range of cells of its own.
    flat = drawn + cells * np.arange(rows)[:, None]
    return np.bincount(flat.ravel(), minlength=rows * cells).astype(np.float64).reshape(rows, cells)


def _mean(times: Vector, values: Vector, count: int) -> Vector:
    """The mean of the values in each resample of so many answers."""
    # Not a matrix product: the last digits of one can depend on the number of threads.
    return np.asarray(np.einsum("ij,j->i", times, values) / count)


def _summed(values: Vector, starts: Indices) -> Vector:
    """Sums over runs of columns, which begin at `starts`."""
    return values if starts.size == values.shape[1] else np.add.reduceat(values, starts, axis=1)


def _equal_mass_error(times: Vector, sums: Vector, bins: int) -> Vector:
    """Adaptive ECE of each resample, times its answers.

    Args:
        times: how often each group of answers is drawn, (rows, groups), the least confident first.
        sums: of (grade - confidence) over what is drawn of each.
        bins: number of bins of equal mass.
    """
    rows, groups = times.shape
    questions = round(times[0].sum())
    runs = min(bins, questions)
    size, longer = divmod(questions, runs)
    # The first `longer` runs have one answer more, as numpy.array_split cuts.
    cuts = np.arange(1, runs) * size + np.minimum(np.arange(1, runs), longer)
    drawn, total = np.cumsum(times, axis=1), np.cumsum(sums, axis=1)
    # The group that a cut goes through: one search in all rows, each above the one before.
    offset = questions * np.arange(rows)[:, None]
    at = np.searchsorted((drawn + offset).ravel(), cuts + offset) - groups * np.arange(rows)[:, None]
    of_group, mass = np.take_along_axis(sums, at, axis=1), np.take_along_axis(times, at, axis=1)
    beyond = np.take_along_axis(drawn, at, axis=1) - cuts
    until = np.take_along_axis(total, at, axis=1) - beyond * (of_group / mass)
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
