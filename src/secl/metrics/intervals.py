"""95% intervals of the standard measures, and of their differences between two confidences.

| measure | interval |
|---|---|
| accuracy | Wilson |
| Brier score | normal, with four added answers (`mean_interval`) |
| ECE, adaptive ECE | worlds that agree with the observed error (`ece_interval`) |
| AUROC, mean confidence | bootstrap over questions |

Resamples of a sample without a wrong answer contain no wrong answer, so the bootstrap does not serve for accuracy and
Brier score. A calibration error adds up the gaps of its bins in absolute value, so few answers bias the error upwards.
Resamples add the same bias again, and percentiles of resamples lie above the truth.

Both confidences of a difference are measured on the same questions, so the difficulty of the questions cancels out.

Answers of one unit, such as the fields of a document or the facts of a text, may be right or wrong together. With
`units`, resamples draw whole units, and the other intervals take n answers for n / `design_effect` independent answers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError, check_whole
from secl.metrics.measures import MEASURES, OF_BINS, OF_BOTH_KINDS, Z, members, rarer_kind, standard_measures, wilson
from secl.metrics.probability import BINS, Vector, bin_index, graded

Indices = npt.NDArray[np.int64]

LEVEL = 0.95
"""Level of every interval."""

RESAMPLED = (*OF_BINS, *OF_BOTH_KINDS, "mean_confidence")
"""Measures that `resampled_measures` computes."""

RESAMPLES = 1000
"""Default number of resamples of a bootstrap."""

FEWEST_OF_A_KIND = 5
"""Minimum number of right, and of wrong, answers for intervals of measures that compare them (`OF_BOTH_KINDS`)."""

FEWEST_COMPARED = 20
"""Minimum number of questions for an interval of a difference."""

ADDED = 4.0
"""Answers that `mean_interval` adds to the sample for its standard error, half of them right."""

UNIT_PRIOR = 2.0
"""Weight, in units, of the prior of `design_effect` that answers of one unit are alike."""

ROUNDING = 1e-12
"""Largest difference that may come from rounding errors in sums."""

BLOCK_SIZE = 2**17
"""Maximum number of resamples times answers in a block, which then fits a processor's cache."""

MOST_DRAWN, FEWEST_RESAMPLES = 2_000_000, 100
"""Maximum number of resamples times answers; with more answers, secl still draws `FEWEST_RESAMPLES` resamples."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Range of a measure over samples of questions; both ends are nan if undefined."""

    low: float
    high: float


