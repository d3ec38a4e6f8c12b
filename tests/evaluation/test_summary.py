"""From records to numbers: what is graded and counts, labels, constants, strict JSON; two runs side by side."""

import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from secl import Question, Record
from secl.errors import RunError
from secl.evaluation import summary as summary_module
from secl.evaluation.compare import Side, compare
from secl.evaluation.json_values import json_value
from secl.evaluation.summary import Measures, measure
from secl.labels.label import label_of
from secl.labels.state import held_out
from secl.metrics import intervals as of
from secl.metrics.measures import MEASURES, ece_floor, prr, standard_measures, wilson
from secl.metrics.recalibration import FOLDS
from secl.records import Decision, Learning
from secl.reports.comparison_report import remarks
from secl.runs import Store, summarise
from secl.runs.labelling import current_records
from secl.scores import SCORES
from tests.answers import answered, make_record, make_stream, run_folder

LEARNED = [SCORES[name] for name in ("stated", "p_true", "norm_p_true", "secl")]


def test_measures_are_those_of_the_maths_with_their_intervals() -> None:
    generator, domains = np.random.default_rng(0), ["even", "odd"] * 60
    confidence = generator.random(120)
    correct = generator.random(120) < confidence
    measures = measure(confidence, correct, domains=domains, resamples=60)
    assert measures.n == 120
    assert {name: getattr(measures, name) for name in MEASURES} == standard_measures(confidence, correct, domains)
    values = of.resampled_measures(confidence, correct, domains=domains, resamples=60)
    alone = of.intervals(confidence, correct, resamples=2)
    expected = {name: of.percentile_interval(values[name]) for name in values} | {
        "brier": alone["brier"],
        "accuracy": alone["accuracy"],
        "ece": of.ece_interval(confidence, correct),
        "ada_ece": of.ada_ece_interval(confidence, correct),
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
        series = SCORES[name].estimate(records)
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
    assert math.isnan(summary.true_mass)
    # The paper's table of costs has these numbers for 2,000 questions of each model.
    for trained, passes in ((512, 9168), (119, 3666)):
        records = [make_record(number, outcome="trained" if number < trained else "idle") for number in range(2000)]
        summary = summarise(records, [SCORES["secl"]], intervals=False)
        assert summary.estimators["secl"].cost_paper * 2000 == pytest.approx(passes)


def test_domains_are_summaries_of_their_own_records() -> None:
    records = make_stream(80)
    summary = summarise(records, LEARNED, intervals=False)
    assert list(summary.domains) == ["arc $challenge$", "truthful_qa"]
    for domain, part in summary.domains.items():
        alone = summarise([record for record in records if record.question.domain == domain], LEARNED, intervals=False)
        assert json_value(part) == {**json_value(alone), "domains": {}}
    assert sum(part.questions for part in summary.domains.values()) == 80


@pytest.mark.usefixtures("few_draws")
def test_intervals_inside_domains_are_those_asked_for_in_the_largest_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "DOMAINS", 3)
    domains = [f"domain {number}" for number in range(20) for _ in range(2 if number in (4, 7, 11) else 1)]
    records = [make_record(n, digit=8, p_true=(0.7, 0.2), domain=domain) for n, domain in enumerate(domains)]
    summary = summarise(records, LEARNED, in_domains=["stated", "secl"])
    assert all(row.intervals is not None for row in summary.estimators.values())
    rows = [(domain, name, row) for domain, part in summary.domains.items() for name, row in part.estimators.items()]
    with_intervals = {(domain, name) for domain, name, row in rows if row.intervals is not None}
    assert with_intervals == {(f"domain {number}", name) for number in (4, 7, 11) for name in ("stated", "secl")}
    assert len(rows) > 3 * len(with_intervals)


def test_a_summary_is_strict_json_with_null_for_what_is_undefined() -> None:
    whole = summarise([make_record(position, correct=None, frozen_correct=True) for position in range(3)])
    summary = json_value(whole)["estimators"]
    costs = {"cost_paper": 1.0, "cost_measured": 1.0, "fitted": None}
    shown = [each.name for each in fields(Measures) if not each.metadata]
    assert summary["secl"] == dict.fromkeys(shown) | {"n": 0, "intervals": dict.fromkeys(MEASURES), **costs}
    assert list(summary["secl"])[:4] == ["n", "brier", "ece", "ece_floor"]
    assert summary["stated"]["auroc"] is None
    assert summary["stated"]["intervals"]["auroc"] is None
    assert summary["stated"]["intervals"]["accuracy"] == list(wilson(1.0, summary["stated"]["n"]))
    assert json.loads(json.dumps(json_value(whole), allow_nan=False)) == json_value(whole)


