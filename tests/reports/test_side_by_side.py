"""Several runs are compared on the questions that they share, or it is said that they share none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from secl.question import Question
from secl.records import Record
from secl.reports.folder import markdown
from secl.reports.run_report import RunReport
from secl.reports.side_by_side import side_by_side

MakeRecord = Callable[..., Record]
MakeReport = Callable[..., RunReport]


def stream(make_record: MakeRecord, count: int, answers: str, grades: tuple[bool, ...] = ()) -> list[Record]:
    """Multiple choice, so that the answers A and B stand for texts."""
    records = []
    for n in range(count):
        answer = answers[n % len(answers)]
        plain = make_record(n, answer=answer, correct=grades[n % len(grades)] if grades else None, frozen_correct=None)
        question = Question(f"question {n}", ("left", "right"), id=str(n))
        records.append(replace(plain, question=question, frozen=replace(plain.frozen, answer=answer)))
    return records


def test_runs_over_the_same_questions_have_paired_differences_and_changed_answers(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    one = make_report(stream(make_record, 40, "A", (True, False)), name="one")
    other = make_report(stream(make_record, 40, "AABA", (True, False, False, False)), name="other")
    (pair,) = side_by_side([one, other])
    assert pair.heading == "Side by side. A: one, SECL; B: other, SECL"
    assert pair.notes[0] == "Both have answered the same 40 questions."
    assert "10 of 40 answers differ." in pair.notes
    assert pair.differences is not None
    accuracy = next(row for row in pair.differences.sections[""] if row[0].text == "Accuracy")
    assert [cell.text for cell in accuracy[1:4]] == ["0.500", "0.250", "-0.250"]
    assert pair.changed is not None
    first = pair.changed.sections[""][0]
    assert [cell.text for cell in first] == ["question 2", "A. left", "0.850", "B. right", "0.850"]
    assert (first[2].detail, first[4].detail) == ("right", "wrong")
    assert "## Side by side. A: one" in markdown([one, other])


def test_runs_over_different_questions_say_so_and_are_compared_on_what_they_share(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    one = make_report(stream(make_record, 40, "A", (True, False)), name="one")
    half = make_report(stream(make_record, 25, "A", (True, False)), name="half")
    (pair,) = side_by_side([one, half])
    assert pair.notes[0].startswith("one has answered 40 questions and half 25, 25 of them the same.")
    assert pair.differences is not None
    assert {row[3].text for row in pair.differences.sections[""]} == {"+0.000"}
    assert pair.changed is None
    others = [replace(each, question=Question("other", ("a", "b"), id="x")) for each in half.records[:1]]
    (pair,) = side_by_side([one, make_report(others, name="others")])
    assert "none of them the same: their numbers cannot be compared." in pair.notes[0]
    assert pair.differences is None


def test_runs_without_right_answers_have_the_answers_that_changed(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    runs = [make_report(stream(make_record, 30, answers), name=answers) for answers in ("A", "AB")]
    (pair,) = side_by_side(runs)
    assert pair.notes[-1] == "None of them is graded in both runs. The answers to 15 of them differ."
    assert pair.differences is None
    assert pair.changed is not None
    assert len(pair.changed.sections[""]) == 15
