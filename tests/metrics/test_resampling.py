"""Bootstrap intervals, and the fast path against the plain one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import norm

from secl.errors import ParameterError
from secl.metrics import bootstrap
from secl.metrics.bootstrap import BUCKETS, EACH, MEASURES, Interval, percentile_interval, resampled_measures
from secl.metrics.calibration import ada_ece, brier, ece
from secl.metrics.discrimination import auroc, auroc_within
from secl.metrics.selective import prr, rejection_ratios


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


def test_every_standard_measure_has_a_plain_one_to_be_compared_with() -> None:
    assert tuple(PLAIN) == MEASURES


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


def test_ranking_inside_domains_is_that_of_the_same_resamples_and_may_be_undefined() -> None:
    confidence, correct = sample(40)
    confidence, domains = np.round(confidence, 1), np.array(["a", "b", "c"] * 13 + ["d"])
    fast = resampled_measures(confidence, correct, domains=domains.tolist(), resamples=60, seed=4)["auroc_within"]
    rows = resamples_of(40, 60, 4)
    plain = [auroc_within(confidence[row], correct[row], domains[row].tolist()) for row in rows]
    np.testing.assert_allclose(fast, plain, atol=1e-12)
    alone = resampled_measures(confidence[:2], [True, False], domains=["a", "b"], resamples=20)["auroc_within"]
    assert np.isnan(alone).all()


def test_the_interval_is_scipys_percentile_bootstrap_within_its_noise() -> None:
    confidence, correct = sample(400)
    ours = percentile_interval(resampled_measures(confidence, correct, resamples=4000)["brier"])
    theirs = scipy_bootstrap(
        ((confidence - correct) ** 2,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(9)
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=2e-3)
    assert ours.high == pytest.approx(theirs.high, abs=2e-3)


def test_the_interval_of_an_accuracy_is_about_the_normal_one() -> None:
    confidence, correct = sample(2000)
    actual = percentile_interval(resampled_measures(confidence, correct)["accuracy"], level=0.9)
    half = norm.ppf(0.95) * correct.std() / math.sqrt(2000)
    assert (actual.high - actual.low) / 2 == pytest.approx(half, rel=0.1)


def test_the_same_seed_gives_the_same_resamples_and_another_gives_others() -> None:
    data = sample(50)
    first, again, other = (resampled_measures(*data, resamples=100, seed=seed)["ece"] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_undefined_resamples_are_left_out_and_too_many_make_the_interval_undefined() -> None:
    assert percentile_interval([1.0, 1.0, math.nan, math.nan]) == Interval(1.0, 1.0)
    assert math.isnan(percentile_interval([1.0, math.nan, math.nan]).low)
    assert math.isnan(percentile_interval([]).high)
    one_class = resampled_measures([0.1, 0.9], [True, True], resamples=20)["auroc"]
    assert math.isnan(percentile_interval(one_class).low)
    rare = percentile_interval(resampled_measures([0.1, 0.5, 0.9], [False, True, True], resamples=200)["auroc"])
    assert 0.0 <= rare.low <= rare.high <= 1.0


def test_the_resamples_of_nothing_are_none() -> None:
    assert all(values.size == 0 for values in resampled_measures([], []).values())


def test_a_thousand_resamples_of_two_thousand_questions_take_a_second_or_two() -> None:
    data = sample(2000)
    start = time.perf_counter()
    values = resampled_measures(*data, resamples=1000)
    assert time.perf_counter() - start < 5.0  # all eight measures; about 0.1 s on two cores
    assert {len(value) for value in values.values()} == {1000}


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


def test_the_work_on_a_resample_does_not_grow_with_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    columns: list[int] = []

    def counted(right: np.ndarray, wrong: np.ndarray, most: float) -> np.ndarray:
        columns.append(right.shape[1])
        return rejection_ratios(right, wrong, most)

    monkeypatch.setattr(bootstrap, "rejection_ratios", counted)
    resampled_measures(*sample(50_000), resamples=3)
    assert columns
    assert max(columns) <= BUCKETS + 10  # borders of bins cut buckets


def test_a_bootstrap_says_what_it_cannot_use() -> None:
    with pytest.raises(ParameterError, match="number of resamples"):
        resampled_measures([1.0], [1], resamples=0)
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="level"):
            percentile_interval([1.0], level)
