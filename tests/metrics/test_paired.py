"""Paired differences against a naive re-computation, and whether their intervals hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.errors import ParameterError
from secl.metrics.bootstrap import FEWEST_OF_A_KIND, MEASURES, Interval, resampled_measures
from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc
from secl.metrics.paired_bootstrap import FEWEST, paired_differences
from secl.metrics.selective import prr

Pair = tuple[np.ndarray, np.ndarray]


def naive(measure: str, confidence: np.ndarray, correct: np.ndarray) -> float:
    """One measure of one draw, in float64."""
    if measure == "accuracy":
        return float(correct.mean())
    if measure == "mean_confidence":
        return float(confidence.mean())
    if measure == "prr_50":
        return prr(confidence, correct, 0.5)
    metric = {"ece": ece, "ada_ece": ada_ece, "brier": brier, "auroc": auroc, "auroc_within": auroc}[measure]
    return metric(confidence, correct)


def two(count: int, seed: int = 0) -> tuple[Pair, Pair]:
    """An overconfident and a calibrated confidence of the same questions, answered a little differently."""
    generator = np.random.default_rng(seed)
    chance = generator.random(count)
    right = generator.random(count) < chance
    other = right ^ (generator.random(count) < 0.1)
    return (0.5 + chance / 2, right), (chance, other)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_difference_is_that_of_the_same_drawn_questions_on_both_sides(measure: str) -> None:
    (a, right_a), (b, right_b) = two(61)
    rows = np.random.default_rng(3).integers(61, size=(200, 61))
    expected = [naive(measure, b[row], right_b[row]) - naive(measure, a[row], right_a[row]) for row in rows]
    whole = naive(measure, b, right_b) - naive(measure, a, right_a)
    low, high = np.quantile(expected, [0.025, 0.975])
    reach = max(abs(low - whole), abs(high - whole))
    actual = paired_differences(a, right_a, b, right_b, resamples=200, seed=3)[measure]
    assert (actual.a, actual.b) == (naive(measure, a, right_a), naive(measure, b, right_b))
    assert actual.difference == pytest.approx(whole, abs=1e-12)
    assert actual.interval.low == pytest.approx(whole - reach, abs=1e-12)
    assert actual.interval.high == pytest.approx(whole + reach, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.integers(0, 10), st.booleans()), min_size=15, max_size=30)
)
def test_sides_can_be_swapped_and_an_equal_side_differs_by_nothing(rows: list[tuple[int, bool, int, bool]]) -> None:
    a, b = [k / 10 for k, _, _, _ in rows], [k / 10 for _, _, k, _ in rows]
    right_a, right_b = [y for _, y, _, _ in rows], [y for _, _, _, y in rows]
    there = paired_differences(a, right_a, b, right_b, resamples=20)
    back = paired_differences(b, right_b, a, right_a, resamples=20)
    same = paired_differences(a, right_a, a, right_a, resamples=20)
    assert list(there) == list(MEASURES)
    for name, actual in there.items():
        if math.isnan(actual.difference):
            assert math.isnan(actual.interval.low)
            assert (actual.rises, actual.falls) == (False, False)
            continue
        assert back[name].difference == -actual.difference
        assert math.isnan(actual.interval.low) or len(rows) >= FEWEST
        if not math.isnan(actual.interval.low):
            assert name == "prr_50" or -1.0 <= actual.interval.low <= actual.interval.high <= 1.0
            assert actual.interval.low <= actual.difference <= actual.interval.high
            assert back[name].interval.low == pytest.approx(-actual.interval.high, abs=1e-12)
        if not math.isnan(same[name].interval.low):
            assert same[name].interval == Interval(0.0, 0.0)


def test_the_interval_of_an_ece_difference_mostly_holds_the_truth_where_percentiles_do_not() -> None:
    """A calibrated confidence spread over all bins against one in a single bin: the bias of ECE points one way."""
    generator = np.random.default_rng(2)
    ours = theirs = 0
    for seed in range(50):
        chance = generator.beta(1.5, 1.5, 200)
        right = generator.random(200) < chance
        stated = np.full(200, 0.88)
        truth = -0.38  # ECE 0 minus 0.88 - 0.5
        actual = paired_differences(stated, right, chance, right, resamples=200, seed=seed)["ece"]
        draws = [resampled_measures(c, right, resamples=200, seed=seed)["ece"] for c in (stated, chance)]
        low, high = np.quantile(draws[1] - draws[0], [0.025, 0.975])
        ours += actual.interval.low <= truth <= actual.interval.high
        theirs += low <= truth <= high
    assert ours >= 38
    assert theirs <= 20


def test_between_two_equally_good_confidences_a_difference_is_rarely_seen() -> None:
    generator = np.random.default_rng(6)
    flagged = dict.fromkeys(("ece", "brier", "auroc"), 0)
    for seed in range(100):
        u, v = generator.random((2, 150))
        right = generator.random(150) < (u + v) / 2
        actual = paired_differences((u + 0.5) / 2, right, (v + 0.5) / 2, right, resamples=100, seed=seed)
        for measure in flagged:
            flagged[measure] += actual[measure].rises or actual[measure].falls
    assert max(flagged.values()) <= 10, flagged


@pytest.mark.parametrize("rare", [0, 1])
def test_discrimination_needs_some_right_and_some_wrong_answers_on_both_sides(rare: int) -> None:
    (a, _), (b, _) = two(40)
    even, few, enough = ([rare] * count + [1 - rare] * (40 - count) for count in (20, 4, FEWEST_OF_A_KIND))

    def undefined(right_a: list[int], right_b: list[int]) -> list[bool]:
        actual = paired_differences(a, right_a, b, right_b, resamples=200)
        return [math.isnan(actual[name].interval.low) for name in ("auroc", "ece")]

    assert undefined(even, enough) == undefined(enough, even) == [False, False]
    assert undefined(even, few) == undefined(few, even) == [True, False]


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ParameterError, match="not 2 and 1"):
        paired_differences([0.1, 0.2], [1, 0], [0.1], [1])
    with pytest.raises(ParameterError, match="same length"):
        paired_differences([0.1, 0.2], [1], [0.1], [1])
    with pytest.raises(ParameterError, match="number of resamples"):
        paired_differences([0.1], [1], [0.1], [1], resamples=0)
