"""The bin rule, the read-out, normalised P(True) and the target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from secl.errors import ParameterError
from secl.metrics.probability import bin_index, directional_target, normalised_p_true
from secl.records import Reply

PROBABILITY = st.floats(0.0, 1.0)


@given(st.one_of(PROBABILITY, st.integers(0, 10).map(lambda k: k / 10)))
def test_a_bin_holds_its_lower_border_and_not_its_upper_one(p: float) -> None:
    k = bin_index(p)
    assert k / 10 <= p
    assert p < (k + 1) / 10 or (k == 9 and p == 1.0)


@given(st.lists(st.floats(1e-6, 1.0), min_size=10, max_size=10))
def test_the_stated_confidence_is_the_expected_centre_of_the_bins(weights: list[float]) -> None:
    bins = tuple(float(p) for p in np.array(weights) / math.fsum(weights))
    actual = Reply(text="x", answer="x", bins=bins, digit_mass=1.0, entropy=0.0, log_probability=0.0).stated
    assert actual == pytest.approx(float(np.dot(bins, np.arange(0.05, 1.0, 0.1))), abs=1e-12)
    assert 0.05 - 1e-12 <= actual <= 0.95 + 1e-12


@given(st.lists(st.floats(1e-300, 1.0), min_size=2, max_size=26), st.floats(0.05, 20.0))
def test_normalised_p_true_is_the_softmax_of_scipy(p_true: list[float], tau: float) -> None:
    log, exp = softmax(np.log(p_true) / tau)[0], softmax(np.array(p_true) / tau)[0]
    assert normalised_p_true(p_true, tau) == pytest.approx(log, abs=1e-12)
    assert normalised_p_true(p_true, tau, "exp") == pytest.approx(exp, abs=1e-12)
    assert math.isnan(normalised_p_true([*p_true, math.nan], tau))


@pytest.mark.parametrize(
    ("compute", "arguments", "words"),
    [
        *((bin_index, (p,), "between 0 and 1") for p in (-1e-9, 1.0000001, math.nan)),
        (normalised_p_true, ([0.5], 0.7), "a distractor"),
        (normalised_p_true, ([0.5, 1.5], 0.7), "between 0 and 1"),
        (normalised_p_true, ([0.5, 0.5], 0.0), "tau"),
        (normalised_p_true, ([0.5, 0.5], math.nan), "tau"),
        (normalised_p_true, ([0.5, 0.5], 0.7, "sqrt"), "formula"),
        (directional_target, (math.nan, 0.5, 0.5, 0.1), "stated confidence must lie between 0 and 1"),
        (directional_target, (0.5, 0.5, 1.1, 0.1), "alpha must lie between 0 and 1"),
        (directional_target, (0.5, 0.5, 0.5, -0.1), "delta must be 0 or more"),
    ],
)
def test_a_number_out_of_range_is_named(compute: Callable[..., Any], arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        compute(*arguments)


@given(PROBABILITY, PROBABILITY, PROBABILITY, st.floats(0.0, 1.0))
def test_the_target_is_the_equation_and_lies_between_stated_and_signal(
    stated: float, signal: float, alpha: float, delta: float
) -> None:
    target = directional_target(stated, signal, alpha, delta)
    assert target == pytest.approx(stated + alpha * float(np.clip(signal - stated, -delta, delta)), abs=1e-15)
    assert min(stated, signal) - 1e-15 <= target <= max(stated, signal) + 1e-15
    assert abs(target - stated) <= alpha * delta + 1e-15
