"""The ECE that chance alone makes, and ranking inside domains."""

from __future__ import annotations

import math

import numpy as np
import pytest

from secl.errors import ParameterError
from secl.metrics import calibration
from secl.metrics.calibration import ece, ece_floor
from secl.metrics.discrimination import auroc_within


@pytest.mark.parametrize(("questions", "mean", "upper"), [(450, 0.049, 0.072), (2000, 0.023, 0.034)])
def test_the_floor_of_a_perfect_forecaster_is_that_of_the_literature_study(
    questions: int, mean: float, upper: float
) -> None:
    # Beta(2.5, 2.5) ranks its own outcomes with an AUROC of .73.
    confidence = np.random.default_rng(0).beta(2.5, 2.5, questions)
    floor = ece_floor(confidence)
    assert floor.mean == pytest.approx(mean, abs=0.0015)
    assert floor.upper == pytest.approx(upper, abs=0.004)


def test_a_calibrated_forecaster_stays_within_the_floor_nineteen_times_in_twenty() -> None:
    generator = np.random.default_rng(5)
    confidence = generator.random(150)
    floor = ece_floor(confidence)
    errors = np.array([ece(confidence, generator.random(150) < confidence) for _ in range(400)])
    assert np.mean(errors <= floor.upper) == pytest.approx(0.95, abs=0.04)
    assert errors.mean() == pytest.approx(floor.mean, abs=0.004)


def test_there_is_no_floor_without_confidences_and_none_above_zero_for_the_certain() -> None:
    assert math.isnan(ece_floor([]).mean)
    assert math.isnan(ece_floor([]).upper)
    assert ece_floor([0.0, 1.0, 1.0]).upper == 0.0
    with pytest.raises(ParameterError, match="number of draws"):
        ece_floor([0.5], draws=0)
    with pytest.raises(ParameterError, match="confidence must lie"):
        ece_floor([1.2])


def test_auroc_within_is_the_share_of_pairs_won_inside_domains() -> None:
    generator = np.random.default_rng(0)
    confidence = np.round(generator.random(60), 1)
    correct = generator.random(60) < confidence
    domains = generator.choice(["a", "b", "c"], 60).tolist()
    pairs = [
        (confidence[i], confidence[j])
        for i in range(60)
        for j in range(60)
        if domains[i] == domains[j] and correct[i] and not correct[j]
    ]
    won = np.mean([(r > w) + (r == w) / 2 for r, w in pairs])
    assert auroc_within(confidence, correct, domains) == pytest.approx(won)


def test_beyond_some_thousand_answers_the_floor_is_that_of_normal_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence = np.random.default_rng(3).beta(2, 1, calibration.EXACT + 1)
    normal = ece_floor(confidence)
    monkeypatch.setattr(calibration, "EXACT", confidence.size)
    drawn = ece_floor(confidence)
    assert normal != drawn
    assert normal.mean == pytest.approx(drawn.mean, rel=0.05)
    assert normal.upper == pytest.approx(drawn.upper, rel=0.08)
