"""Probabilities and maps by their equations; thresholds against bounds, the definition and streams of known risk."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from benchmarks.thresholds import WORLDS, by_label_free
from secl.errors import ParameterError
from secl.metrics import recalibration
from secl.metrics.probability import bin_index, directional_target, normalised_p_true
from secl.metrics.recalibration import MapKind, cross_validated, fit_platt, fit_temperature, label_free
from secl.metrics.risk_control import estimated, fewest_labels, guaranteed, labels_needed, risk_bound, risk_coverage

SHARE = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 10).map(lambda k: k / 10))
PAIRS = st.lists(st.tuples(SHARE, SHARE), min_size=1, max_size=30)
STREAM = st.lists(st.tuples(SHARE, st.one_of(st.none(), SHARE)), min_size=20, max_size=30)


@pytest.mark.parametrize("kind", recalibration.FITS)
def test_cross_validation_is_scikit_learns_on_the_same_folds(kind: MapKind) -> None:
    generator = np.random.default_rng(11)
    logits = generator.normal(0.4, 1.0, 203)  # overconfident: the stated logits are three times the true ones
    confidence, correct = expit(3.0 * logits), generator.random(203) < expit(logits)
    mapped, parameters = cross_validated(confidence, correct, kind)
    expected, weights = np.full(203, math.nan), []
    for others, fold in KFold(n_splits=recalibration.FOLDS, shuffle=True, random_state=0).split(confidence):
        # Temperature scaling is logistic regression on the logit, without intercept and with weight 1/t.
        platt = kind == "platt"
        column = confidence if platt else logit(np.clip(confidence, recalibration.CLIP, 1.0 - recalibration.CLIP))
        model = LogisticRegression(C=np.inf, fit_intercept=platt, solver="newton-cholesky", tol=1e-10)
        model.fit(column[others, None], correct[others])
        expected[fold] = model.predict_proba(column[fold, None])[:, 1]
        weights.append([model.coef_[0, 0], model.intercept_[0]] if platt else [1.0 / model.coef_[0, 0]])
    np.testing.assert_allclose(mapped, expected, atol=1e-6)
    np.testing.assert_allclose(parameters, np.mean(weights, axis=0), atol=1e-5)


def test_a_temperature_fitted_to_soft_targets_is_the_minimum_of_scipy() -> None:
    generator = np.random.default_rng(0)
    confidence = generator.random(300)
    target = np.clip(0.1 + 0.5 * confidence + 0.2 * generator.standard_normal(300), 0.0, 1.0)

    def loss(log_t: float) -> float:
        z = logit(confidence) / math.exp(log_t)
        return float(target @ np.logaddexp(0.0, -z) + (1.0 - target) @ np.logaddexp(0.0, z))

    theirs = minimize_scalar(loss, bounds=(math.log(0.05), math.log(50.0)), method="bounded", options={"xatol": 1e-9})
    assert fit_temperature(confidence, target).t == pytest.approx(math.exp(theirs.x), rel=1e-6)


@settings(max_examples=50)
@given(PAIRS)
def test_any_answers_give_finite_maps_into_the_unit_interval(pairs: list[tuple[float, float]]) -> None:
    confidence, target = (np.array(column) for column in zip(*pairs, strict=True))
    temperature, platt = fit_temperature(confidence, target), fit_platt(confidence, target)
    assert recalibration.T_MIN <= temperature.t <= recalibration.T_MAX
    assert np.isfinite([platt.a, platt.b]).all()
    apart = fit_platt([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert apart([0.2, 0.5, 0.8]) == pytest.approx([0.0, 0.5, 1.0], abs=1e-4)
    # With an intercept, the mean of the fit is the mean target; for a single class it differs by the clipping.
    assert platt(confidence).mean() == pytest.approx(target.mean(), abs=1.1e-6)
    for mapped in (temperature(confidence), platt(confidence)):
        assert mapped.min() >= 0.0
        assert mapped.max() <= 1.0


@settings(max_examples=20)
@given(STREAM, st.sampled_from(["temperature", "platt"]))
def test_along_a_stream_maps_are_fits_to_what_came_before(
    stream: list[tuple[float, float | None]], kind: MapKind
) -> None:
    confidence, signal = [c for c, _ in stream], [s for _, s in stream]
    expected = []
    for position, stated in enumerate(confidence):
        before = [(c, s) for c, s in stream[:position] if s is not None]
        enough = len(before) >= recalibration.FEWEST_SCORED
        fitted = recalibration.FITS[kind](*zip(*before, strict=True)) if enough else None
        expected.append(stated if fitted is None else float(fitted(stated)))
    np.testing.assert_allclose(label_free(confidence, signal, kind), expected, rtol=0, atol=1e-12)


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
        (normalised_p_true, ([0.5], 0.7), "at least 2 candidates"),
        (normalised_p_true, ([0.5, 1.5], 0.7), "between 0 and 1"),
        (normalised_p_true, ([0.5, 0.5], 0.0), "tau"),
        (normalised_p_true, ([0.5, 0.5], math.nan), "tau"),
        (normalised_p_true, ([0.5, 0.5], 0.7, "sqrt"), "formula"),
        (directional_target, (math.nan, 0.5, 0.5, 0.1), "stated confidence must lie between 0 and 1"),
        (directional_target, (0.5, 0.5, 1.1, 0.1), "alpha must lie between 0 and 1"),
        (directional_target, (0.5, 0.5, 0.5, -0.1), "delta must be 0 or more"),
        (fit_platt, ([0.5], [math.nan]), "target of a map must lie between 0 and 1"),
        (fit_temperature, ([[0.5]], [[1]]), "two flat lists"),
        (cross_validated, ([0.5] * 4, [1, 0, 1, 0], "platt"), "5 folds need 5 graded questions, not 4"),
        (label_free, ([0.5], [7.0], "temperature"), "between 0 and 1"),
    ],
)
def test_what_cannot_be_computed_is_named(compute: Callable[..., Any], arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        compute(*arguments)


@given(*[st.floats(0.0, 1.0)] * 4)
def test_the_target_is_between_stated_and_signal(stated: float, signal: float, alpha: float, delta: float) -> None:
    target = directional_target(stated, signal, alpha, delta)
    assert target == pytest.approx(stated + alpha * float(np.clip(signal - stated, -delta, delta)), abs=1e-15)
    assert min(stated, signal) - 1e-15 <= target <= max(stated, signal) + 1e-15
    assert abs(target - stated) <= alpha * delta + 1e-15


NAN = math.nan


def tail(wrong: int, labels: int, risk: Fraction) -> Fraction:
    """P(Binomial(labels, risk) <= wrong), in whole numbers."""
    terms = (math.comb(labels, k) * risk**k * (1 - risk) ** (labels - k) for k in range(wrong + 1))
    return sum(terms, Fraction(0))


def test_a_bound_is_the_risk_at_which_so_few_errors_are_just_too_unlikely() -> None:
    # Without an error, (1 - r)^n = delta. If all are wrong, or without labels, the bound is 1.
    assert float(risk_bound(0, 45, 0.9)) == pytest.approx(1 - 0.1 ** (1 / 45), abs=1e-12)
    assert risk_bound([5, 0], [5, 0], 0.9).tolist() == [1.0, 1.0]
    assert risk_bound(0, 22, 0.9) <= 0.1 < risk_bound(0, 21, 0.9)
    assert fewest_labels(0.1, 0.9) == 22
    for wrong, labels in [(1, 10), (7, 31)]:
        bound = Fraction(float(risk_bound(wrong, labels, 0.95)))
        assert float(tail(wrong, labels, bound)) == pytest.approx(0.05, abs=1e-9)


def test_the_curve_of_six_answers_is_as_counted_by_hand() -> None:
    curve = risk_coverage([0.9, 0.7, 0.7, 0.5, 0.5, 0.1], [1, NAN, 0, 1, NAN, NAN])
    assert curve.confidence.tolist() == [0.9, 0.7, 0.5, 0.1]
    assert curve.coverage == pytest.approx([1 / 6, 3 / 6, 5 / 6, 1])
    assert curve.labels.tolist() == [1, 2, 3, 3]
    assert curve.wrong.tolist() == [0, 1, 1, 1]
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 3])
    assert curve.expected == pytest.approx([0.1, 0.7 / 3, 1.7 / 5, 2.6 / 6])
    assert (curve.total, curve.answers) == (3, 6)


def test_the_walk_ends_at_the_first_threshold_that_fails_and_needs_labels_and_estimates_without_them() -> None:
    # 100 right answers, 100 wrong ones, 2,000 right ones: the test sequence ends at the wrong answers.
    correct = np.concatenate([np.ones(100), np.zeros(100), np.ones(2000)])
    assert (found := guaranteed(risk_coverage(np.linspace(0.99, 0.01, 2200), correct), 0.1, 0.9))
    assert 100 <= found.labels < 120
    # A third of the answers is above 0.8 and always right: 22 labels there, 66 in all.
    few, enough = (risk_coverage(np.tile([0.9, 0.6, 0.3], k), np.tile([1, 0, 0], k)) for k in (20, 22))
    assert guaranteed(few, 0.1, 0.9) is None
    assert labels_needed(few, 0.1, 0.9) == 66
    assert (found := guaranteed(enough, 0.1, 0.9))
    assert found.labels == 22
    # The estimate is the mean of 1 - confidence.
    curve = risk_coverage([0.95, 0.85, 0.6], [NAN] * 3)
    assert (estimate := estimated(curve, 0.1))
    assert (estimate.coverage, estimate.expected) == pytest.approx((2 / 3, 0.1))
    assert estimated(curve, 0.01) is None


def test_what_is_no_risk_or_no_answer_is_refused() -> None:
    for risk in (0.0, 5e-324, 1e-10, 1.0, NAN):  # the number of labels for 5e-324 exceeds the largest float
        with pytest.raises(ParameterError, match="risk must be at least 1e-09 and below 1"):
            guaranteed(risk_coverage([0.5], [1]), risk, 0.9)
    assert risk_bound(0, fewest_labels(1e-9, 0.9), 0.9) <= 1e-9 < risk_bound(0, fewest_labels(1e-9, 0.9) - 1, 0.9)
    for confidence, correct in (([0.5], [1, 0]), ([1.5], [1]), ([0.5], [0.5]), ([0.5], [math.inf])):
        with pytest.raises(ParameterError):
            risk_coverage(confidence, correct)


@pytest.mark.parametrize(("world", "least"), [("overconfident", 0.4), ("worth nothing", 0.0)])
def test_in_200_streams_the_promised_risk_is_kept_in_nine_of_ten(world: str, least: float) -> None:
    generator = np.random.default_rng(5)
    outcomes = [by_label_free(WORLDS[world], 1, 100, generator) for _ in range(200)]
    assert sum(outcome.risk > WORLDS[world].risk for outcome in outcomes) <= 20
    assert np.nansum([outcome.coverage for outcome in outcomes]) >= 200 * least
