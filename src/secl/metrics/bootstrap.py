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
    """ECE, adaptive ECE, Brier, AUROC, accuracy and mean confidence of every resample.

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
    >>> sorted(values), values["ece"].shape
    (['accuracy', 'ada_ece', 'auroc', 'brier', 'ece', 'mean_confidence'], (4,))
    """
    confidences, grades = graded(confidence, correct)
    order = np.argsort(confidences, kind="stable")
    confidences, grades = confidences[order], grades[order]
    index = bin_index(confidences, bins)
    groups = np.unique(confidences, return_inverse=True)[1]
    gaps = grades - confidences
    blocks: dict[str, list[Vector]] = {name: [] for name in MEASURES}
    for drawn in _draws(confidences.size, resamples, seed):
        # Positions in sorted order: the draw as a bag is what counts, and sorted rows are sorted by confidence.
        rows = np.sort(np.argsort(order)[drawn], axis=1)
        gap, grade = gaps[rows], grades[rows]
        blocks["ece"].append(np.abs(_per_cell(index[rows], gap, bins)).sum(axis=1) / rows.shape[1])
        blocks["ada_ece"].append(_equal_mass_error(gap, bins))
        blocks["brier"].append((gap**2).mean(axis=1))
        blocks["auroc"].append(_rank_auroc(groups[rows], grade))
        blocks["accuracy"].append(grade.mean(axis=1))
        blocks["mean_confidence"].append(confidences[rows].mean(axis=1))
    return {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in blocks.items()}


MEASURES = ("ece", "ada_ece", "brier", "auroc", "accuracy", "mean_confidence")
"""Names of the standard measures, in the order of reports."""


def _draws(questions: int, resamples: int, seed: int) -> Iterator[Indices]:
    """Blocks of resamples, (rows, questions) positions each, about 8 MB a block; nothing for no questions."""
    check_whole("number of resamples", resamples, least=1)
    if questions == 0:
        return
    generator = np.random.default_rng(seed)
    block = max(1, 2**20 // questions)
    for start in range(0, resamples, block):
        yield generator.integers(questions, size=(min(block, resamples - start), questions))


def _per_cell(cells: npt.NDArray[np.intp], weights: Vector, width: int) -> Vector:
    """Row by row, the sum of the weights in each of `width` cells: (rows, n) and (rows, n) to (rows, width)."""
    # One count for all rows: each row has a range of cells of its own.
    flat = cells + width * np.arange(len(cells))[:, None]
    sums = np.bincount(flat.ravel(), weights=weights.ravel(), minlength=width * len(cells))
    return sums.astype(np.float64, copy=False).reshape(len(cells), width)


def _equal_mass_error(gap: Vector, bins: int) -> Vector:
    """Adaptive ECE of each row of (grade - confidence), the columns being sorted by confidence."""
    questions = gap.shape[1]
    runs = min(bins, questions)
    size, longer = divmod(questions, runs)
    # The first `longer` runs have one answer more, as numpy.array_split cuts.
    starts = np.arange(runs) * size + np.minimum(np.arange(runs), longer)
    return np.asarray(np.abs(np.add.reduceat(gap, starts, axis=1)).sum(axis=1) / questions)


def _rank_auroc(groups: npt.NDArray[np.intp], grade: Vector) -> Vector:
    """AUROC of each row by counting pairs; `groups` numbers the distinct confidences from the lowest."""
    width = int(groups.max()) + 1
    right = _per_cell(groups, grade, width)
    wrong = _per_cell(groups, 1.0 - grade, width)
    # A right answer wins against every wrong one of a lower confidence, and half against one of its own.
    below = np.cumsum(wrong, axis=1) - wrong
    won = (right * (below + wrong / 2.0)).sum(axis=1)
    pairs = right.sum(axis=1) * wrong.sum(axis=1)
    areas: Vector = np.divide(won, pairs, out=np.full(len(groups), np.nan), where=pairs > 0)
    return areas
