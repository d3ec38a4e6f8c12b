"""Intervals of calibration errors: where they must lie, and that they hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.metrics.calibration import ada_ece, ece, ece_floor
from secl.metrics.error_interval import ada_ece_interval, ece_interval

ANSWERS = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60)


@given(ANSWERS)
def test_they_hold_the_observed_error_and_stay_within_0_and_1(answers: list[tuple[float, bool]]) -> None:
    confidences, grades = map(list, zip(*answers, strict=True))
    for interval, error in (
        (ece_interval(confidences, grades, draws=50), ece(confidences, grades)),
        (ada_ece_interval(confidences, grades, draws=50), ada_ece(confidences, grades)),
    ):
        assert -1e-9 <= interval.low <= error + 1e-9
        assert error - 1e-9 <= interval.high <= 1.0 + 1e-9


@pytest.mark.parametrize("excess", [0.0, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("size", [100, 600])
def test_at_least_nine_of_ten_hold_the_truth(excess: float, size: int) -> None:
    held = 0
    for number in range(100):
        draw = np.random.default_rng((size, number))
        confidences = 0.2 + 0.75 * draw.random(size)
        grades = draw.random(size) < confidences - excess
        interval = ece_interval(confidences, grades, draws=100, seed=number)
        held += interval.low - 1e-9 <= excess <= interval.high + 1e-9
    assert held >= 90  # 95 on average; with percentiles of the bootstrap none at an excess of 0


def test_an_error_that_chance_may_have_made_can_be_none() -> None:
    draw = np.random.default_rng(3)
    confidences = draw.random(300)
    grades = draw.random(300) < confidences
    assert ece(confidences, grades) <= ece_floor(confidences).upper
    assert ece_interval(confidences, grades).low == 0.0
