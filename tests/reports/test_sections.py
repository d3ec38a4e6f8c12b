"""Sections and tables of a report: every number once, and a dash where there is none; one answered question."""

import io
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from secl import Question, Record, References
from secl.display import UNDEFINED, percent
from secl.evaluation.acceptance import advise, answers_of
from secl.evaluation.summary import Measures, summarise
from secl.evaluation.symptoms import Reason
from secl.evaluation.trust import Verdict
from secl.evidence import OPTIONS, CalibratedConfidence, Evidence, LetterOrder, Posterior, PTrue, Sample
from secl.explain import explain
from secl.labels.label import label_of
from secl.labels.state import held_out
from secl.learning import Calibrator
from secl.metrics.intervals import Interval
from secl.metrics.measures import MEASURES
from secl.metrics.risk_control import risk_coverage
from secl.reports.acceptance_report import risk_table, risk_tables
from secl.reports.console import answer_table
from secl.reports.figures import risk_coverage_figure, write_picture
from secl.reports.result import bins_table, look_first, next_step
from secl.reports.run_report import RunReport, panels
from secl.reports.sections import graders_line, posterior_notes, print_sections, sections_of
from secl.reports.summary_table import COLUMNS, caption, domain_table, footnotes, main_table, summary_table
from secl.reports.table import to_rich
from secl.scores import SCORES
from secl.testing import ScriptedModel
from tests.answers import answered, compared, make_record, make_report, make_stream, weighed

KEYS = ("stated", "posterior_best", "posterior")
CONFIDENCE, CORRECT = [0.9] * 60 + [0.5] * 60, [True] * 60 + [False] * 60


def asked(position: int, *, best_returned: bool = False, questions: int | None = None) -> Record:
    """Return a record with a posterior: of the options A, B and C, B is right, and the model answers A."""
    options, count = ("Rome", "Paris", "Bern"), position if questions is None else questions
    more: dict[str, Any] = {"weights": (("letters", 0.5), ("likelihood", 0.25)), "reliability": 0.8, "questions": count}
    return replace(
        make_record(position, correct=False, frozen_correct=False),
        question=Question("Capital?", options, "B", domain="quiz"),
        evidence=compared(options, LetterOrder(order=(2, 0, 1), log_p=(-1.0, -1.0, -1.0))),
        posterior=weighed(options, 0.2, 0.7, 0.1, **more),
        best_returned=best_returned,
    )


def test_the_notes_say_what_the_letters_are_worth_and_what_the_views_weigh() -> None:
    plain, title = [make_record(position) for position in range(4)], "Posterior: how probable each candidate is"
    assert posterior_notes(plain) == []
    for records, there in ((plain, False), ([asked(0)], True)):
        assert (title in [section.title for section in sections_of(make_report(records))]) is there
    notes = posterior_notes([asked(0, questions=0), asked(1, questions=0), *map(asked, range(2, 10))])
    assert notes == [
        "After the last question: weights of the views: 0.50 (option letters, mean over orders), 0.25 (likelihood of "
        "the text, per token). Reliability of letters, from 0 (only the positions of the options count) to 1 (only "
        "their content): 0.80 (from 9 questions).",
        "For 10 questions the most probable candidate is not the model's own answer; --answer best would return this "
        "candidate.",
    ]


