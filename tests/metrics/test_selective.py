"""Selective prediction against hand-computed values and against the definitions, with every order of a tie."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.errors import ParameterError
from secl.metrics.selective import coverage_at_risk, prr

Pairs = list[tuple[float, bool]]
FEW = st.lists(st.tuples(st.integers(0, 2).map(lambda k: k / 2), st.booleans()), min_size=1, max_size=6)


def mean_accuracy(grades: list[bool], least: int) -> float:
    return float(np.mean([np.mean(grades[:k]) for k in range(least, len(grades) + 1)]))


def test_hand_computed_values_of_five_answers() -> None:
    confidence, correct = [0.9, 0.8, 0.7, 0.6, 0.5], [1, 1, 0, 1, 0]
    # Accuracies at 0 ... 4 rejections: .6, .75, 2/3, 1, 1; the oracle's: .6, .75, 1, 1, 1; chance: .6.
    assert prr(confidence, correct) == pytest.approx(((0.15 + 1 / 15 + 0.8) / 5) / ((0.15 + 0.4 * 3) / 5))
    # At half: floor(.5 * 5) = 2 points, 0 and 1 rejected, where nothing is lost to the oracle.
    assert prr(confidence, correct, 0.5) == pytest.approx(1.0)
    assert [coverage_at_risk(confidence, correct, risk) for risk in (0.0, 0.25, 0.3, 0.4)] == [0.4, 0.8, 0.8, 1.0]


@settings(max_examples=60, deadline=None)
@given(FEW, st.sampled_from([1.0, 0.5, 0.8]))
def test_prr_is_the_gain_over_chance_relative_to_the_oracle(pairs: Pairs, max_rejection: float) -> None:
    confidence, correct = [c for c, _ in pairs], [y for _, y in pairs]
    actual = prr(confidence, correct, max_rejection)
    rejections = int(max_rejection * len(pairs))
    if rejections < 2 or len(set(correct)) == 1:
        assert math.isnan(actual)
        return
    least = len(pairs) - rejections + 1
    sorted_orders = (each for each in permutations(pairs) if all(a[0] >= b[0] for a, b in pairwise(each)))
    ours = np.mean([mean_accuracy([y for _, y in order], least) for order in sorted_orders])
    oracle, chance = mean_accuracy(sorted(correct, reverse=True), least), np.mean(correct)
    assert actual == pytest.approx((ours - chance) / (oracle - chance))


def test_coverage_takes_a_tie_as_a_whole_and_the_largest_share_that_fits() -> None:
    # One wrong answer of twenty is just within 5 %; nine of ten accepted before it were never better than 1 in 10.
    assert coverage_at_risk([0.5] * 20, [False] + [True] * 19, 0.05) == 1.0
    assert coverage_at_risk([0.5] * 20, [False, False] + [True] * 18, 0.05) == 0.0
    assert coverage_at_risk([0.9, 0.8, 0.8], [True, True, False], 0.2) == pytest.approx(1 / 3)


def test_what_is_undefined_is_nan_and_what_is_no_share_is_refused() -> None:
    assert math.isnan(prr([], []))
    assert math.isnan(coverage_at_risk([], [], 0.1))
    for same in (True, False):
        assert math.isnan(prr([0.1, 0.9, 0.4], [same] * 3))
    assert math.isnan(prr([0.9, 0.2, 0.1], [True, False, False], 0.5))  # one point: nothing rejected
    assert math.isnan(prr([0.9], [True], 0.5))
    with pytest.raises(ParameterError, match="largest share rejected"):
        prr([0.5], [1], 0.0)
