"""From records to numbers: who is compared with what, what counts, labels as grades, constants, and strict JSON."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from secl import Store, summarise
from secl.evaluation import summary as summary_module
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.json_values import json_value
from secl.evaluation.measures import Measures, measure
from secl.labels.label import label_of
from secl.metrics.bootstrap import percentile_interval, resampled_measures
from secl.metrics.calibration import ece_floor
from secl.metrics.discrimination import prr
from secl.metrics.error_interval import ada_ece_interval, ece_interval
from secl.metrics.recalibration import FOLDS
from secl.metrics.standard import MEASURES, standard_measures
from secl.records import Decision
from secl.runs.labelling import current_records
from tests.answers import answered, make_record, make_stream, run_folder

LEARNED = {name: ESTIMATORS[name] for name in ("stated", "p_true", "norm_p_true", "secl")}


def test_measures_are_those_of_the_maths_with_their_intervals() -> None:
    generator, domains = np.random.default_rng(0), ["even", "odd"] * 60
    confidence = generator.random(120)
    correct = generator.random(120) < confidence
    measures = measure(confidence, correct, domains=domains, resamples=60)
    assert measures.n == 120
    assert {name: getattr(measures, name) for name in MEASURES} == standard_measures(confidence, correct, domains)
    values = resampled_measures(confidence, correct, domains=domains, resamples=60)
    expected = {name: percentile_interval(values[name]) for name in MEASURES} | {
        "ece": ece_interval(confidence, correct),
        "ada_ece": ada_ece_interval(confidence, correct),
    }
    assert measures.intervals == expected
    assert list(measures.intervals) == list(MEASURES)
    floor = ece_floor(confidence)
    assert (measures.ece_floor, measures.ece_floor_95, measures.ece_within_floor) == (floor.mean, floor.upper, True)
    assert measure(confidence / 2, correct, resamples=0).ece_within_floor is False
    assert measures.prr == prr(confidence, correct)
    nothing = measure([], [])
    assert all(math.isnan(getattr(nothing, name)) for name in MEASURES)
    assert nothing.intervals is not None
    assert all(math.isnan(nothing.intervals[name].high) for name in MEASURES)


def test_each_confidence_is_graded_by_the_answer_it_belongs_to() -> None:
    records = [
        make_record(0, digit=3, frozen_digit=9, correct=True, frozen_correct=False, p_true=(0.7, 0.1), signal=0.8),
        make_record(1, digit=4, frozen_digit=8, correct=False, frozen_correct=True),
        make_record(2, digit=5, frozen_digit=7, correct=None, frozen_correct=None, p_true=(0.2, 0.3), signal=None),
    ]

    def check(name: str, confidence: list[float], correct: list[float]) -> None:
        series = LEARNED[name].estimate(records)
        assert series.confidence.tolist() == pytest.approx(confidence)
        assert series.correct.tolist() == pytest.approx(correct, nan_ok=True)

    check("stated", [0.95, 0.85, 0.75], [0, 1, math.nan])
    check("secl", [0.35, 0.45, 0.55], [1, 0, math.nan])
    check("p_true", [0.7, 0.2], [1, math.nan])
    check("norm_p_true", [0.7 / 0.8, 0.2 / 0.5], [1, math.nan])
    summary = summarise(records)
    assert [summary.estimators[name].n for name in ("stated", "p_true", "norm_p_true", "secl")] == [2, 1, 1, 2]
    assert summary.estimators["secl"].ece == pytest.approx(0.55)
    assert summary.estimators["stated"].brier == pytest.approx((0.95**2 + 0.15**2) / 2)
    assert summary.unlabelled == 1


def test_the_counts_are_about_all_questions_and_the_papers_own_costs_come_out() -> None:
    fired = Decision(alarm=True, in_burst=True, remaining=2, statistic=9.0)
    inside = Decision(alarm=False, in_burst=True, remaining=1, statistic=None)
    records = [
        make_record(0, decision=fired, outcome="trained", tokens=1400.0),
        make_record(1, decision=inside, outcome="agreed", answer=None, digit_mass=0.49, tokens=600.0),
        make_record(2, decision=inside, outcome="no_signal", digit_mass=0.5),
        make_record(3, correct=None, frozen_correct=None),
    ]
    summary = summarise(records, intervals=False)
    ones = dict.fromkeys(("unlabelled", "trained", "alarms", "agreed", "unparsed", "low_digit_mass"), 1)
    expected = {"questions": 4, "burst": 3, "answered_best": 0, **ones}
    assert {key: getattr(summary, key) for key in expected} == expected
    assert summary.cost_measured == 2200.0 / 400.0
    for trained, passes in ((512, 9168), (119, 3666)):  # of its table cost, for 2,000 questions of each model
        records = [make_record(number, outcome="trained" if number < trained else "idle") for number in range(2000)]
        summary = summarise(records, {"secl": LEARNED["secl"]}, intervals=False)
        assert summary.estimators["secl"].cost_paper * 2000 == pytest.approx(passes)


def test_domains_are_summaries_of_their_own_records() -> None:
    records = make_stream(80)
    summary = summarise(records, LEARNED, intervals=False)
    assert list(summary.domains) == ["arc $challenge$", "truthful_qa"]
    for domain, part in summary.domains.items():
        alone = summarise([record for record in records if record.question.domain == domain], LEARNED, intervals=False)
        assert json_value(part) == {**json_value(alone), "domains": {}}
    assert sum(part.questions for part in summary.domains.values()) == 80


def test_intervals_inside_domains_are_those_asked_for_in_the_largest_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "DOMAINS", 3)
    with_intervals: list[bool] = []

    def counting(*args: Any, resamples: int, **given: Any) -> Measures:
        with_intervals.append(resamples > 0)
        return measure(*args, resamples=min(resamples, 5), **given)

    monkeypatch.setattr(summary_module, "measure", counting)
    domains = [f"domain {number}" for number in range(20) for _ in range(2 if number in (4, 7, 11) else 1)]
    records = [
        make_record(position, digit=8, p_true=(0.7, 0.2), domain=domain) for position, domain in enumerate(domains)
    ]
    summary = summarise(records, LEARNED, in_domains=["stated", "secl"])
    counted = {name for name in LEARNED if name in summary.estimators}
    assert {"stated", "secl"} < counted
    assert sum(with_intervals) == len(counted) + 2 * 3
    assert len(with_intervals) == len(counted) * 21
    assert {
        (domain, name)
        for domain, part in summary.domains.items()
        for name, row in part.estimators.items()
        if row.intervals is not None
    } == {(f"domain {number}", name) for number in (4, 7, 11) for name in ("stated", "secl")}


def test_a_summary_is_strict_json_with_null_for_what_is_undefined() -> None:
    whole = summarise([make_record(position, correct=None, frozen_correct=True) for position in range(3)])
    summary = json_value(whole)["estimators"]
    costs = {"cost_paper": 1.0, "cost_measured": 1.0, "fitted": None}
    shown = [each.name for each in fields(Measures) if not each.metadata]
    assert summary["secl"] == dict.fromkeys(shown) | {"n": 0, "intervals": dict.fromkeys(MEASURES), **costs}
    assert list(summary["secl"])[:4] == ["n", "brier", "ece", "ece_floor"]
    assert summary["stated"]["auroc"] is None
    assert summary["stated"]["intervals"]["auroc"] is None
    assert summary["stated"]["intervals"]["accuracy"] == [1.0, 1.0]
    assert json.loads(json.dumps(json_value(whole), allow_nan=False)) == json_value(whole)


def test_a_label_grades_every_equal_reply_and_moved_confidences_have_a_row(tmp_path: Path) -> None:
    records = [make_record(n, digit=8, correct=None, frozen_correct=None) for n in range(12)]
    same = records[0].with_label(False)
    assert (same.label, same.correct, same.frozen_correct) == (False, False, False)
    other = replace(records[0], frozen=replace(records[0].frozen, answer="X")).with_label(True)
    assert (other.correct, other.frozen_correct) == (True, None)
    assert "stated_with_labels" not in summarise(records).estimators
    with Store(run_folder(tmp_path / "run", records), writable=True) as store:
        for record in records:
            store.add_label(label_of(record, record.position % 4 == 0, number=record.position + 1))
        assert list(store.records()) == records  # what was recorded stays
        current = list(current_records(store))
    rows = summarise(current).estimators
    shown, stated = rows["stated_with_labels"], rows["stated"]
    assert shown.mean_confidence == pytest.approx(fmean(each.confidence for each in current))
    assert shown.brier < stated.brier
    assert "posterior_with_labels" not in rows


def test_the_constant_is_the_mean_of_what_was_stated_before_or_the_share_right_in_the_other_folds() -> None:
    for grades in ((True, False, None, True), (False, False, False, None)):  # without labels it sees none
        records = [make_record(n, frozen_digit=(9, 1, 5, 3)[n], frozen_correct=grade) for n, grade in enumerate(grades)]
        series = ESTIMATORS["constant"].estimate(records)
        assert series.confidence.tolist() == pytest.approx([0.95, 0.95, 0.55, 0.55])
        known = [math.nan if grade is None else float(grade) for grade in grades]
        assert series.correct.tolist() == pytest.approx(known, nan_ok=True)
    assert len(ESTIMATORS["constant"].estimate([])) == 0
    assert not ESTIMATORS["constant"].needs_labels
    records = [make_record(n, frozen_digit=n % 10, frozen_correct=n % 4 == 0 if n < 40 else None) for n in range(41)]
    assert "constant_labelled" not in summarise(records[:4], intervals=False).estimators
    series = ESTIMATORS["constant_labelled"].estimate(records)
    assert series.positions.tolist() == list(range(40))
    by_confidence: dict[float, list[bool]] = {}
    for confidence, correct in zip(series.confidence.tolist(), series.correct.tolist(), strict=True):
        by_confidence.setdefault(round(confidence, 6), []).append(bool(correct))
    assert len(by_confidence) <= FOLDS
    assert series.confidence.mean() == pytest.approx(0.25)
    for confidence, inside in by_confidence.items():
        # Folds of eight answers: folds of one confidence have equally many right ones.
        right = sum(inside) * 8 // len(inside)
        assert confidence == pytest.approx((10 - right) / 32, abs=1e-5)
    rows = summarise(answered([0.9, 0.3] * 30, [True, False, True] * 20)).estimators
    for row in (rows["constant"], rows["constant_labelled"]):  # their order is not measured
        assert math.isnan(row.auroc + row.auroc_within + row.prr)
        assert row.intervals is not None
        assert math.isnan(row.intervals["auroc"].low)
        assert not math.isnan(row.ece + row.brier + row.intervals["brier"].low)
    assert not math.isnan(rows["stated"].auroc)
