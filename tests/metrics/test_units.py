"""Answers of one unit (a document, a text, a repeated question) may be wrong together: intervals allow for it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.coverage import UNIT_SIZE, draw_units
from secl.errors import ParameterError
from secl.evaluation.acceptance import units_of
from secl.evaluation.compare import Side, check, compare
from secl.evaluation.summary import measure, own_score, summarise
from secl.evaluation.trust import assess
from secl.metrics import intervals as of
from secl.metrics import measures as m
from secl.records import Record
from tests.answers import answered


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.sampled_from("abcdefg")), min_size=12, max_size=40))
def test_a_resample_is_of_whole_units(rows: list[tuple[int, bool, str]]) -> None:
    confidence, correct = np.array([k / 10 for k, _, _ in rows]), np.array([y for _, y, _ in rows])
    names = [unit for *_, unit in rows]
    units = list(dict.fromkeys(names))
    drawn = of.resampled_measures(confidence, correct, units=names, resamples=5)
    for number, row in enumerate(np.random.default_rng(0).integers(len(units), size=(5, len(units)))):
        answers = [i for each in row.tolist() for i, name in enumerate(names) if name == units[each]]
        plain = m.standard_measures(confidence[answers], correct[answers])
        # Bins of equal numbers of answers depend on the smallest resample, so they have tests of their own.
        for name in ("ece", "auroc", "mean_confidence"):
            assert drawn[name][number] == pytest.approx(plain[name], abs=1e-12, nan_ok=True), name


def test_units_of_one_answer_change_nothing() -> None:
    confidence, correct = draw_units(np.random.default_rng(1), 10, 0.3)
    alone = measure(confidence, correct, units=list(range(confidence.size)))
    assert alone == measure(confidence, correct)
    with pytest.raises(ParameterError, match="units has 2 entries; it needs one for each of the 80 answers"):
        measure(confidence, correct, units=[1, 2])


def test_the_design_effect_lies_between_independent_and_equal_answers() -> None:
    draw = np.random.default_rng(0)
    units = np.repeat(np.arange(200), UNIT_SIZE).tolist()
    together = np.repeat(draw.random(200) < 0.7, UNIT_SIZE)
    apart = draw.random(together.size) < 0.7
    assert of.design_effect(together, units) == pytest.approx(UNIT_SIZE, abs=0.5)
    assert of.design_effect(apart, units) == pytest.approx(1.0, abs=0.4)
    assert of.design_effect(np.ones(1600), units) == UNIT_SIZE  # equal values: the prior alone
    assert of.design_effect([1, 0, 0], ["one"] * 3) == 3.0


@pytest.mark.parametrize("together", [0.3, 1.0])
def test_nine_of_ten_intervals_hold_the_truth_where_documents_are_wrong_together(
    together: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, "DRAWS", 50)
    truth = m.standard_measures(*draw_units(np.random.default_rng(0), 50_000, 0.0))
    names, held = np.repeat(np.arange(40), UNIT_SIZE).tolist(), dict.fromkeys(("accuracy", "brier", "ece", "auroc"), 0)
    for number in range(60):
        answers = draw_units(np.random.default_rng((7, number)), 40, together)
        spans = measure(*answers, units=names, resamples=200).intervals or {}
        for name in held:
            held[name] += spans[name].low - 1e-3 <= truth[name] <= spans[name].high + 1e-3
    assert min(held.values()) >= 51, held  # without units, about 35 at 1.0 and 47 at 0.3


def passages(count: int, each: int) -> list[Record]:
    """Calibrated records of `count` passages with `each` questions, which are right or wrong together."""
    luck = np.random.default_rng(3).random(count)
    of_answer = np.repeat(np.arange(count), each).tolist()
    records = answered([0.8] * len(of_answer), [bool(luck[passage] < 0.8) for passage in of_answer])
    return [
        replace(record, question=replace(record.question, text=f"Question {number}?", context=f"Passage {passage}."))
        for number, (record, passage) in enumerate(zip(records, of_answer, strict=True))
    ]


def apart(records: list[Record]) -> list[Record]:
    """The same answers, each about a passage of its own."""
    return [replace(each, question=replace(each.question, context=f"Passage of {each.position}.")) for each in records]


def test_comparisons_and_their_floors_know_the_passages() -> None:
    records = passages(30, 8)
    floors, widths = [], []
    for answers in (records, apart(records)):
        sides = [Side(answers, len(answers), own_score(of, name)) for name, of in (("high", high), ("low", low))]
        (found,) = compare(*sides)
        interval = found.measures["brier"].interval
        floors.append(found.floors["a"].upper)
        widths.append(interval.high - interval.low)
    assert floors[0] > 1.5 * floors[1]
    assert widths[0] > 1.5 * widths[1]
    series = {"stated": sides[0].series, "norm_p_true": sides[1].series}
    (known, blind) = (check(series, units).signal["brier"].interval for units in (units_of(records).tolist(), None))
    assert known.high - known.low > 1.5 * (blind.high - blind.low)


def high(record: Record) -> float:
    return record.confidence


def low(record: Record) -> float:
    return record.confidence / 2


def test_summaries_and_verdicts_know_the_passages() -> None:
    records = passages(12, 10)
    assert len({*units_of(records).tolist()}) == 12
    others = apart(records)
    (shared, alone) = (
        next(iter(summarise(each, [lambda record: record.confidence]).estimators.values()))
        for each in (records, others)
    )
    assert shared.brier == alone.brier
    for name in ("accuracy", "brier", "ece"):
        wide, narrow = ((row.intervals or {})[name] for row in (shared, alone))
        assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low), name
    assert shared.ece_floor_95 > 2 * alone.ece_floor_95
    (few,) = [reason for reason in assess(records).reasons if reason.code == "few_labels"]
    assert "Only 12 documents have a label or a reference; label 38 more documents" in few.sentence
    assert all(reason.code != "few_labels" for reason in assess(others).reasons)
    assert math.isclose(assess(records).accuracy, shared.accuracy)


@pytest.mark.parametrize(("confidence", "units"), [([0.7], None), ([0.7, 0.4, 0.9], ["a", "a", "a"])])
def test_one_unit_has_no_interval_of_its_mean_confidence(confidence: list[float], units: list[str] | None) -> None:
    found = of.intervals(confidence, [True] * len(confidence), units=units)
    assert math.isnan(found["mean_confidence"].low)
    assert math.isnan(found["mean_confidence"].high)
    assert not math.isnan(found["accuracy"].low)