UNDEFINED = Interval(math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of two confidences, a and b, over the same questions, with an interval of b - a; nan if undefined."""

    a: float
    b: float
    interval: Interval

    @property
    def difference(self) -> float:
        """b - a."""
        return self.b - self.a

    @property
    def rises(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.interval.low > ROUNDING

    @property
    def falls(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.interval.high < -ROUNDING


def design_effect(values: npt.ArrayLike, units: Sequence[Hashable] | None) -> float:
    """Return how many times the variance of a mean is larger than that of independent answers (Kish 1965), at least 1.

    The variance between units has a prior: answers of one unit that are all alike, with the weight of `UNIT_PRIOR`
    units.

    Args:
        values: value of each answer, such as its grade.
        units: the unit of each answer; None if each answer is a unit.

    >>> design_effect([1, 0, 1, 0], None), design_effect([1, 1, 0, 0], ["a", "a", "b", "b"])
    (1.0, 2.0)
    """
    left = np.asarray(values, dtype=np.float64)
    numbers, count = _number(units, left.size)
    if count == left.size:
        return 1.0
    most = float((np.bincount(numbers) ** 2).sum() / left.size)
    left = left - left.mean()
    squares = float((left**2).sum())
    if count < 2 or squares <= 0.0:
        return most
    found = count / (count - 1) * float((np.bincount(numbers, left) ** 2).sum()) / squares
    return max(1.0, (count * min(found, most) + UNIT_PRIOR * most) / (count + UNIT_PRIOR))


def _number(units: Sequence[Hashable] | None, count: int) -> tuple[Indices, int]:
    """Return the number of each answer's unit, and how many units there are."""
    if units is None:
        return np.arange(count), count
    if len(units) != count:
        raise ParameterError(f"units has {len(units)} entries; it needs one for each of the {count} answers.")
    of_unit: dict[Hashable, int] = {}
    numbers = np.array([of_unit.setdefault(unit, len(of_unit)) for unit in units], np.intp)
    return numbers, len(of_unit)


def percentile_interval(values: npt.ArrayLike) -> Interval:
    """Return the middle `LEVEL` of the defined values (linear quantiles); nan if fewer than half are defined."""
    numbers = np.asarray(values, dtype=np.float64)
    defined = numbers[~np.isnan(numbers)]
    if defined.size == 0 or 2 * defined.size < numbers.size:
        return UNDEFINED
    low, high = np.quantile(defined, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(low), float(high))


def symmetric_interval(estimate: float, resampled: npt.ArrayLike) -> Interval:
    """Return the estimate plus and minus the distance to the farther end of the percentile interval of resamples.

    The ECE of few answers is biased upwards, more so with more bins, and the ECE of a resample is biased even more. A
    percentile interval of a difference can therefore miss the true value. We simulated 200 questions with one narrowly
    and one widely spread confidence. Of the percentile intervals, 20 % covered the true difference; of the symmetric
    intervals, 80 to 90 %.

    >>> symmetric_interval(9.0, range(41))
    Interval(low=-21.0, high=39.0)
    """
    spread = percentile_interval(resampled)
    reach = max(abs(spread.low - estimate), abs(spread.high - estimate))
    return Interval(estimate - reach, estimate + reach)


def intervals(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    units: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """Return 95% intervals of all measures except calibration errors (`ece_interval`).

    Args:
        confidence, correct: of each answer.
        domains: the domain of each answer, for the AUROC inside domains.
        units: the unit of each answer, such as its document; None if each answer is a unit.
        resamples: number of resamples of the bootstrap.
    """
    confidences, grades = graded(confidence, correct)
    resampled = resampled_measures(confidences, grades, domains=domains, units=units, resamples=resamples, errors=False)
    undefined = [*OF_BOTH_KINDS] if rarer_kind(grades) < FEWEST_OF_A_KIND else []
    if len({*(range(grades.size) if units is None else units)}) == 1:  # all resamples would be equal
        undefined.append("mean_confidence")
    spans = {name: percentile_interval(values) for name, values in resampled.items()}
    spans |= dict.fromkeys((*undefined, "brier", "accuracy"), UNDEFINED)
    if grades.size:
        losses = (confidences - grades) ** 2
        spans["brier"] = mean_interval(losses, (confidences**2, (1.0 - confidences) ** 2), units=units)
        spans["accuracy"] = Interval(*wilson(float(grades.mean()), grades.size / design_effect(grades, units)))
    return spans


def mean_interval(
    values: Vector, others: Sequence[Vector], least: float = 0.0, units: Sequence[Hashable] | None = None
) -> Interval:
    """Return the 95% interval of a mean: 1.96 standard errors on each side, clipped to [`least`, 1].

    The standard error counts `ADDED` more answers, so that a sample without a wrong answer still allows for wrong ones
    (as the interval of Agresti and Coull 1998 does for a share).

    Args:
        values: value of each answer, such as its squared error; not empty.
        others: for each possible grade, the value that each answer would have; each has the same part of `ADDED`.
        least: lowest possible mean.
        units: the unit of each answer; None if each answer is a unit.
    """
    count, added = values.size, ADDED / len(others)
    total, squares = values.sum(), (values**2).sum()
    for each in others:
        total, squares = total + added * each.mean(), squares + added * (each**2).mean()
    n = count + ADDED
    half = Z * math.sqrt(max(0.0, squares / n - (total / n) ** 2) / n * design_effect(values, units))
    mean = float(values.mean())
    return Interval(max(least, mean - half), min(1.0, mean + half))


def paired_differences(
    a: npt.ArrayLike,
    correct_a: npt.ArrayLike,
    b: npt.ArrayLike,
    correct_b: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    units: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> dict[str, Difference]:
    """Return the differences of all standard measures between two confidences of the same n questions.

    Question i is item i of all lists; the answers, and so the grades, may differ. Intervals are clipped to [-1, 1].
    Intervals are nan below `FEWEST_COMPARED` questions. The intervals of both AUROC measures are also nan if either
    confidence has fewer than `FEWEST_OF_A_KIND` right or wrong answers.
    """
    sides = graded(a, correct_a), graded(b, correct_b)
    sizes = [confidences.size for confidences, _ in sides]
    if sizes[0] != sizes[1]:
        raise ParameterError(
            f"a paired comparison needs the same questions on both sides, not {sizes[0]} and {sizes[1]}."
        )
    # The draw depends on n and resamples alone, so both sides get the same questions.
    how: dict[str, Any] = {"domains": domains, "units": units, "resamples": resamples}
    drawn_a, drawn_b = (resampled_measures(*side, **how) for side in sides)
    of_a, of_b = (standard_measures(*side, domains) for side in sides)
    rarer = min(rarer_kind(grades) for _, grades in sides)
    spans = dict.fromkeys(MEASURES, UNDEFINED)
    if sizes[0] >= FEWEST_COMPARED:
        spans = {name: symmetric_interval(of_b[name] - of_a[name], drawn_b[name] - drawn_a[name]) for name in drawn_a}
        spans |= _mean_differences(*sides, units)
        if rarer < FEWEST_OF_A_KIND:
            spans |= dict.fromkeys(OF_BOTH_KINDS, UNDEFINED)
    differences = {}
    for name in MEASURES:
        low, high = np.clip([spans[name].low, spans[name].high], -1.0, 1.0).tolist()
        differences[name] = Difference(of_a[name], of_b[name], Interval(low, high))
    return differences


def _mean_differences(
    a: tuple[Vector, Vector], b: tuple[Vector, Vector], units: Sequence[Hashable] | None
) -> dict[str, Interval]:
    """Return intervals of the differences b - a of Brier score and accuracy, from confidences and grades."""
    (stated_a, right_a), (stated_b, right_b) = a, b
    same = bool((right_a == right_b).all())  # two confidences of the same answers, so the added grades agree, too
    cases = [(x, y) for x in (0.0, 1.0) for y in (0.0, 1.0) if x == y or not same]
    losses = (stated_b - right_b) ** 2 - (stated_a - right_a) ** 2
    of_cases = [(stated_b - y) ** 2 - (stated_a - x) ** 2 for x, y in cases]
    return {
        "brier": mean_interval(losses, of_cases, -1.0, units),
        "accuracy": mean_interval(right_b - right_a, [np.full(len(right_a), y - x) for x, y in cases], -1.0, units),
    }


def resampled_measures(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    domains: Sequence[Hashable] | None = None,
    units: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    errors: bool = True,
) -> dict[str, Vector]:
    """Return the measures `RESAMPLED` of every resample: one vector for each, empty for n = 0.

    `resamples` is limited to `MOST_DRAWN` / n or `FEWEST_RESAMPLES`, whichever is larger. Without `errors`, the result
    lacks the calibration errors (`OF_BINS`).
    """
    check_whole("number of resamples", resamples, least=1)
    confidences, grades = graded(confidence, correct)
    order = np.argsort(confidences, kind="stable")
    places, confidences, grades = np.argsort(order), confidences[order], grades[order]
    gaps, unit = grades - confidences, _number(units, order.size)
    parts = [] if domains is None else [np.sort(places[numbers]) for numbers in members(domains, order.size)]
    bin_starts = np.flatnonzero(np.diff(bin_index(confidences), prepend=-1))
    tie_starts = np.flatnonzero(np.diff(confidences, prepend=-1.0))
    blocks: dict[str, list[Vector]] = {name: [] for name in RESAMPLED if errors or name not in OF_BINS}
    # Each row of `times` is a resample: how often it has each answer, the least confident answer first.
    for times in _draws(places, *unit, resamples):
        sizes = times.sum(axis=1)
        if errors:
            sums = times * gaps
            blocks["ece"].append(np.abs(np.add.reduceat(sums, bin_starts, axis=1)).sum(axis=1) / sizes)
            drawn, summed = (np.add.reduceat(each, tie_starts, axis=1) for each in (times, sums))
            blocks["ada_ece"].append(_equal_mass_error(drawn, summed, sizes) / sizes)
        lost, pairs = _lost_pairs(times, confidences, grades)
        blocks["auroc"].append(_count_wins(lost, pairs))
        if len(parts) > 1:
            within = [_lost_pairs(times[:, part], confidences[part], grades[part]) for part in parts]
            lost, pairs = np.sum(within, axis=0)
        blocks["auroc_within"].append(_count_wins(lost, pairs))
        blocks["mean_confidence"].append(_mean(times, confidences, sizes))
    return {name: np.concatenate(values) if values else np.empty(0) for name, values in blocks.items()}


def _draws(places: Indices, unit: Indices, count: int, resamples: int) -> Iterator[Vector]:
    """Yield blocks of resamples (rows, n): the number of times that the answer of each rank is drawn.

    A resample draws `count` units; `unit` has the number of each answer's unit, and `places` its rank by confidence.
    The generator draws numbers of units, not ranks. Two confidences of the same answers, with different ranks,
    therefore have the same resamples.
    """
    if count == 0:
        return
    generator = np.random.default_rng(0)
    resamples = min(resamples, max(FEWEST_RESAMPLES, MOST_DRAWN // places.size))
    most = max(1, BLOCK_SIZE // places.size)
    by_rank = unit[np.argsort(places)]
    for start in range(0, resamples, most):
        rows = min(most, resamples - start)
        drawn = generator.integers(count, size=(rows, count))
        # With an offset for each row, no number occurs in two rows, so one call of bincount counts all rows.
        flat = drawn + count * np.arange(rows)[:, None]
        times = np.bincount(flat.ravel(), minlength=rows * count).astype(np.float64).reshape(rows, count)
        yield times[:, by_rank]


def _mean(times: Vector, values: Vector, sizes: Vector) -> Vector:
    # Not a matrix product, because its last digits could depend on the number of threads.
    return np.asarray(np.einsum("ij,j->i", times, values) / sizes)


def _equal_mass_error(times: Vector, sums: Vector, sizes: Vector) -> Vector:
    """Return n times the adaptive ECE of each resample of n answers; `sizes` has the n of each resample.

    `times` (rows, distinct confidences) is how many answers of each confidence are drawn, the lowest confidence first;
    `sums` are the sums of their gaps.
    """
    rows, distinct = times.shape
    runs, most = int(min(BINS, sizes.min())), sizes.max()
    size, longer = (each[:, None] for each in np.divmod(sizes, runs))
    # The first `longer` bins have one more answer, as with numpy.array_split.
    cuts = np.arange(1, runs) * size + np.minimum(np.arange(1, runs), longer)
    drawn, total = np.cumsum(times, axis=1), np.cumsum(sums, axis=1)
    # One search finds the confidences at the cuts of all rows: with offsets, the joined rows are one sorted sequence.
    row = np.arange(rows)[:, None]
    at = np.searchsorted((drawn + most * row).ravel(), cuts + most * row) - distinct * row
    of_answer, mass = np.take_along_axis(sums, at, axis=1), np.take_along_axis(times, at, axis=1)
    beyond = np.take_along_axis(drawn, at, axis=1) - cuts
    until = np.take_along_axis(total, at, axis=1) - beyond * (of_answer / mass)
    return np.asarray(np.abs(np.diff(until, axis=1, prepend=0.0, append=total[:, -1:])).sum(axis=1))


def _lost_pairs(times: Vector, confidences: Vector, grades: Vector) -> tuple[Vector, Vector]:
    """Return for each resample the number of lost pairs and the number of all pairs of a right and a wrong answer.

    A pair is lost if the wrong answer has the higher confidence; a tie is half a lost pair. Columns of `times` have the
    order of `confidences`, which increase.
    """
    right, starts = times * grades, np.flatnonzero(np.diff(confidences, prepend=-1.0))
    if starts.size < confidences.size:
        right, times = (np.add.reduceat(numbers, starts, axis=1) for numbers in (right, times))
    right, wrong = right[:, ::-1], (times - right)[:, ::-1]
    above = np.cumsum(wrong, axis=1) - wrong / 2.0
    return (right * above).sum(axis=1), right.sum(axis=1) * wrong.sum(axis=1)


def _count_wins(lost: Vector, pairs: Vector) -> Vector:
    """Return the AUROC, which is the share of pairs that are not lost; nan without pairs."""
    return np.asarray(1.0 - np.divide(lost, pairs, out=np.full(lost.size, np.nan), where=pairs > 0))


SCALES = np.linspace(0.0, 1.0, 21)
"""`ece_interval` tries these fractions of the observed gaps as true gaps."""

STEPS = np.linspace(-3.0, 3.0, 41)
"""`ece_interval` also adds these multiples of the standard errors to the observed gaps.

A large gap of many answers needs these finer steps: a twentieth of the gap can be many standard errors."""

DRAWS = 400
"""Number of simulated sets of grades for each world of `ece_interval`."""


def ece_interval(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, units: Sequence[Hashable] | None = None
) -> Interval:
    """Return the range of true expected calibration errors that agree with the observed error.

    secl simulates worlds with different true gaps: fractions (`SCALES`) of the observed gaps, the observed gaps plus or
    minus some standard errors (`STEPS`), or gaps of equal size in all bins. Equal gaps are needed because chance makes
    observed gaps more uneven than true gaps. In each world, the number of right answers in a bin is drawn from a
    binomial distribution. A world agrees unless the observed error is among the outer 5 % of the world's draws. The
    interval always includes the observed error. docs/lab/log.md has the interval's coverage.
    """
    confidences, grades = graded(confidence, correct)
    index = bin_index(confidences)
    used, parts = np.unique(index, return_inverse=True)
    return _error_interval(np.eye(used.size), parts, confidences, grades, design_effect(grades - confidences, units))


def ada_ece_interval(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, units: Sequence[Hashable] | None = None
) -> Interval:
    """Return the interval of the adaptive ECE, computed as in `ece_interval`."""
    confidences, grades = graded(confidence, correct)
    order = np.argsort(confidences, kind="stable")
    bins = np.repeat(np.arange(BINS), [run.size for run in np.array_split(order, BINS)])
    # Equal confidences that lie in several bins are a unit of their own, because each bin gets an equal part of them.
    _, ties, sizes = np.unique(confidences[order], return_inverse=True, return_counts=True)
    first, last = np.full(sizes.size, BINS), np.zeros(sizes.size, np.intp)
    np.minimum.at(first, ties, bins)
    np.maximum.at(last, ties, bins)
    names = np.where((first < last)[ties], BINS + ties, bins)
    distinct, parts = np.unique(names, return_inverse=True)
    part = np.zeros((BINS, distinct.size))
    np.add.at(part, (bins, parts), 1.0 / np.bincount(parts)[parts])
    of_answer = np.empty(order.size, np.intp)
    of_answer[order] = parts
    return _error_interval(part, of_answer, confidences, grades, design_effect(grades - confidences, units))


def _error_interval(
    part: Vector, parts: npt.NDArray[np.intp], confidences: Vector, grades: Vector, design: float
) -> Interval:
    """Return the interval of sum over bins |sum over parts part[bin, p] size (accuracy - confidence)| / n.

    Args:
        part: share of each part (column) that lies in each bin (row); a column sums to 1.
        parts: the part of each answer.
        confidences, grades: of each answer.
        design: number of answers that vary as one independent answer (`design_effect`).
    """
    if confidences.size == 0:
        return UNDEFINED
    sizes = np.bincount(parts)
    stated, right = np.bincount(parts, confidences) / sizes, np.bincount(parts, grades) / sizes
    weights = sizes / confidences.size
    share = (part * weights).T
    observed = float(np.abs((stated - right) @ share).sum())
    gaps = right - stated
    rate = (right * sizes + 0.5) / (sizes + 1.0)  # never 0 or 1, because then the standard error would be 0
    worth = np.maximum(1, np.rint(sizes / design).astype(np.intp))
    spread, signs = np.sqrt(rate * (1.0 - rate) / worth), np.where(gaps < 0.0, -1.0, 1.0)
    whole = float(np.sqrt(weights**2 @ spread**2))  # standard error of the observed error
    totals = np.concatenate([SCALES * observed, np.maximum(0.0, observed + STEPS * whole)])
    scaled = totals[:, None] / max(observed, 1e-300) * gaps
    moved = gaps + STEPS[STEPS > 0, None] * signs * spread
    truths = np.clip(stated + np.concatenate([scaled, moved, totals[:, None] * signs]), 0.0, 1.0)
    errors = np.abs((stated - truths) @ share).sum(axis=1)
    drawn = np.random.default_rng(0).binomial(worth, truths, size=(DRAWS, *truths.shape)) / worth
    simulated = np.abs((stated - drawn) @ share).sum(axis=2)
    margin = 1e-9  # sums in another order may differ in the last digits
    not_too_low = (simulated >= observed - margin).mean(axis=0) >= (1.0 - LEVEL) / 2.0
    not_too_high = (simulated <= observed + margin).mean(axis=0) >= (1.0 - LEVEL) / 2.0
    low = errors[not_too_low].min(initial=observed)
    high = errors[not_too_high].max(initial=observed)
    return Interval(float(low), float(high))
