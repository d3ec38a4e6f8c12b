"""Percentile bootstrap over questions: intervals of measures.

`resampled_measures` computes the standard measures of all resamples at once, for speed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.discrimination import members
from secl.metrics.graded import Vector, graded
from secl.metrics.probability import bin_index
from secl.metrics.selective import rejection_ratios
from secl.validation import check_whole

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
    confidences, grades = graded(confidence, correct)
    order = np.argsort(confidences, kind="stable")
    confidences, grades = confidences[order], grades[order]
    rank, gaps = np.argsort(order), grades - confidences
    bin_starts = np.flatnonzero(np.diff(bin_index(confidences, bins), prepend=-1))
    parts = [] if domains is None else [np.sort(rank[places]) for places in members(domains, confidences.size)]
    blocks: dict[str, list[Vector]] = {name: [] for name in MEASURES}
    # How often each question is drawn says all about a resample, and it stays sorted by confidence.
    for drawn in _draws(confidences.size, resamples, seed):
        times = _times(rank[drawn])
        blocks["brier"].append(_mean(times, gaps**2))
        blocks["ece"].append(np.abs(np.add.reduceat(times * gaps, bin_starts, axis=1)).sum(axis=1) / confidences.size)
        blocks["ada_ece"].append(_equal_mass_error(times, gaps, bins))
        right, wrong = _levels(times, confidences, grades)
        lost, pairs, wrongs = _lost_pairs(right, wrong)
        blocks["auroc"].append(_won(lost, pairs))
        within = [_lost_pairs(*_levels(times[:, part], confidences[part], grades[part])) for part in parts]
        sums = np.sum(within, axis=0) if len(within) > 1 else (lost, pairs)
        blocks["auroc_within"].append(_won(sums[0], sums[1]))
        blocks["augrc"].append((lost + wrongs**2 / 2.0) / confidences.size**2)
        blocks["prr_50"].append(rejection_ratios(right, wrong, 0.5))
        blocks["accuracy"].append(_mean(times, grades))
        blocks["mean_confidence"].append(_mean(times, confidences))
    return {name: np.concatenate(values) if values else np.empty(0) for name, values in blocks.items()}


MEASURES = ("brier", "ece", "ada_ece", "auroc", "auroc_within", "augrc", "prr_50", "accuracy", "mean_confidence")
"""Names of the standard measures, those that have an interval, in the order of reports: proper before binned."""


CELLS = 2**17
"""Rows times questions of a block: so few stay in a processor's cache from one step to the next."""


def _draws(questions: int, resamples: int, seed: int) -> Iterator[Indices]:
    """Blocks of resamples, (rows, questions) positions each, drawn 8 MB at a time; nothing for no questions."""
    check_whole("number of resamples", resamples, least=1)
    if questions == 0:
        return
    generator = np.random.default_rng(seed)
    block = max(1, 2**20 // questions)
    for start in range(0, resamples, block):
        drawn = generator.integers(questions, size=(min(block, resamples - start), questions))
        few = max(1, CELLS // questions)
        yield from (drawn[row : row + few] for row in range(0, len(drawn), few))


def _times(drawn: Indices) -> Vector:
    """How often each position is drawn in each row: (rows, n) positions below n to (rows, n) counts."""
    rows, questions = drawn.shape
    # One count for all rows: each row has a range of cells of its own.
    flat = drawn + questions * np.arange(rows)[:, None]
    return np.bincount(flat.ravel(), minlength=drawn.size).astype(np.float64).reshape(drawn.shape)


def _mean(times: Vector, values: Vector) -> Vector:
    """The mean of the values in each resample."""
    # Not a matrix product: the last digits of one can depend on the number of threads.
    return np.asarray(np.einsum("ij,j->i", times, values) / values.size)


def _equal_mass_error(times: Vector, gaps: Vector, bins: int) -> Vector:
    """Adaptive ECE of each resample of (grade - confidence), sorted by confidence."""
    rows, questions = times.shape
    runs = min(bins, questions)
    size, longer = divmod(questions, runs)
    # The first `longer` runs have one answer more, as numpy.array_split cuts.
    cuts = np.arange(1, runs) * size + np.minimum(np.arange(1, runs), longer)
    drawn, sums = np.cumsum(times, axis=1), np.cumsum(times * gaps, axis=1)
    # The question at whose repetitions a cut falls: one search in all rows, each above the one before.
    offset = questions * np.arange(rows)[:, None]
    flat = np.searchsorted((drawn + offset).ravel(), cuts + offset)
    at = flat - offset
    beyond = np.take_along_axis(drawn, at, axis=1) - cuts
    until = np.take_along_axis(sums, at, axis=1) - beyond * gaps[at]
    return np.asarray(np.abs(np.diff(until, axis=1, prepend=0.0, append=sums[:, -1:])).sum(axis=1) / questions)


def _levels(times: Vector, confidences: Vector, grades: Vector) -> tuple[Vector, Vector]:
    """Row by row, right and wrong answers of each distinct confidence, the highest first; columns are sorted by it."""
    right, starts = times * grades, np.flatnonzero(np.diff(confidences, prepend=-1.0))
    if starts.size < confidences.size:
        right, times = (np.add.reduceat(each, starts, axis=1) for each in (right, times))
    return right[:, ::-1], (times - right)[:, ::-1]


def _lost_pairs(right: Vector, wrong: Vector) -> tuple[Vector, Vector, Vector]:
    """Row by row: pairs of a right and a wrong answer that the wrong one wins, all of them, and wrong answers."""
    rights, wrongs = right.sum(axis=1), wrong.sum(axis=1)
    # A wrong answer wins against every right one of a lower confidence, and half against one of its own.
    above = np.cumsum(wrong, axis=1) - wrong / 2.0
    return (right * above).sum(axis=1), rights * wrongs, wrongs


def _won(lost: Vector, pairs: Vector) -> Vector:
    """AUROC: the share of pairs that the right answer wins; nan without pairs."""
    return np.asarray(1.0 - np.divide(lost, pairs, out=np.full(lost.size, np.nan), where=pairs > 0))