def test_the_result_is_about_the_posterior_and_both_kinds_of_answers_or_the_adapted_confidence() -> None:
    records = [asked(position) for position in range(30)]
    own = make_report(records, method="posterior", keys=KEYS)
    assert own.main == "posterior"
    table = main_table(own)
    assert table is not None
    assert [[cell.text for cell in line][:2] for line in table.sections[""]] == [
        ["Stated (frozen)", "0.0%"],
        ["Posterior", "0.0%"],
        ["Posterior, best answers", "100.0%"],
    ]
    assert [[panel.title for panel in each] for each in panels(own)] == [
        ["Stated (frozen)", "Posterior"],
        ["Posterior, best answers"],
    ]
    assert table.notes == ()
    ungraded = [
        replace(each.with_grades(None, None), question=replace(each.question, reference=None)) for each in records[20:]
    ]
    labelled = [replace(each, best_returned=True).with_label(True) for each in ungraded]
    mixed = main_table(make_report([*records[:20], *labelled], method="posterior", keys=KEYS))
    assert mixed is not None
    assert "(Stated (frozen): 20, Posterior, best answers: 30, Posterior: 20)" in mixed.notes[0]
    ((*_, accuracy),) = domain_table(own).sections["Posterior"]
    assert accuracy.detail == "best 100.0%"
    best = make_report([replace(each, best_returned=True) for each in records], method="posterior", keys=KEYS)
    assert best.main == "posterior_best"
    learning = make_report(records, keys=(*KEYS, "secl"))
    assert learning.main == "secl"


def given(answer: str, question: str, reference: Any = None, **fields: Any) -> Record:
    """Return the record of a question with this answer."""
    record = Calibrator(ScriptedModel(), method="secl").ask(Question(question, reference=reference, **fields))
    reply = replace(record.reply, text=answer, answer=answer)
    return replace(record, reply=reply, learning=None)


def test_graders_that_disagree_are_counted_but_for_official_rules_patterns_and_labels() -> None:
    records = [
        given("7 * 8 = 56", "7 * 8?", "56"),  # exact alone says wrong
        given("not Goethe", "Who?", "Goethe"),  # contains alone says right
        given("Goethe", "Who?", "Goethe"),
        given("Schiller", "Who?", "Goethe"),
    ]
    assert graders_line([replace(record, position=n) for n, record in enumerate(records)]) == (
        "3 graders disagree on 2 of 4 answers (graded as right: exact 25%, contains 75%, auto 50%); this report uses "
        "auto."
    )
    assert graders_line(records[2:]) is None
    official = [
        given("4", "2 + 2?", "4", form="number"),
        given("yes", "?", References(("yes",), ("no",)), form="sentence"),
        given("A", "Which?", "A", options=("x", "y")),
        given("Goethe", "Who?", "Goethe", grader="regex"),
        given("Goethe", "Who?"),
        records[0].with_label(True),
    ]
    assert graders_line(official) is None


def test_the_table_has_a_threshold_for_each_risk_and_without_labels_only_the_confidences_speak() -> None:
    labelled, free = (risk_table(answers_of(answered(CONFIDENCE, grades))) for grades in (CORRECT, [None] * 120))
    assert [[cell.text for cell in row] for row in labelled.sections[""]] == [
        ["5%", "0.7", "50%", "60", "0", "none", UNDEFINED],
        ["10%", "0.7", "50%", "60", "0", "0.7", "50%"],
        ["20%", "0.7", "50%", "60", "0", "0.7", "50%"],
    ]
    assert "rest on 120 graded answers" in labelled.notes[0]
    cells = [[cell.text for cell in row] for row in free.sections[""]]
    assert cells == [["5%", "none", UNDEFINED], ["10%", "0.7", "50%"], ["20%", "0.7", "50%"]]
    assert "These estimates rest on the confidences alone" in free.notes[0]


def test_domains_with_maps_of_their_own_have_thresholds_of_their_own() -> None:
    records = [
        replace(record, question=replace(record.question, domain="ab"[record.position % 2]))
        for record in answered([0.9] * 60 + [0.5] * 60, [None] * 120)
    ]
    log = [label_of(r, r.position < 60, number=r.position + 1, chance=1) for r in records]
    answers = answers_of(records, log)
    advice = advise(answers, 0.1)
    others, own = risk_tables(answers)
    assert [row[1].text for row in others.sections[""]] == [str(advice.value)] * 3
    assert [[cell.text for cell in row] for row in own.sections[""]] == [
        [domain, *[str(advice.domains[domain])] * 3] for domain in "ab"
    ]
    assert len(risk_tables(answers_of(records, [replace(label, domain="a") for label in log]))) == 1