def test_a_label_grades_every_equal_reply_and_moved_confidences_have_a_row(tmp_path: Path) -> None:
    records = [make_record(n, digit=8, correct=None, frozen_correct=None) for n in range(12)]
    same = records[0].with_label(False)
    assert (same.label, same.correct, same.frozen_correct) == (False, False, False)
    learning = Learning(frozen=replace(records[0].frozen, answer="X"), frozen_correct=records[0].frozen_correct)
    other = replace(records[0], learning=learning).with_label(True)
    assert (other.correct, other.frozen_correct) == (True, None)
    assert "stated_with_labels" not in summarise(records).estimators
    with Store(run_folder(tmp_path / "run", records), writable=True) as store:
        for record in records:
            store.add_feedback(record.position, record.position % 4 == 0, drawn=True)
        assert list(store.records()) == records  # labels do not change stored records
        current = list(current_records(store))
    rows = summarise(current).estimators
    shown, stated = rows["stated_with_labels"], rows["stated"]
    assert shown.mean_confidence == pytest.approx(fmean(each.confidence for each in current))
    assert shown.brier < stated.brier
    assert "posterior_with_labels" not in rows


def test_the_constant_is_the_mean_of_what_was_stated_before_or_the_share_right_in_the_other_folds() -> None:
    for grades in ((True, False, None, True), (False, False, False, None)):  # this constant does not depend on labels
        records = [make_record(n, frozen_digit=(9, 1, 5, 3)[n], frozen_correct=grade) for n, grade in enumerate(grades)]
        series = SCORES["constant"].estimate(records)
        assert series.confidence.tolist() == pytest.approx([0.95, 0.95, 0.55, 0.55])
        known = [math.nan if grade is None else float(grade) for grade in grades]
        assert series.correct.tolist() == pytest.approx(known, nan_ok=True)
    assert len(SCORES["constant"].estimate([])) == 0
    assert not SCORES["constant"].needs_labels
    records = [make_record(n, frozen_digit=n % 10, frozen_correct=n % 4 == 0 if n < 40 else None) for n in range(41)]
    assert "constant_labelled" not in summarise(records[:4], intervals=False).estimators
    series = SCORES["constant_labelled"].estimate(records)
    assert series.rows.tolist() == list(range(40))
    by_confidence: dict[float, list[bool]] = {}
    for confidence, correct in zip(series.confidence.tolist(), series.correct.tolist(), strict=True):
        by_confidence.setdefault(round(confidence, 6), []).append(bool(correct))
    assert len(by_confidence) <= FOLDS
    assert series.confidence.mean() == pytest.approx(0.25)
    for confidence, inside in by_confidence.items():
        # Folds have eight answers. Folds with the same confidence have equally many right answers.
        right = sum(inside) * 8 // len(inside)
        assert confidence == pytest.approx((10 - right) / 32, abs=1e-5)
    rows = summarise(answered([0.9, 0.3] * 30, [True, False, True] * 20)).estimators
    for row in (rows["constant"], rows["constant_labelled"]):  # measures of ranking are undefined
        assert math.isnan(row.auroc + row.auroc_within + row.prr)
        assert row.intervals is not None
        assert math.isnan(row.intervals["auroc"].low)
        assert not math.isnan(row.ece + row.brier + row.intervals["brier"].low)
    assert not math.isnan(rows["stated"].auroc)


def side(records: Sequence[Record], name: str = "secl", total: int | None = None) -> Side:
    return Side(records, len(records) if total is None else total, SCORES[name])


def expected(pairs: Sequence[tuple[Record, Record]]) -> dict[str, of.Difference]:
    """The differences that a comparison of adapted confidences must find."""
    first, second = zip(*pairs, strict=True)
    sides = [([r.reply.stated for r in records], [bool(r.correct) for r in records]) for records in (first, second)]
    domains = [record.question.domain for record in first]
    return of.paired_differences(*sides[0], *sides[1], domains=domains)


@pytest.fixture
def runs() -> tuple[list[Record], list[Record]]:
    """Two runs of sixty questions: confidences of 0.85 or 0.95; and of 0.35 or 0.65, in reversed order."""
    grades = [(i, i % 3 == 0, "late" if i >= 40 else "early") for i in range(60)]
    first = [make_record(i, digit=8 + i % 2, correct=right, domain=domain) for i, right, domain in grades]
    second = [make_record(i, digit=6 if right else 3, correct=right, domain=domain) for i, right, domain in grades]
    return first, [replace(record, position=59 - record.position) for record in reversed(second)]


