"""Constants and maps: the baselines that cost nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from secl.evaluation.baselines import FOLDS
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.summary import summarise
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
        assert [each.confidence for each in series.estimates] == pytest.approx([0.95, 0.95, 0.55, 0.55])
        assert [each.correct for each in series.estimates] == list(grades)
    assert ESTIMATORS["constant"].estimate([]).estimates == ()
    assert not ESTIMATORS["constant"].needs_labels


def test_the_constant_with_labels_is_the_share_right_in_the_other_folds(make_record: MakeRecord) -> None:
    grades = [place % 4 == 0 for place in range(40)]
    records = [make_record(place, frozen_digit=place % 10, frozen_correct=grade) for place, grade in enumerate(grades)]
    records.append(make_record(40, frozen_correct=None))
    estimates = ESTIMATORS["constant_labelled"].estimate(records).estimates
    assert [each.position for each in estimates] == list(range(40))
    by_confidence: dict[float, list[bool]] = {}
    for each in estimates:
        by_confidence.setdefault(round(each.confidence, 6), []).append(bool(each.correct))
    assert len(by_confidence) <= FOLDS
    assert sum(each.confidence for each in estimates) / 40 == pytest.approx(0.25)
    for confidence, inside in by_confidence.items():
        # Folds of eight answers: folds of one confidence have equally many right ones.
        right = sum(inside) * 8 // len(inside)
        assert confidence == pytest.approx((10 - right) / 32, abs=1e-5)


def test_every_run_has_the_constants_beside_the_maps_of_the_stated_confidence(make_record: MakeRecord) -> None:
    records = [make_record(place, frozen_correct=place % 2 == 0) for place in range(60)]
    summary = summarise(records, intervals=False)
    for name in ("stated", "stated_temperature", "stated_platt", "constant", "constant_labelled"):
        assert summary.estimators[name].n == 60
        assert summary.estimators[name].cost_measured == 1.0
    assert summary.estimators["constant_labelled"].brier == pytest.approx(0.25, abs=0.03)
    assert "constant_labelled" not in summarise(records[:4], intervals=False).estimators
