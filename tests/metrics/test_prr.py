"""Selective prediction against the definitions, with every order of a tie."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.metrics.discrimination import prr

Pairs = list[tuple[float, bool]]
FEW = st.lists(st.tuples(st.integers(0, 2).map(lambda k: k / 2), st.booleans()), min_size=1, max_size=6)


def mean_accuracy(grades: list[bool]) -> float:
    return float(np.mean([np.mean(grades[:k]) for k in range(1, len(grades) + 1)]))


@settings(max_examples=60, deadline=None)
@given(FEW)
def test_prr_is_the_gain_over_chance_relative_to_the_oracle(pairs: Pairs) -> None:
    confidence, correct = [c for c, _ in pairs], [y for _, y in pairs]
    actual = prr(confidence, correct)
    if len(set(correct)) == 1:
        assert math.isnan(actual)
        return
    sorted_orders = (each for each in permutations(pairs) if all(a[0] >= b[0] for a, b in pairwise(each)))
    ours = np.mean([mean_accuracy([y for _, y in order]) for order in sorted_orders])
    oracle, chance = mean_accuracy(sorted(correct, reverse=True)), np.mean(correct)
    assert actual == pytest.approx((ours - chance) / (oracle - chance))


def test_a_ratio_without_any_gain_is_nan() -> None:
    for confidence, correct in (([], []), ([0.9], [True]), ([0.1, 0.9, 0.4], [False] * 3), ([0.1, 0.9], [True] * 2)):
        assert math.isnan(prr(confidence, correct))
