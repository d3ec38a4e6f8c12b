"""A run in a few lines, and one answered question: the most probable answer first, and why."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from secl import Calibrator, Question, Record, ScriptedModel
from secl.evaluation.symptoms import Reason
from secl.evaluation.trust import Verdict
from secl.evidence import Evidence, Labelled, LetterOrder, Posterior, Sample
from secl.labels.label import label_of
from secl.labels.state import relabelled
from secl.reports.console import answer_reasons, answer_table
from secl.reports.formatting import percent
from secl.reports.result import bands_table, look_first, next_step
from secl.reports.run_report import RunReport
from secl.reports.sections import print_sections, sections_of
from secl.reports.summary_table import main_table
from secl.reports.verdict import trust_line
from tests.answers import answered, compared, make_report, weighed

HIGH, LOW = [0.9] * 40 + [0.3] * 40, [True] * 36 + [False] * 4 + [True] * 12 + [False] * 28


def report_of(records: list[Record], total: int | None = None) -> RunReport:
    skipped = (("line 3", "has no question"),)
    return make_report(records, total=total, method="posterior", keys=("stated", "posterior"), skipped=skipped)


def shown(run: RunReport) -> list[str]:
    screen = Console(file=io.StringIO(), width=80)
    print_sections([next(sections_of(run))], screen)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("confidence", "correct", "level", "ranking"),
    [
        (HIGH, LOW, "mean confidence 60%: no calibration error found.", "better than chance; "),
        ([0.9] * 60, [True, False] * 30, "overconfident by 40 points.", "not shown; "),
        ([0.3] * 60, [True] * 50 + [False] * 10, "underconfident by 53 points.", "not shown; "),
        ([0.5] * 4, [True, False] * 2, "no calibration error that 4 answers could show.", "unknown below 20 graded"),
        (
            [0.5] * 4,
            [True] * 4,
            "no calibration error that 4 answers could show.",
            "unknown; all graded answers are right.",
        ),
    ],
)
def test_counts_stand_first_in_words(confidence: list[float], correct: list[bool], level: str, ranking: str) -> None:
    lines = shown(report_of(answered(confidence, correct)))
    text = " ".join(lines)
    assert lines[1] == f"{len(correct)} questions answered, 1 question left out."
    right, count = sum(correct), len(correct)
    assert lines[2].startswith(f"Accuracy {percent(right / count)} ({right} of {count} answers), mean")
    assert level in text
    assert f"Ranking: {ranking}" in text
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80


def test_the_table_has_what_matters_and_labels_do_not_rank_the_answers_that_they_grade() -> None:
    """Each answer is rated by the labels of the others: where all confidences are equal, right ones fall below."""
    table = main_table(report_of(answered(HIGH, LOW)))
    assert table is not None
    (cells,) = ([cell.text for cell in row][:4] for row in table.sections[""])
    assert cells == ["Stated (frozen)", "60.0%", "60.0%", "0.150"]
    records = answered([0.85] * 60, [None] * 60)
    log = [label_of(record, record.position % 3 > 0, number=record.position + 1) for record in records]
    rated = [record.with_label(record.position % 3 > 0) for record in relabelled(records, log)]
    run = report_of(rated)
    assert "not shown; right answers have the higher confidence in 50% of pairs" in " ".join(shown(run))
    assert "(AUROC 0.50, 0.50 to 0.50" in trust_line(run.trust)


def test_without_grades_the_confidences_speak_and_a_person_is_asked() -> None:
    run = report_of(answered([0.9, 0.2], [None, None]))
    text = " ".join(shown(run))
    assert "About 55% of 2 answers are right (" in text
    cells = [[cell.text for cell in row] for row in bands_table(run.records).sections[""]]
    assert cells == [["0.8 to 1", "1"], ["0.2 to 0.4", "1"]]
    assert look_first(run.records) == 'Look first at: "Question 1?" (A. yes, 0.20)'
    assert next_step(run, Path("runs/a b")) == "secl label 'runs/a b'"


def test_what_to_look_at_and_to_type_next_follows_from_what_there_is_and_the_worst_reasons_are_given_alone() -> None:
    records = answered([0.9, 0.8, 0.3], [True, False, False])
    assert look_first(records) == 'Look first at: "Question 1?" (A. yes, 0.80, wrong)'
    assert look_first(records[:1]) is None
    all_graded = answered(HIGH, LOW)
    assert next_step(report_of(all_graded, total=99), Path("r")) == "secl run --resume r"
    assert next_step(report_of(all_graded), Path("r")) == "secl threshold r --risk 0.1"
    assert next_step(report_of(all_graded[:9]), Path("r")) == "ask more questions, then secl threshold r --risk 0.1"
    reasons = (Reason("constant", "stop", 9, 9, value=0.5), Reason("tested", "note", 60))
    line = trust_line(Verdict("do not act on it", reasons, questions=9, graded=0))
    assert line == (
        "verdict: do not act on it (reported confidence). 9 of 9 confidences are 0.50: "
        "equal confidences do not rank answers."
    )


KENYA = Question("Capital of Kenya?", options=("Lagos", "Nairobi", "Accra"), reference="B")
HAMLET = Question("Who wrote Hamlet?", reference="Shakespeare")


def chosen(question: Question, found: Posterior | None, evidence: Evidence | None = None) -> Record:
    """The record of a question that is answered with the most probable candidate."""
    calibrator = Calibrator(ScriptedModel(stated=0.8, accuracy=1.0), method="stated")
    record = replace(calibrator.ask(question), labelled=None, answers_best=True)
    return replace(record, posterior=found, evidence=evidence or Evidence())


def posterior(question: Question, probabilities: tuple[float, ...], own: int | None, *more: str) -> Posterior:
    return weighed(question.options or ("Shakespeare", *more), *probabilities, own=own)


def letters(*log_p: float) -> Evidence:
    return compared(KENYA.options, LetterOrder(order=(1, 2, 0), log_p=log_p))


def rows(record: Record) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in answer_table(record).sections[""]]


def test_the_returned_answer_stands_first_and_the_models_own_says_what_it_stated() -> None:
    record = chosen(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters(-3.0, -1.0, -2.0))
    assert rows(record) == [("Nairobi", "76%", "own answer, stated 80%"), ("Lagos", "15%", ""), ("Accra", "9%", "")]
    assert answer_reasons(record) == ["With the options in another order, the model chooses the same option."]
    turned = chosen(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters(-3.0, -2.0, -1.0))
    (reason,) = answer_reasons(turned)
    assert "C. Accra" in reason
    moved = Labelled(confidence=0.7, low=0.52, high=0.85, label_free=0.76, labels=30, of_domain=0, until=30)
    assert rows(replace(record, labelled=moved))[0][1] == "70% (52 to 85%)"
    other = chosen(HAMLET, posterior(HAMLET, (0.08, 0.9, 0.02), 0, "Marlowe", "Kyd"))
    assert rows(other) == [("Marlowe", "90%", ""), ("Shakespeare", "8%", "own answer, stated 80%"), ("Kyd", "2%", "")]
    assert answer_reasons(other) == []


def test_unlisted_answers_are_named_many_candidates_counted_and_a_lone_one_has_the_stated_confidence() -> None:
    found = replace(posterior(HAMLET, (0.1, 0.7, 0.2), 0, "Marlowe", "None of these"), none_last=True)
    assert rows(chosen(HAMLET, found))[1] == ("any other answer", "20%", "")
    names = [f"a rather long name number {number}" for number in range(9)]
    shown = rows(chosen(HAMLET, posterior(HAMLET, (0.91, *(0.01,) * 9), 0, *names)))
    assert [row[0] for row in shown] == ["Shakespeare", *names[:4], "and 5 others"]
    alone = chosen(HAMLET, None)
    assert rows(alone) == [("Shakespeare", "80%", "own answer, stated 80%")]
    assert answer_reasons(alone) == ["There are no two different candidates to compare."]


def test_an_unreadable_reply_is_said_and_the_most_probable_candidate_given() -> None:
    record = chosen(HAMLET, posterior(HAMLET, (0.6, 0.4), None, "Marlowe"))
    unread = replace(record, reply=replace(record.reply, answer=None))
    assert rows(unread)[0] == ("Shakespeare", "60%", "")
    assert answer_table(unread).notes == ["The model's own reply holds no readable answer."]
    assert rows(replace(unread, posterior=None))[0][0] == "no readable answer"


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ((("Shakespeare", 0, False),) * 3, "The model repeats this answer in 3 of 3 further answers."),
        ((("Shakespeare", 0, False), ("Kyd", 2, False)), "The model repeats this answer in 1 of 2 further answers."),
        ((("Kyd", 2, False),) * 2, "The model repeats this answer in 0 of 2 further answers."),
        ((("7", 0, True),), "A short program that the model wrote gives the same number."),
        ((("8", 1, True), ("7", 0, False)), "A short program that the model wrote gives another number."),
        (((None, None, True), ("7", 0, False)), "A short program that the model wrote gives no number."),
    ],
)
def test_an_open_answer_has_a_reason(samples: tuple[tuple[str | None, int | None, bool], ...], why: str) -> None:
    drawn = tuple(Sample(text=text, candidate=number, log_p=None, program=program) for text, number, program in samples)
    evidence = compared("abc", samples=drawn)
    found = posterior(HAMLET, (0.9, 0.08, 0.02), 0, "Marlowe", "Kyd")
    assert answer_reasons(chosen(HAMLET, found, evidence)) == [why]
