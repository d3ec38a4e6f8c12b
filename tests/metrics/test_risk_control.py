"""Thresholds against hand-computed bounds, the definition, and simulated streams whose risk is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from secl.errors import ParameterError
from secl.metrics.risk_control import estimated, fewest_labels, guaranteed, labels_needed, risk_bound, risk_coverage

NAN = math.nan


def tail(wrong: int, labels: int, risk: Fraction) -> Fraction:
    """P(Binomial(labels, risk) <= wrong), in whole numbers."""
    terms = (math.comb(labels, k) * risk**k * (1 - risk) ** (labels - k) for k in range(wrong + 1))
    return sum(terms, Fraction(0))


def test_a_bound_is_the_risk_at_which_so_few_errors_are_just_too_unlikely() -> None:
    # Without an error: (1 - r)^n = delta. With all wrong, or no label, nothing is excluded.
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
    # 100 right ones, then 100 wrong ones, then 2,000 right ones: below the wrong ones all is well again, but too late.
    correct = np.concatenate([np.ones(100), np.zeros(100), np.ones(2000)])
    assert (found := guaranteed(risk_coverage(np.linspace(0.99, 0.01, 2200), correct), 0.1, 0.9))
    assert 100 <= found.labels < 120
    # A third of the answers is above 0.8 and always right: 22 labels there, 66 in all.
    few, enough = (risk_coverage(np.tile([0.9, 0.6, 0.3], k), np.tile([1, 0, 0], k)) for k in (20, 22))
    assert guaranteed(few, 0.1, 0.9) is None
    assert labels_needed(few, 0.1, 0.9) == 66
    assert (found := guaranteed(enough, 0.1, 0.9))
    assert found.labels == 22
    # The estimate is the mean of what the confidences leave.
    curve = risk_coverage([0.95, 0.85, 0.6], [NAN] * 3)
    assert (estimate := estimated(curve, 0.1))
    assert (estimate.coverage, estimate.expected) == pytest.approx((2 / 3, 0.1))
    assert estimated(curve, 0.01) is None


def test_what_is_no_risk_or_no_answer_is_refused() -> None:
    for risk in (0.0, 5e-324, 1e-10, 1.0, NAN):  # no float is as large as the labels for 5e-324
        with pytest.raises(ParameterError, match="risk must lie from 1e-09 to 1, without 1"):
            guaranteed(risk_coverage([0.5], [1]), risk, 0.9)
    assert risk_bound(0, fewest_labels(1e-9, 0.9), 0.9) <= 1e-9 < risk_bound(0, fewest_labels(1e-9, 0.9) - 1, 0.9)
    with pytest.raises(ParameterError, match="certainty"):
        guaranteed(risk_coverage([0.5], [1]), 0.1, 1.0)
    for confidence, correct in (([0.5], [1, 0]), ([1.5], [1]), ([0.5], [0.5]), ([0.5], [math.inf])):
        with pytest.raises(ParameterError):
            risk_coverage(confidence, correct)


Right = Callable[[np.ndarray], np.ndarray]


def simulated(right: Right, risk: float, labels: int, streams: int, seed: int) -> tuple[float, float]:
    """The share of streams in which the promised risk is kept, and the mean coverage.

    400 answers have Beta(4, 1) confidences, some have labels; the risk of a threshold is known from 100,000 others.
    """
    generator = np.random.default_rng(seed)
    many = np.sort(generator.beta(4, 1, 100_000))[::-1]
    risks = np.cumsum(1 - right(many)) / np.arange(1, len(many) + 1)
    kept, coverage = 0, 0.0
    for _ in range(streams):
        confidence = generator.beta(4, 1, 400)
        correct = (generator.random(400) < right(confidence)).astype(float)
        correct[labels:] = NAN
        found = guaranteed(risk_coverage(confidence, correct), risk, 0.9)
        if found is None:
            kept += 1
            continue
        accepted = int(np.searchsorted(-many, -found.value, side="right"))
        kept += bool(risks[max(accepted, 1) - 1] <= risk)
        coverage += found.coverage / streams
    return kept / streams, coverage


@pytest.mark.parametrize(
    ("right", "least"),
    [
        (lambda c: c**1.5, 0.4),  # overconfident
        (lambda c: np.full(len(c), 0.79), 0.0),  # confidences that mean nothing, and all answers just too bad
    ],
)
def test_in_200_streams_the_promised_risk_is_kept_in_nine_of_ten(right: Right, least: float) -> None:
    kept, coverage = simulated(right, 0.2, 100, 200, seed=5)
    assert kept >= 0.9
    assert coverage >= least
