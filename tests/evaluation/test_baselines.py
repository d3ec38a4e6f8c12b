"""Constants and maps: the baselines that cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.summary import summarise
from secl.metrics.recalibration import FOLDS
from secl.records import Record

MakeRecord = Callable[..., Record]


def test_the_constant_is_the_mean_of_what_was_stated_before_and_sees_no_label(make_record: MakeRecord) -> None:
    digits = (9, 1, 5, 3)
    for grades in ((True, False, None, True), (False, False, False, None)):
        records = [
            make_record(place, frozen_digit=digit, frozen_correct=grade)
            for place, (digit, grade) in enumerate(zip(digits, grades, strict=True))
        ]
        series = ESTIMATORS["constant"].estimate(records)
        assert series.confidence.tolist() == pytest.approx([0.95, 0.95, 0.55, 0.55])
        known = [math.nan if grade is None else float(grade) for grade in grades]
        assert series.correct.tolist() == pytest.approx(known, nan_ok=True)
    assert len(ESTIMATORS["constant"].estimate([])) == 0
    assert not ESTIMATORS["constant"].needs_labels


def test_the_constant_with_labels_is_the_share_right_in_the_other_folds(make_record: MakeRecord) -> None:
    grades = [place % 4 == 0 for place in range(40)]
    records = [make_record(place, frozen_digit=place % 10, frozen_correct=grade) for place, grade in enumerate(grades)]
    records.append(make_record(40, frozen_correct=None))
    series = ESTIMATORS["constant_labelled"].estimate(records)
    assert series.positions.tolist() == list(range(40))
    assert "constant_labelled" not in summarise(records[:4], intervals=False).estimators
    by_confidence: dict[float, list[bool]] = {}
    for confidence, correct in zip(series.confidence.tolist(), series.correct.tolist(), strict=True):
        by_confidence.setdefault(round(confidence, 6), []).append(bool(correct))
    assert len(by_confidence) <= FOLDS
    assert series.confidence.mean() == pytest.approx(0.25)
    for confidence, inside in by_confidence.items():
        # Folds of eight answers: folds of one confidence have equally many right ones.
        right = sum(inside) * 8 // len(inside)
        assert confidence == pytest.approx((10 - right) / 32, abs=1e-5)