def test_the_picture_has_the_labels_of_a_curve_and_what_its_confidences_expect() -> None:
    figure = risk_coverage_figure(risk_coverage([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [1, 1, 1, 0, 0, 0]), (0.1,))
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert np.asarray(drawn["labelled answers"].get_ydata()).tolist() == [2 / 5, 3 / 6]
    svg = write_picture(figure)
    assert "exact 90% interval" in svg
    assert "6 answers, 6 labelled" in svg
    for confidence in ([0.9, 0.8], []):
        plain = risk_coverage_figure(risk_coverage(confidence, [float("nan")] * len(confidence)))
        assert "labelled" not in write_picture(plain)


def test_the_table_has_a_row_per_confidence_with_the_numbers_of_the_summary() -> None:
    summary = summarise(make_stream(60))
    table = summary_table(summary)
    assert tuple(column.heading for column in table.columns) == COLUMNS
    lines = {line[0].text: line for line in table.sections[""]}
    assert [*lines] == [SCORES[name].title for name in SCORES if name in summary.estimators]
    assert {len(line) for line in lines.values()} == {len(COLUMNS)}
    row = summary.estimators["secl"]
    assert row.intervals is not None
    spans = [f"{row.intervals[name].low:.3f}{UNDEFINED}{row.intervals[name].high:.3f}" for name in ("brier", "auroc")]
    assert row.ece > row.ece_floor_95
    numbers = [f"{row.brier:.3f}", f"{row.ece:.3f}", f"{row.auroc:.3f}", f"{100 * row.accuracy:.1f}%", "60"]
    costs = [f"{row.cost_paper:.1f}", f"{row.cost_measured:.1f}"]
    assert [cell.text for cell in lines["SECL"]] == ["SECL", *numbers, *costs]
    assert [cell.detail for cell in lines["SECL"][1:4]] == [spans[0], f"above {row.ece_floor_95:.3f}", spans[1]]
    records = [make_record(0, outcome="failed"), make_record(1, outcome="trained")]
    assert caption(summarise(records)).startswith(
        "2 questions: 1 trained the adapter, 0 alarms, 1 update undone because some numbers"
    )
    assert "taken back" not in caption(summarise(records[1:]))
    assert "True" not in caption(summarise(records))
    p_true = PTrue(candidates=("A",), probabilities=(0.5,), false_probabilities=(0.12,), source=OPTIONS)
    judged = [replace(record, evidence=Evidence(p_true)) for record in records]
    assert "the model gives both together a median probability of 0.62." in caption(summarise(judged))


def test_what_is_undefined_is_a_dash_and_the_reason_is_given() -> None:
    summary = summarise([make_record(correct=None, frozen_correct=True)])
    table = summary_table(summary)
    rows = {row[0].text: [cell.text for cell in row] for row in table.sections[""]}
    assert rows["Stated (frozen)"][3] == UNDEFINED  # AUROC of one class
    assert rows["SECL"][1:6] == [UNDEFINED] * 4 + ["0"]
    reasons = " ".join(footnotes(summary))
    assert "n = 0" in reasons
    assert "all answers are right or all are wrong" in reasons
    assert set(footnotes(summary)) <= {*table.notes}
    both = [make_record(0, correct=True, digit=9), make_record(1, correct=False, digit=1)]
    assert footnotes(summarise(both, [SCORES["secl"]])) == []


def test_nothing_is_cut_off_in_a_terminal_of_80_columns() -> None:
    """Return a summary in which every estimator has a row with the longest numbers."""
    measures: dict[str, Any] = {each.name: 0.123456 for each in fields(Measures)}
    measures |= {"n": 12_500, "accuracy": 1.0, "ece_within_floor": False, "needs_labels": False, "ranks": True}
    measures |= {"intervals": dict.fromkeys(MEASURES, Interval(0.1, 1.0))}
    measures |= {"cost_paper": 15.0, "cost_measured": 123.4, "fitted": "a=-37.6, b=26.2, range [0.00, 0.26]"}
    rows = {name: Measures(**measures | {"title": each.title}) for name, each in SCORES.items()}
    summary = replace(summarise([]), questions=12_500, trained=1, alarms=2, cost_measured=2.5, estimators=rows)
    table = to_rich(summary_table(summary))
    assert table.row_count == len(SCORES)
    consoles = [Console(file=io.StringIO(), width=width) for width in (80, 200)]
    for console in consoles:
        console.print(table)
    narrow, wide = (console.file.getvalue() for console in consoles)  # type: ignore[attr-defined]
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    for text in ("12,500", "0.100–1.000", "above 0.123", "100.0%", "15.0", "123.4", "0.26]"):  # noqa: RUF001
        assert narrow.count(text) == wide.count(text) > 0, text
    assert all(estimator.title in wide for estimator in SCORES.values())


HIGH, LOW = [0.9] * 40 + [0.3] * 40, [True] * 36 + [False] * 4 + [True] * 12 + [False] * 28


def report_of(records: list[Record], total: int | None = None) -> RunReport:
    skipped = (("line 3", "has no question"),)
    return make_report(records, total=total, method="posterior", keys=("stated", "posterior"), skipped=skipped)


def shown(run: RunReport) -> list[str]:
    screen = Console(file=io.StringIO(), width=80)
    print_sections([next(each for each in sections_of(run) if each.title == "Result")], screen)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("confidence", "correct", "level", "ranking"),
    [
        (HIGH, LOW, "mean confidence 60%: no calibration error found.", "better than chance; "),
        ([0.9] * 60, [True, False] * 30, "overconfident by 40 points.", "undecided; "),
        ([0.3] * 60, [True] * 50 + [False] * 10, "underconfident by 53 points.", "undecided; "),
        (
            [0.5] * 4,
            [True, False] * 2,
            "no calibration error found, but 4 answers reveal only large errors.",
            "unknown below 20 graded",
        ),
        (
            [0.5] * 4,
            [True] * 4,
            "no calibration error found, but 4 answers reveal only large errors.",
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
    """Labels of the other answers rate each answer, so of equal confidences those of right answers fall below."""
    table = main_table(report_of(answered(HIGH, LOW)))
    assert table is not None
    (cells,) = ([cell.text for cell in row][:4] for row in table.sections[""])
    assert cells == ["Stated (frozen)", "60.0%", "60.0%", "0.150"]
    records = answered([0.85] * 60, [None] * 60)
    log = [label_of(record, record.position % 3 > 0, number=record.position + 1, chance=1) for record in records]
    rated = [record.with_label(record.position % 3 > 0) for record in held_out(records, log)]
    run = report_of(rated)
    assert "undecided; right answers have higher confidences than wrong answers in 50% of pairs" in " ".join(shown(run))
    assert "(AUROC 0.50, 0.50 to 0.50" in run.trust.line


def test_without_grades_the_confidences_speak_and_a_person_is_asked() -> None:
    run = report_of(answered([0.9, 0.2], [None, None]))
    text = " ".join(shown(run))
    assert "Level unknown: without labels, the confidences rank the answers, but may all be too" in text
    assert "By the confidences alone, about 55% of 2 answers are right (" in text
    assert next(sections_of(run)).sentences[0] == "Level unknown: no label or reference tests the stated confidence."
    cells = [[cell.text for cell in row] for row in bins_table(run.records).sections[""]]
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
    for refuted in (answered([0.9] * 60, [True, False] * 30), answered([0.9, 0.6] * 40, [False, True] * 40)):
        assert report_of(refuted).trust.level == "do not act on it"
        assert next_step(report_of(refuted), Path("r")).startswith("look at every answer, or try another model")
    assert next_step(report_of(all_graded[:9]), Path("r")) == "ask more questions, then secl threshold r --risk 0.1"
    reasons = (Reason("constant", "stop", "9 of 9 are equal."), Reason("tested", "note", "Tested on 60."))
    line = Verdict("do not act on it", reasons, questions=9, graded=0).line
    assert line == "verdict: do not act on it (reported confidence). 9 of 9 are equal."


KENYA = Question("Capital of Kenya?", options=("Lagos", "Nairobi", "Accra"), reference="B")
HAMLET = Question("Who wrote Hamlet?", reference="Shakespeare")


def chosen(question: Question, found: Posterior | None, evidence: Evidence | None = None) -> Record:
    """The record of a question that is answered with the most probable candidate."""
    calibrator = Calibrator(ScriptedModel(stated=0.8, accuracy=1.0), method="stated")
    record = replace(calibrator.ask(question), labelled=None, best_returned=True)
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
    assert explain(record).grounds == ["With the options in another order, the model chooses the same option."]
    turned = chosen(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters(-3.0, -2.0, -1.0))
    (reason,) = explain(turned).grounds
    assert "C. Accra" in reason
    moved = CalibratedConfidence(
        calibrated=0.7, low=0.52, high=0.85, uncalibrated=0.76, labels=30, of_domain=0, until=30
    )
    assert rows(replace(record, labelled=moved))[0][1] == "70% (52 to 85%)"
    other = chosen(HAMLET, posterior(HAMLET, (0.08, 0.9, 0.02), 0, "Marlowe", "Kyd"))
    assert rows(other) == [("Marlowe", "90%", ""), ("Shakespeare", "8%", "own answer, stated 80%"), ("Kyd", "2%", "")]
    assert explain(other).grounds == []


def test_unlisted_answers_are_named_many_candidates_counted_and_a_lone_one_has_the_stated_confidence() -> None:
    found = replace(posterior(HAMLET, (0.1, 0.7, 0.2), 0, "Marlowe", "None of these"), none_last=True)
    assert rows(chosen(HAMLET, found))[1] == ("any other answer", "20%", "")
    names = [f"a rather long name number {number}" for number in range(9)]
    shown = rows(chosen(HAMLET, posterior(HAMLET, (0.91, *(0.01,) * 9), 0, *names)))
    assert [row[0] for row in shown] == ["Shakespeare", *names[:4], "and 5 others"]
    alone = chosen(HAMLET, None)
    assert rows(alone) == [("Shakespeare", "80%", "own answer, stated 80%")]
    assert explain(alone).grounds == ["secl did not compare this answer with other candidates."]


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
    assert explain(chosen(HAMLET, found, evidence)).grounds == [why]


def test_a_stored_answer_and_the_terminal_have_the_same_sentences() -> None:
    turned = chosen(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters(-3.0, -2.0, -1.0))
    long = replace(chosen(replace(HAMLET, form="text"), None), reply=replace(make_record(0).reply, answer="a b. " * 90))
    plan, learner = (Calibrator(ScriptedModel(), method=name).plan for name in ("posterior", "secl"))
    moved = CalibratedConfidence(calibrated=0.7, low=0.5, high=0.9, uncalibrated=0.8, labels=3, of_domain=1, until=3)
    said = {
        "chooses C. Accra": turned,
        "too long to be compared with other answers, so the confidence is the stated one.": long,
        "could not be read, so it has no confidence.": replace(turned, reply=replace(turned.reply, answer=None)),
        "the text repeats itself, so it has no confidence.": replace(long, reply=replace(long.reply, answer=None)),
        "3 labels, 1 of them in the same domain, moved the confidence by -0.1000": replace(turned, labelled=moved),
        "not accepted: ": replace(turned, threshold=0.9),
    }
    for words, record in said.items():
        explained = explain(record, plan)
        assert words.lower() in " ".join(explained.lines).lower()
        assert set(explained.grounds) <= {*explained.lines}
        assert all(line.endswith((".", "?")) for line in explained.lines)
    assert explain(turned, plan).learning == ()
    assert "the same option" not in " ".join(explain(turned, plan).lines)
    assert explain(turned, learner).lines[-1] == "Lesson: idle, because the question is outside a burst."
    assert explain(long, learner).caveat is None  # the method "secl" compares no answers
