"""Bootstrap intervals, and the fast path against the plain one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap

from secl.errors import ParameterError
from secl.metrics import bootstrap
from secl.metrics.bootstrap import EACH, MEASURES, Interval, percentile_interval, resampled_measures
from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc
from secl.metrics.selective import prr


def accuracy(confidence: np.ndarray, correct: np.ndarray) -> float:
    return float(np.mean(correct))


def mean_confidence(confidence: np.ndarray, correct: np.ndarray) -> float:
    return float(np.mean(confidence))


def prr_50(confidence: np.ndarray, correct: np.ndarray) -> float:
    return prr(confidence, correct, 0.5)


PLAIN: dict[str, Callable[..., float]] = {
    "brier": brier,
    "ece": ece,
    "ada_ece": ada_ece,
    "auroc": auroc,
    "auroc_within": auroc,
    "prr_50": prr_50,
    "accuracy": accuracy,
    "mean_confidence": mean_confidence,
}


def sample(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    confidence = generator.random(count)
    return confidence, generator.random(count) < confidence


def resamples_of(count: int, resamples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(count, size=(resamples, count))


@pytest.mark.parametrize("name", PLAIN)
def test_the_fast_measures_are_the_plain_ones_of_the_same_resamples(name: str) -> None:
    confidence, correct = sample(83)
    fast = resampled_measures(confidence, correct, resamples=150, seed=4)[name]
    plain = [PLAIN[name](confidence[row], correct[row]) for row in resamples_of(83, 150, 4)]
    np.testing.assert_allclose(fast, plain, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=30))
def test_the_fast_measures_hold_with_ties_borders_and_single_classes(pairs: list[tuple[int, bool]]) -> None:
    confidence, correct = np.array([k / 10 for k, _ in pairs]), np.array([y for _, y in pairs])
    values = resampled_measures(confidence, correct, resamples=5, seed=1)
    rows = resamples_of(len(pairs), 5, 1)
    for name, metric in PLAIN.items():
        # Ties of adaptive ECE stand in the order given, so the plain one gets its resample in that order.
        expected = [metric(confidence[np.sort(row)], correct[np.sort(row)]) for row in rows]
        np.testing.assert_allclose(values[name], expected, atol=1e-12)


def test_the_interval_is_scipys_percentile_bootstrap_within_its_noise() -> None:
    confidence, correct = sample(400)
    ours = percentile_interval(resampled_measures(confidence, correct, resamples=4000)["brier"])
    theirs = scipy_bootstrap(
        ((confidence - correct) ** 2,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(9)
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=2e-3)
    assert ours.high == pytest.approx(theirs.high, abs=2e-3)


def test_undefined_resamples_are_left_out_and_too_many_make_the_interval_undefined() -> None:
    assert percentile_interval([1.0, 1.0, math.nan, math.nan]) == Interval(1.0, 1.0)
    assert math.isnan(percentile_interval([1.0, math.nan, math.nan]).low)
    assert math.isnan(percentile_interval([]).high)
    one_class = resampled_measures([0.1, 0.9], [True, True], resamples=20)["auroc"]
    assert math.isnan(percentile_interval(one_class).low)
    rare = percentile_interval(resampled_measures([0.1, 0.5, 0.9], [False, True, True], resamples=200)["auroc"])
    assert 0.0 <= rare.low <= rare.high <= 1.0


@pytest.mark.parametrize("digits", [1, 17])
def test_many_answers_are_drawn_alike_and_counted_in_cells_that_change_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, digits: int
) -> None:
    confidence, correct = sample(EACH + 1000)
    confidence, domains = confidence.round(digits), ["abc"[k % 3] for k in range(confidence.size)]
    in_cells = resampled_measures(confidence, correct, domains=domains, resamples=20)
    monkeypatch.setattr(bootstrap, "EACH", confidence.size)
    one_by_one = resampled_measures(confidence, correct, domains=domains, resamples=20)
    for name in MEASURES:
        # A cut between bins of equal mass goes through answers in their order, and through all of a bucket alike.
        atol = {1: 3e-2, 17: 3e-3}[digits] if name == "ada_ece" else 5e-4
        np.testing.assert_allclose(in_cells[name], one_by_one[name], atol=atol, err_msg=name)


def test_a_bootstrap_says_what_it_cannot_use() -> None:
    with pytest.raises(ParameterError, match="number of resamples"):
        resampled_measures([1.0], [1], resamples=0)
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="level"):
            percentile_interval([1.0], level)
