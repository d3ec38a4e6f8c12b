"""Percentile bootstrap over questions: intervals of measures.

`resampled_measures` computes the standard measures of all resamples at once, for speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
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
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, resamples: int = 1000, seed: int = 0, bins: int = 10
) -> dict[str, Vector]:
    """The standard measures, `MEASURES`, of every resample.

    Adaptive ECE keeps equal confidences in the order given, whatever the order of the draw.

    Args:
        confidence: n probabilities in [0, 1].
        correct: n grades, right or wrong.
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
    level_starts = np.flatnonzero(np.diff(confidences, prepend=-1.0))
    blocks: dict[str, list[Vector]] = {name: [] for name in MEASURES}
    # How often each question is drawn says all about a resample, and it stays sorted by confidence.
    for drawn in _draws(confidences.size, resamples, seed):
        times = _times(rank[drawn])
        blocks["brier"].append(_mean(times, gaps**2))
        blocks["ece"].append(np.abs(np.add.reduceat(times * gaps, bin_starts, axis=1)).sum(axis=1) / confidences.size)
        blocks["ada_ece"].append(_equal_mass_error(times, gaps, bins))
        # The most confident level first.
        right = np.add.reduceat(times * grades, level_starts, axis=1)[:, ::-1]
        wrong = np.add.reduceat(times * (1.0 - grades), level_starts, axis=1)[:, ::-1]
        for name, values in _areas(right, wrong).items():
            blocks[name].append(values)
        blocks["prr_50"].append(rejection_ratios(right, wrong, 0.5))
        blocks["accuracy"].append(_mean(times, grades))
        blocks["mean_confidence"].append(_mean(times, confidences))
    return {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in blocks.items()}


MEASURES = ("brier", "ece", "ada_ece", "auroc", "augrc", "prr_50", "accuracy", "mean_confidence")
"""Names of the standard measures, those that have an interval, in the order of reports: proper before binned."""


def _draws(questions: int, resamples: int, seed: int) -> Iterator[Indices]:
    """Blocks of resamples, (rows, questions) positions each, about 8 MB a block; nothing for no questions."""
    check_whole("number of resamples", resamples, least=1)
    if questions == 0:
        return
    generator = np.random.default_rng(seed)
    block = max(1, 2**20 // questions)
    for start in range(0, resamples, block):
        yield generator.integers(questions, size=(min(block, resamples - start), questions))


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


def _areas(right: Vector, wrong: Vector) -> dict[str, Vector]:
    """AUROC and AUGRC of each row by counting pairs, from counts of levels, the most confident first."""
    rights, wrongs = right.sum(axis=1), wrong.sum(axis=1)
    # A wrong answer wins against every right one of a lower confidence, and half against one of its own.
    above = np.cumsum(wrong, axis=1) - wrong / 2.0
    lost, pairs = (right * above).sum(axis=1), rights * wrongs
    areas = 1.0 - np.divide(lost, pairs, out=np.full(len(right), np.nan), where=pairs > 0)
    return {"auroc": areas, "augrc": (lost + wrongs**2 / 2.0) / (rights + wrongs) ** 2}
