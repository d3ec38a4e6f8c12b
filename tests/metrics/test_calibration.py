"""Calibration and discrimination against independent libraries and a plain recomputation."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from secl.errors import ParameterError
from secl.metrics.calibration import ada_ece, brier, ece, reliability
from secl.metrics.discrimination import auroc

Pairs = list[tuple[float, bool]]
CONFIDENCE = st.one_of(st.floats(0.0, 1.0), st.integers(0, 20).map(lambda k: k / 20))
PAIRS = st.lists(st.tuples(CONFIDENCE, st.booleans()), max_size=60)
MEASURES = (ece, ada_ece, brier)


def columns(pairs: Pairs) -> tuple[list[float], list[bool]]:
    return [c for c, _ in pairs], [y for _, y in pairs]


def sample(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    confidence = generator.random(count)
    return confidence, generator.random(count) < confidence**2


def exact_ece(groups: list[Pairs], total: int) -> float:
    """ECE of given groups in rational arithmetic."""
    gaps = [abs(sum((Fraction(int(y)) - Fraction(c) for c, y in group), Fraction(0))) for group in groups]
    return float(sum(gaps, Fraction(0)) / total)


def in_bin(c: float, k: int, bins: int) -> bool:
    return k / bins <= c and (c < (k + 1) / bins or k == bins - 1)


@pytest.mark.parametrize("seed", range(5))
def test_ece_agrees_with_torchmetrics_where_no_confidence_lies_on_a_border(seed: int) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torchmetrics = pytest.importorskip("torchmetrics.classification")
    confidence, correct = sample(997, seed)
    # A two-class metric is given the confidence in "right": it bins that probability and compares it to the grade.
    theirs = torchmetrics.BinaryCalibrationError(n_bins=10, norm="l1")
    value = theirs(torch.tensor(confidence, dtype=torch.float64), torch.tensor(correct).long())
    assert ece(confidence, correct) == pytest.approx(float(value), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_brier_and_auroc_agree_with_scikit_learn(seed: int) -> None:
    confidence, correct = sample(500, seed)
    confidence = np.round(confidence, 1)  # ties
    assert brier(confidence, correct) == pytest.approx(brier_score_loss(correct, confidence), abs=1e-12)
    assert auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)


@given(PAIRS.filter(bool), st.integers(1, 15))
def test_ece_agrees_with_rational_arithmetic_with_ties_and_borders(pairs: Pairs, bins: int) -> None:
    groups = [[(c, y) for c, y in pairs if in_bin(c, k, bins)] for k in range(bins)]
    assert sum(map(len, groups)) == len(pairs)
    assert ece(*columns(pairs), bins) == pytest.approx(exact_ece(groups, len(pairs)), abs=1e-9)


@given(PAIRS.filter(bool), st.integers(1, 15))
def test_adaptive_ece_agrees_with_rational_arithmetic_with_ties(pairs: Pairs, bins: int) -> None:
    ordered = sorted(pairs, key=lambda pair: pair[0])  # Python's sort is stable
    size, longer = divmod(len(pairs), bins)
    groups, start = [], 0
    for k in range(bins):
        end = start + size + (k < longer)
        groups.append(ordered[start:end])
        start = end
    assert start == len(pairs)
    assert ada_ece(*columns(pairs), bins) == pytest.approx(exact_ece(groups, len(pairs)), abs=1e-9)


def test_the_measures_of_nothing_are_undefined() -> None:
    for metric in (*MEASURES, auroc):
        assert math.isnan(metric([], []))
    assert math.isnan(auroc([0.3, 0.4], [True, True]))


@given(PAIRS)
def test_reliability_bars_account_for_every_answer_and_for_the_ece(pairs: Pairs) -> None:
    bars = reliability(*columns(pairs))
    assert [bar.lo for bar in bars] == [k / 10 for k in range(10)]
    assert [bar.hi for bar in bars] == [k / 10 for k in range(1, 11)]
    assert sum(bar.count for bar in bars) == len(pairs)
    for bar in bars:
        if bar.count == 0:
            assert math.isnan(bar.confidence)
            assert math.isnan(bar.accuracy)
        else:
            assert bar.lo - 1e-12 <= bar.confidence <= bar.hi + 1e-12
    if pairs:
        total = sum(bar.count * abs(bar.accuracy - bar.confidence) for bar in bars if bar.count) / len(pairs)
        assert total == pytest.approx(ece(*columns(pairs)), abs=1e-9)


@pytest.mark.parametrize("metric", [*MEASURES, auroc, reliability])
@pytest.mark.parametrize(
    ("confidence", "correct", "words"),
    [
        ([0.5], [True, False], "same length"),
        ([[0.5]], [[True]], "same length"),
        ([1.1], [True], "between 0 and 1"),
        ([math.nan], [True], "between 0 and 1"),
        ([0.5], [0.5], "right .1. or wrong .0."),
        ([0.5], [math.nan], "right .1. or wrong .0."),
    ],
)
def test_every_measure_refuses_what_it_cannot_measure(
    metric: object, confidence: list[float], correct: list[float], words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        metric(confidence, correct)  # type: ignore[operator]
