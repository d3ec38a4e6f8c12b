"""Two runs side by side, over the questions that both answered."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest

from secl import Question, Record
from secl.errors import RunError
from secl.evaluation.compare import Side, compare
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.json_values import json_value
from secl.labels.label import label_of
from secl.labels.state import relabelled
from secl.metrics.bootstrap import Difference, paired_differences
from secl.metrics.calibration import ece_floor
from secl.reports.comparison_report import remarks
from tests.answers import make_record


def side(records: Sequence[Record], name: str = "secl", total: int | None = None) -> Side:
    return Side(records, len(records) if total is None else total, ESTIMATORS[name])


def expected(pairs: Sequence[tuple[Record, Record]]) -> dict[str, Difference]:
    """What a comparison of their adapted confidences must find."""
    first, second = zip(*pairs, strict=True)
    sides = [([r.reply.stated for r in records], [bool(r.correct) for r in records]) for records in (first, second)]
    domains = [record.question.domain for record in first]
    return paired_differences(*sides[0], *sides[1], domains=domains, resamples=100)


@pytest.fixture
def runs() -> tuple[list[Record], list[Record]]:
    """Sixty questions in two domains: one run says 0.85 or 0.95, the other 0.35 or 0.65 and asks them backwards."""
    grades = [(i, i % 3 == 0, "late" if i >= 40 else "early") for i in range(60)]
    first = [make_record(i, digit=8 + i % 2, correct=right, domain=domain) for i, right, domain in grades]
    second = [make_record(i, digit=6 if right else 3, correct=right, domain=domain) for i, right, domain in grades]
    return first, [dataclasses.replace(record, position=59 - record.position) for record in reversed(second)]


def test_questions_are_matched_by_what_they_are(runs: tuple[list[Record], list[Record]]) -> None:
    comparison = compare(side(runs[0]), side(runs[1]), resamples=100)
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
    assert chance in remarks(comparison)[0]
    assert json_value(comparison)["floors"]["a"]["upper"] == floor.upper


def test_what_both_runs_have_answered_and_is_graded_is_compared(runs: tuple[list[Record], list[Record]]) -> None:
    def found(first: Side, second: Side) -> tuple[int, int, bool, list[str]]:
        comparison = compare(first, second, resamples=20)
        return comparison.shared, comparison.graded, comparison.unfinished, remarks(comparison)

    *counts, said = found(side(runs[0]), side(runs[1][:25], total=60))
    assert counts == [25, 25, True]
    assert "25 questions that both runs have answered so far" in said[0]
    assert found(side(runs[0][:45], total=60), side(runs[1][:25], total=60))[0] == 10
    other = [make_record(i) for i in range(3, 93)]
    assert found(side(runs[0]), side(other))[:3] == (57, 57, False)
    first = [make_record(i, correct=None if i < 4 else i % 2 == 0) for i in range(12)]
    second = [make_record(i, correct=None if i == 11 else i % 2 == 0) for i in range(12)]
    *counts, said = found(side(first), side(second))
    assert counts == [12, 7, False]
    assert "5 of 12 questions are not graded on both sides." in said
    reworded = [dataclasses.replace(r, question=dataclasses.replace(r.question, text="other")) for r in runs[1]]
    for pair in ((side(runs[0][:30], total=60), side(runs[1][:30], total=60)), (side(runs[0]), side(reworded))):
        with pytest.raises(RunError, match="share no answered question"):
            compare(*pair)
    with pytest.raises(RunError, match="none of the 12 questions"):
        compare(side(first), side([make_record(i, correct=None) for i in range(12)]))


def test_answers_count_as_different_by_what_they_say() -> None:
    def asked(options: tuple[str, ...], answers: str) -> Side:
        question, plain = Question("Which?", options=options, reference="A"), make_record()
        replies = [dataclasses.replace(plain.frozen, answer=None if answer == "-" else answer) for answer in answers]
        ids = [dataclasses.replace(question, id=str(i)) for i in range(len(answers))]
        pairs = zip(ids, replies, strict=True)
        return side([dataclasses.replace(plain, question=id, frozen=reply) for id, reply in pairs], "stated")

    assert compare(asked(("Rome", "Bern"), "ABA-"), asked(("Bern", "Rome"), "BBB-")).answers_differ == 1
    worded, again = (
        side([make_record(i, answer=answer) for i, answer in enumerate(answers)])
        for answers in (("The Nile.", "Rome"), ("nile", "Bern"))
    )
    assert compare(worded, again).answers_differ == 1


def test_what_is_undefined_is_said_and_null_and_confidences_after_labels_rank_nothing() -> None:
    right = [make_record(i, digit=5, frozen_digit=9, frozen_correct=True) for i in range(20)]
    comparison = compare(side(right, "stated"), side(right, "secl"), resamples=100)
    assert "AUROC is undefined" in remarks(comparison)[-1]
    undefined = {"a": None, "b": None, "difference": None, "interval": None}
    assert json_value(comparison)["measures"]["auroc"] == undefined
    records = [make_record(i, digit=i % 10, correct=None, frozen_correct=None) for i in range(40)]
    log = [label_of(record, record.position % 3 == 0, number=record.position + 1) for record in records]
    labelled = [record.with_label(record.position % 3 == 0) for record in relabelled(records, log)]
    measures = compare(side(labelled, "stated"), side(labelled, "stated_with_labels"), resamples=100).measures
    assert math.isnan(measures["auroc"].b)
    assert measures["ece"].b < measures["ece"].a
