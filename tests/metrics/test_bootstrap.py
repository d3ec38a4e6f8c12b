"""Bootstrap intervals of measures and of paired differences against plain recomputations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.errors import ParameterError
from secl.metrics import bootstrap
from secl.metrics.bootstrap import (
    FEWEST_COMPARED,
    FEWEST_OF_A_KIND,
    FEWEST_RESAMPLES,
    MOST_DRAWN,
    Interval,
    intervals,
    paired_differences,
    percentile_interval,
    resampled_measures,
)
from secl.metrics.standard import MEASURES, OF_BINS, standard_measures

Pair = tuple[np.ndarray, np.ndarray]


def two(count: int) -> tuple[Pair, Pair]:
    """An overconfident and a calibrated confidence of the same questions, answered a little differently."""
    generator = np.random.default_rng(0)
    chance = generator.random(count)
    right = generator.random(count) < chance
    other = right ^ (generator.random(count) < 0.1)
    return (0.5 + chance / 2, right), (chance, other)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.sampled_from("ab")), min_size=1, max_size=30))
def test_measures_of_resamples_are_the_plain_ones_of_the_same_draws(rows: list[tuple[int, bool, str]]) -> None:
    confidence, correct = np.array([k / 10 for k, _, _ in rows]), np.array([y for _, y, _ in rows])
    domains = np.array([domain for *_, domain in rows])
    values = resampled_measures(confidence, correct, domains=domains.tolist(), resamples=5)
    assert list(values) == list(MEASURES)
    drawn = np.random.default_rng(0).integers(len(rows), size=(5, len(rows)))
    for number, row in enumerate(np.sort(drawn, axis=1)):  # adaptive ECE takes ties in the order given
        plain = standard_measures(confidence[row], correct[row], domains[row].tolist())
        for name, expected in plain.items():
            assert values[name][number] == pytest.approx(expected, abs=1e-12, nan_ok=True), name


def test_intervals_leave_out_undefined_resamples_and_calibration_errors_and_draw_less_of_many_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert percentile_interval([1.0, 1.0, math.nan, math.nan]) == Interval(1.0, 1.0)
    assert math.isnan(percentile_interval([1.0, math.nan, math.nan]).low)
    for count, resamples in ((50, 300), (MOST_DRAWN // FEWEST_RESAMPLES + 1, FEWEST_RESAMPLES)):
        drawn = resampled_measures(*two(count)[0], resamples=300)
        assert {len(values) for values in drawn.values()} == {resamples}
    with pytest.raises(ParameterError, match="number of resamples"):
        resampled_measures([1.0], [1], resamples=0)
    with pytest.raises(ParameterError, match="not 2 and 1"):
        paired_differences([0.1, 0.2], [1, 0], [0.1], [1])
    whole = resampled_measures(*two(60)[0], resamples=20)
    monkeypatch.setattr(bootstrap, "_equal_mass_error", lambda *_: pytest.fail("a calibration error is resampled"))
    spans = intervals(*two(60)[0], resamples=20)
    assert spans == {name: percentile_interval(whole[name]) for name in MEASURES if name not in OF_BINS}


def test_a_difference_is_that_of_the_same_drawn_questions_on_both_sides() -> None:
    (a, right_a), (b, right_b) = two(61)
    rows = np.random.default_rng(0).integers(61, size=(60, 61))
    drawn = [(standard_measures(b[row], right_b[row]), standard_measures(a[row], right_a[row])) for row in rows]
    of_a, of_b = standard_measures(a, right_a), standard_measures(b, right_b)
    for name, actual in paired_differences(a, right_a, b, right_b, resamples=60).items():
        whole = of_b[name] - of_a[name]
        low, high = np.quantile([one[name] - other[name] for one, other in drawn], [0.025, 0.975])
        reach = max(abs(low - whole), abs(high - whole))
        assert (actual.a, actual.b, actual.difference) == (of_a[name], of_b[name], whole)
        assert (actual.interval.low, actual.interval.high) == pytest.approx((whole - reach, whole + reach), abs=1e-12)
        assert (actual.rises, actual.falls) == (whole > reach, whole < -reach)
    same = paired_differences(a, right_a, a, right_a, resamples=60)
    assert {(alike.difference, alike.interval) for alike in same.values()} == {(0.0, Interval(0.0, 0.0))}
    few = paired_differences(*(side[: FEWEST_COMPARED - 1] for side in (a, right_a, b, right_b)), resamples=60)
    assert {(math.isnan(one.interval.low), one.rises, one.falls) for one in few.values()} == {(True, False, False)}


def test_the_interval_of_an_ece_difference_mostly_holds_the_truth_where_percentiles_do_not() -> None:
    """A calibrated confidence spread over all bins against one in a single bin: the bias of ECE points one way."""
    generator = np.random.default_rng(2)
    ours = theirs = 0
    for _ in range(30):
        chance = generator.beta(1.5, 1.5, 200)
        right = generator.random(200) < chance
        stated = np.full(200, 0.88)
        truth = -0.38  # ECE 0 minus 0.88 - 0.5
        actual = paired_differences(stated, right, chance, right, resamples=100)["ece"]
        draws = [resampled_measures(c, right, resamples=100)["ece"] for c in (stated, chance)]
        low, high = np.quantile(draws[1] - draws[0], [0.025, 0.975])
        ours += actual.interval.low <= truth <= actual.interval.high
        theirs += low <= truth <= high
    assert ours >= 22
    assert theirs <= 12


def test_discrimination_needs_some_right_and_some_wrong_answers_on_both_sides() -> None:
    (a, _), (b, _) = two(40)
    even, few, enough = ([1] * count + [0] * (40 - count) for count in (20, 4, FEWEST_OF_A_KIND))

    def undefined(right_a: list[int], right_b: list[int]) -> list[bool]:
        actual = paired_differences(a, right_a, b, right_b, resamples=50)
        return [math.isnan(actual[name].interval.low) for name in ("auroc", "ece")]

    assert undefined(even, enough) == undefined(enough, even) == [False, False]
    assert undefined(even, few) == undefined(few, even) == [True, False]
