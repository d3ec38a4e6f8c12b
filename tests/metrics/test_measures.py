"""Measures, intervals, maps and thresholds against scikit-learn, fractions, equations, streams of known risk."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, softmax
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.model_selection import KFold

from benchmarks.thresholds import WORLDS, by_label_free
from secl.errors import ParameterError
from secl.metrics import intervals as of
from secl.metrics import measures as m
from secl.metrics import recalibration
from secl.metrics.intervals import Interval, paired_differences, percentile_interval, resampled_measures
from secl.metrics.probability import bin_index, directional_target, normalised_p_true
from secl.metrics.recalibration import MapKind, cross_validated, fit_platt, fit_temperature, label_free
from secl.metrics.risk_control import estimated, fewest_labels, guaranteed, labels_needed, risk_bound, risk_coverage

Pairs = Sequence[tuple[float, bool]]
CONFIDENCE = st.one_of(st.floats(0.0, 1.0), st.integers(0, 20).map(lambda k: k / 20))
PAIRS = st.lists(st.tuples(CONFIDENCE, st.booleans()), max_size=60)


def columns(pairs: Pairs) -> tuple[list[float], list[bool]]:
    return [c for c, _ in pairs], [y for _, y in pairs]


def sample(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    confidence = generator.random(count)
    return confidence, generator.random(count) < confidence**2


def exact_ece(groups: Sequence[Pairs], total: int) -> float:
    """ECE of given groups in rational arithmetic."""
    gaps = [abs(sum((Fraction(int(y)) - Fraction(c) for c, y in group), Fraction(0))) for group in groups]
    return float(sum(gaps, Fraction(0)) / total)


@settings(max_examples=50)
@given(PAIRS.filter(bool))
def test_calibration_errors_agree_with_rational_arithmetic_their_bars_and_their_intervals(pairs: Pairs) -> None:
    bins = 10
    wide = [[(c, y) for c, y in pairs if k / bins <= c and (c < (k + 1) / bins or k == bins - 1)] for k in range(bins)]
    width, mass = m.ece(*columns(pairs)), m.ada_ece(*columns(pairs))
    assert width == pytest.approx(exact_ece(wide, len(pairs)), abs=1e-9)
    tied = {c: [Fraction(int(y)) - Fraction(c) for other, y in pairs if other == c] for c, _ in pairs}
    gaps = [sum(tied[c], Fraction(0)) / len(tied[c]) for c in sorted(tied) for _ in tied[c]]
    size, longer = divmod(len(pairs), bins)
    ends = [size * k + min(k, longer) for k in range(bins + 1)]
    shared = sum((abs(sum(gaps[i:j], Fraction(0))) for i, j in pairwise(ends)), Fraction(0))
    assert mass == pytest.approx(float(shared / len(pairs)), abs=1e-9)
    bars = m.reliability(*columns(pairs))
    assert [(bar.lo, bar.hi, bar.count) for bar in bars] == [(k / 10, (k + 1) / 10, len(wide[k])) for k in range(10)]
    assert all(math.isnan(bar.confidence) and math.isnan(bar.accuracy) for bar in bars if not bar.count)
    total = sum(bar.count * abs(bar.accuracy - bar.confidence) for bar in bars if bar.count) / len(pairs)
    assert total == pytest.approx(width, abs=1e-9)
    for compute, error in ((of.ece_interval, width), (of.ada_ece_interval, mass)):
        interval = compute(*columns(pairs))
        assert -1e-9 <= interval.low <= error + 1e-9
        assert error - 1e-9 <= interval.high <= 1.0 + 1e-9


@pytest.mark.parametrize("metric", [m.ece, m.ada_ece, m.brier, m.auroc, m.prr, m.reliability])
def test_measures_of_nothing_are_undefined_and_what_cannot_be_measured_is_refused(metric: Callable[..., Any]) -> None:
    assert metric is m.reliability or math.isnan(metric([], []))
    assert [bar.count for bar in m.reliability([], [])] == [0] * 10
    assert math.isnan(of.ece_interval([], []).low)
    for confidence, correct, words in [
        ([0.5], [True, False], "same length"),
        ([[0.5]], [[True]], "same length"),
        ([math.nan], [True], "between 0 and 1"),
        ([0.5], [0.5], "right .1. or wrong .0."),
    ]:
        with pytest.raises(ParameterError, match=words):
            metric(confidence, correct)


def test_brier_and_auroc_are_scikit_learns_and_within_domains_the_share_of_pairs_won() -> None:
    confidence, correct = sample(60, 0)
    confidence = np.round(confidence, 1)  # ties
    assert m.brier(confidence, correct) == pytest.approx(brier_score_loss(correct, confidence), abs=1e-12)
    assert m.auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)
    domains = np.random.default_rng(0).choice(["a", "b", "c"], 60)
    pairs = (domains[:, None] == domains) & correct[:, None] & ~correct
    gaps = (confidence[:, None] - confidence)[pairs]
    assert m.auroc_within(confidence, correct, domains.tolist()) == pytest.approx(np.mean((np.sign(gaps) + 1) / 2))
    assert math.isnan(m.auroc([0.3, 0.4], [True, True]))
    with pytest.raises(ParameterError, match="one domain for each answer"):
        m.auroc_within([0.5], [True], [])


def test_prr_is_the_gain_over_chance_relative_to_the_oracle_in_every_order_of_a_tie() -> None:
    def mean_accuracy(grades: Sequence[bool]) -> float:
        return float(np.mean(np.cumsum(grades) / np.arange(1, len(grades) + 1)))

    for pairs in product(product((0.0, 0.5, 1.0), (True, False)), repeat=4):
        correct = [y for _, y in pairs]
        actual = m.prr(*columns(pairs))
        if len(set(correct)) == 1:
            assert math.isnan(actual)
            continue
        orders = [order for order in permutations(pairs) if all(a[0] >= b[0] for a, b in pairwise(order))]
        ours = np.mean([mean_accuracy([y for _, y in order]) for order in orders])
        oracle, chance = mean_accuracy(sorted(correct, reverse=True)), np.mean(correct)
        assert actual == pytest.approx((ours - chance) / (oracle - chance))


def test_a_calibrated_forecaster_stays_within_the_floor_nineteen_times_in_twenty() -> None:
    generator = np.random.default_rng(5)
    confidence = generator.random(150)
    floor = m.ece_floor(confidence)
    errors = np.array([m.ece(confidence, generator.random(150) < confidence) for _ in range(400)])
    assert np.mean(errors <= floor.upper) == pytest.approx(0.95, abs=0.04)
    assert errors.mean() == pytest.approx(floor.mean, abs=0.004)
    assert math.isnan(m.ece_floor([]).mean)
    assert m.ece_floor([0.0, 1.0, 1.0]).upper == 0.0


def test_beyond_some_thousand_answers_normal_limits_agree_with_what_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence = np.random.default_rng(3).beta(2, 1, m.MOST_EXACT + 1)
    floor, right = m.ece_floor(confidence), round(confidence.sum()) + 45
    chance = m.chance_of_count(tuple(confidence), right)
    monkeypatch.setattr(m, "MOST_EXACT", confidence.size)
    assert floor.mean == pytest.approx(m.ece_floor(confidence).mean, rel=0.05)
    assert floor.upper == pytest.approx(m.ece_floor(confidence).upper, rel=0.08)
    m.chance_of_count.cache_clear()
    assert chance == pytest.approx(m.chance_of_count(tuple(confidence), right), rel=0.05)
    assert m.chance_of_count((0.3,) * 50, 25) == pytest.approx(2 * binom.sf(24, 50, 0.3), rel=1e-9)


ORDERS = [np.arange(500), np.arange(500)[::-1], np.random.default_rng(0).permutation(500)]


@pytest.mark.parametrize("order", ORDERS, ids=["right first", "right last", "shuffled"])
def test_the_order_of_equal_confidences_changes_neither_an_error_nor_its_interval(order: np.ndarray) -> None:
    right, half = (np.arange(500) < 50)[order], (np.arange(500) % 3 > 0)[order]
    assert m.ada_ece(np.full(500, 0.9), right) == pytest.approx(0.8, abs=1e-12)
    interval = of.ada_ece_interval(np.full(500, 0.9), right)
    assert (interval.low, interval.high) == pytest.approx((0.8 - 0.0263, 0.8 + 0.0263), abs=0.008)  # 1.96 sd
    tied = np.round((np.arange(500) % 7)[order] / 7, 1)
    assert m.ada_ece(tied, half) == pytest.approx(m.ada_ece(tied[order], half[order]), abs=1e-12)
    interval, again = of.ada_ece_interval(tied, half), of.ada_ece_interval(tied[order], half[order])
    assert (interval.low, interval.high) == pytest.approx((again.low, again.high), abs=1e-9)


@pytest.mark.parametrize(("n", "stated", "right"), [(10_000, 0.8, 6_000), (5_000, 0.9, 500), (2_100, 0.69, 483)])
def test_the_interval_of_a_large_error_has_two_ends(n: int, stated: float, right: int) -> None:
    confidence, grades = np.full(n, stated), np.arange(n) < right
    error, reach = abs(stated - right / n), 1.96 * math.sqrt(right / n * (1 - right / n) / n)
    for compute in (of.ece_interval, of.ada_ece_interval):
        interval = compute(confidence, grades)
        assert (interval.low, interval.high) == pytest.approx((error - reach, error + reach), abs=0.2 * reach)


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("right", [True, False])
def test_without_one_kind_of_answer_no_interval_has_width_zero(n: int, right: bool) -> None:
    spans = of.intervals(np.linspace(0.85, 0.95, n), np.full(n, right))
    low, high = m.wilson(float(right), n)
    assert spans["accuracy"] == Interval(low, high)
    assert high - low > 3.5 / (n + 4)
    assert spans["brier"].high - spans["brier"].low > 0.5 / n
    assert math.isnan(spans["auroc"].low)


@pytest.mark.parametrize("excess", [0.0, 0.05])
def test_at_least_nine_of_ten_intervals_hold_the_true_error(excess: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, "DRAWS", 100)
    held = 0
    for number in range(100):
        draw = np.random.default_rng((100, number))
        confidences = 0.2 + 0.75 * draw.random(100)
        interval = of.ece_interval(confidences, draw.random(100) < confidences - excess)
        held += interval.low - 1e-9 <= excess <= interval.high + 1e-9
    assert held >= 90  # 95 on average; percentiles of the bootstrap would hold none at an excess of 0


Pair = tuple[np.ndarray, np.ndarray]


def two(count: int) -> tuple[Pair, Pair]:
    """An overconfident and a calibrated confidence of the same questions, answered a little differently."""
    generator = np.random.default_rng(0)
    chance = generator.random(count)
    right = generator.random(count) < chance
    other = right ^ (generator.random(count) < 0.1)
    return (0.5 + chance / 2, right), (chance, other)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.sampled_from("ab")), min_size=1, max_size=30))
def test_measures_of_resamples_are_the_plain_ones_of_the_same_draws(rows: list[tuple[int, bool, str]]) -> None:
    confidence, correct = np.array([k / 10 for k, _, _ in rows]), np.array([y for _, y, _ in rows])
    domains = np.array([domain for *_, domain in rows])
    values = resampled_measures(confidence, correct, domains=domains.tolist(), resamples=5)
    assert list(values) == list(of.RESAMPLED)
    for number, row in enumerate(np.random.default_rng(0).integers(len(rows), size=(5, len(rows)))):
        plain = m.standard_measures(confidence[row], correct[row], domains[row].tolist())
        for name in of.RESAMPLED:
            assert values[name][number] == pytest.approx(plain[name], abs=1e-12, nan_ok=True), name


def test_intervals_leave_out_undefined_resamples_and_calibration_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert percentile_interval([1.0, 1.0, math.nan, math.nan]) == Interval(1.0, 1.0)
    assert math.isnan(percentile_interval([1.0, math.nan, math.nan]).low)
    fewest = of.FEWEST_RESAMPLES
    for count, resamples in ((50, 300), (of.MOST_DRAWN // fewest + 1, fewest)):
        drawn = resampled_measures(*two(count)[0], resamples=300)
        assert {len(values) for values in drawn.values()} == {resamples}
    with pytest.raises(ParameterError, match="number of resamples"):
        resampled_measures([1.0], [1], resamples=0)
    with pytest.raises(ParameterError, match="not 2 and 1"):
        paired_differences([0.1, 0.2], [1, 0], [0.1], [1])
    whole = resampled_measures(*two(60)[0], resamples=20)
    monkeypatch.setattr(of, "_equal_mass_error", lambda *_: pytest.fail("a calibration error is resampled"))
    spans = of.intervals(*two(60)[0], resamples=20)
    assert set(spans) == set(m.MEASURES) - set(m.OF_BINS)
    for name in ("auroc", "auroc_within", "mean_confidence"):
        assert spans[name] == percentile_interval(whole[name])


def test_a_difference_is_that_of_the_same_drawn_questions_on_both_sides() -> None:
    (a, right_a), (b, right_b) = two(61)
    rows = np.random.default_rng(0).integers(61, size=(60, 61))
    drawn = [(m.standard_measures(b[row], right_b[row]), m.standard_measures(a[row], right_a[row])) for row in rows]
    of_a, of_b = m.standard_measures(a, right_a), m.standard_measures(b, right_b)
    cases = list(product((0, 1), repeat=2))
    with_four = {  # the differences of the questions, and one question with each pair of grades
        "brier": [*((b - right_b) ** 2 - (a - right_a) ** 2), *((b - y) ** 2 - (a - x) ** 2 for x, y in cases)],
        "accuracy": [*(1.0 * right_b - right_a), *(np.full(61, y - x) for x, y in cases)],
    }
    for name, actual in paired_differences(a, right_a, b, right_b, resamples=60).items():
        whole = of_b[name] - of_a[name]
        if name in with_four:
            singles, added = with_four[name][:61], np.array(with_four[name][61:])
            first, second = sum(singles) + added.mean(1).sum(), np.square(singles).sum() + (added**2).mean(1).sum()
            reach = 1.96 * math.sqrt(second / 65 - (first / 65) ** 2) / math.sqrt(65)
        else:
            low, high = np.quantile([one[name] - other[name] for one, other in drawn], [0.025, 0.975])
            reach = max(abs(low - whole), abs(high - whole))
        assert (actual.a, actual.b, actual.difference) == (of_a[name], of_b[name], whole)
        assert (actual.interval.low, actual.interval.high) == pytest.approx((whole - reach, whole + reach), abs=1e-12)
        assert (actual.rises, actual.falls) == (whole > reach, whole < -reach)
    same = paired_differences(a, right_a, a, right_a, resamples=60)
    assert {(alike.difference, alike.interval) for alike in same.values()} == {(0.0, Interval(0.0, 0.0))}
    few = paired_differences(*(side[: of.FEWEST_COMPARED - 1] for side in (a, right_a, b, right_b)), resamples=9)
    assert {(math.isnan(one.interval.low), one.rises, one.falls) for one in few.values()} == {(True, False, False)}


def test_discrimination_needs_some_right_and_some_wrong_answers_on_both_sides() -> None:
    (a, _), (b, _) = two(40)
    even, few, enough = ([1] * count + [0] * (40 - count) for count in (20, 4, of.FEWEST_OF_A_KIND))

    def undefined(right_a: list[int], right_b: list[int]) -> list[bool]:
        actual = paired_differences(a, right_a, b, right_b, resamples=50)
        return [math.isnan(actual[name].interval.low) for name in ("auroc", "ece")]

    assert undefined(even, enough) == undefined(enough, even) == [False, False]
    assert undefined(even, few) == undefined(few, even) == [True, False]


SHARE = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 10).map(lambda k: k / 10))
SHARES = st.lists(st.tuples(SHARE, SHARE), min_size=1, max_size=30)
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
@given(SHARES)
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