def test_questions_are_matched_by_what_they_are(runs: tuple[list[Record], list[Record]]) -> None:
    (comparison,) = compare(side(runs[0]), side(runs[1]))
    by_id = {record.question.id: record for record in runs[1]}
    pairs = [(record, by_id[record.question.id]) for record in runs[0]]
    assert comparison.measures == expected(pairs)
    assert (comparison.shared, comparison.graded, comparison.unfinished) == (60, 60, False)
    assert comparison.measures["ece"].falls
    early = [(a, b) for a, b in pairs if a.question.domain == "early"]
    assert list(comparison.domains) == ["early", "late"]
    assert comparison.domains["early"] == expected(early)["brier"]
    floor = comparison.floors["a"]
    assert floor == ece_floor([a.reply.stated for a, _ in pairs])
    chance = f"an ECE of {floor.mean:.3f} (in 95% of cases up to {floor.upper:.3f}"
    assert chance in remarks("AB", [comparison])[0]
    assert json_value(comparison)["floors"]["a"]["upper"] == floor.upper


def test_what_both_runs_have_answered_and_is_graded_is_compared(runs: tuple[list[Record], list[Record]]) -> None:
    def found(first: Side, second: Side) -> tuple[int, int, bool, list[str]]:
        (comparison,) = compare(first, second)
        return comparison.shared, comparison.graded, comparison.unfinished, remarks("AB", [comparison])

    *counts, said = found(side(runs[0]), side(runs[1][:25], total=60))
    assert counts == [25, 25, True]
    assert "only the 25 questions that all runs have answered" in said[0]
    assert found(side(runs[0][:45], total=60), side(runs[1][:25], total=60))[0] == 10
    other = [make_record(i) for i in range(3, 93)]
    assert found(side(runs[0]), side(other))[:3] == (57, 57, False)
    first = [make_record(i, correct=None if i < 4 else i % 2 == 0) for i in range(12)]
    second = [make_record(i, correct=None if i == 11 else i % 2 == 0) for i in range(12)]
    *counts, said = found(side(first), side(second))
    assert counts == [12, 7, False]
    assert "5 of 12 questions lack a grade on at least one side." in said
    reworded = [replace(r, question=replace(r.question, text="other")) for r in runs[1]]
    for pair in ((side(runs[0][:30], total=60), side(runs[1][:30], total=60)), (side(runs[0]), side(reworded))):
        with pytest.raises(RunError, match="share no answered question"):
            compare(*pair)


def test_rows_that_moved_are_compared_by_their_texts(runs: tuple[list[Record], list[Record]]) -> None:
    texts = [replace(r, question=replace(r.question, text=f"What is {i}?")) for i, r in enumerate(runs[0][:59])]
    moved = [
        replace(record, question=replace(other.question, id=record.question.id))
        for record, other in zip(texts, reversed(texts), strict=True)
    ]
    (comparison,) = compare(side(texts), side(moved))  # the row in the middle keeps its place and so its id
    assert (comparison.shared, comparison.graded) == (59, 59)
    repeated = [replace(r, question=replace(r.question, text="What is it?")) for r in texts[:2]]
    other = [replace(r, question=replace(r.question, id=f"new-{i}")) for i, r in enumerate(repeated)]
    with pytest.raises(RunError, match="stand in both runs, but their ids differ and some texts stand twice; give"):
        compare(side(repeated), side(other))


def test_answers_count_as_different_by_what_they_say() -> None:
    def asked(options: tuple[str, ...], answers: str) -> Side:
        question, plain = Question("Which?", options=options, reference="A"), make_record()
        replies = [replace(plain.frozen, answer=None if answer == "-" else answer) for answer in answers]
        ids = [replace(question, id=str(i)) for i in range(len(answers))]
        pairs = zip(ids, replies, strict=True)
        return side([replace(plain, question=id, reply=reply, learning=None) for id, reply in pairs], "stated")

    assert compare(asked(("Rome", "Bern"), "ABA-"), asked(("Bern", "Rome"), "BBB-"))[0].answers_differ == 1
    worded, again = (
        side([make_record(i, answer=answer) for i, answer in enumerate(answers)])
        for answers in (("The Nile.", "Rome"), ("nile", "Bern"))
    )
    assert compare(worded, again)[0].answers_differ == 1


def test_what_is_undefined_is_said_and_null_and_confidences_after_labels_rank_nothing() -> None:
    right = [make_record(i, digit=5, frozen_digit=9, frozen_correct=True) for i in range(20)]
    (comparison,) = compare(side(right, "stated"), side(right, "secl"))
    assert "AUROC is undefined" in remarks("AB", [comparison])[-1]
    undefined = {"a": None, "b": None, "difference": None, "interval": None}
    assert json_value(comparison)["measures"]["auroc"] == undefined
    records = [make_record(i, digit=i % 10, correct=None, frozen_correct=None) for i in range(40)]
    log = [label_of(record, record.position % 3 == 0, number=record.position + 1, chance=1) for record in records]
    labelled = [record.with_label(record.position % 3 == 0) for record in held_out(records, log)]
    measures = compare(side(labelled, "stated"), side(labelled, "stated_with_labels"))[0].measures
    assert math.isnan(measures["auroc"].b)
    assert measures["ece"].b < measures["ece"].a
