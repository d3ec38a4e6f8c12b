"""What a report says and draws of the posterior, of graders that disagree, and of accepting answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from secl.calibrator import Calibrator
from secl.evaluation.acceptance import answers_of
from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Posterior
from secl.labels.label import label_of
from secl.metrics.risk_control import risk_coverage
from secl.question import Question, References
from secl.records import Record
from secl.reports.acceptance_report import risk_table
from secl.reports.figures.drawing import write_picture
from secl.reports.figures.risk_coverage import risk_coverage_figure
from secl.reports.formatting import UNDEFINED
from secl.reports.run_report import panels
from secl.reports.sections import graders_line, posterior_notes, sections_of
from secl.reports.summary_table import domain_table, main_table
from secl.runs.labelling import current_records, stored_answers
from secl.runs.store import Store
from secl.testing import ScriptedModel
from tests.answers import answered, make_record, make_report, run_folder

KEYS = ("stated", "posterior_best", "posterior")
CONFIDENCE, CORRECT = [0.9] * 60 + [0.5] * 60, [True] * 60 + [False] * 60


def weighed(position: int, *, answers_best: bool = False, **changes: Any) -> Record:
    """A question with options A, B and C of which B is right and the model answers A, with a posterior."""
    options = ("Rome", "Paris", "Bern")
    values: dict[str, Any] = {
        "candidates": options,
        "probabilities": (0.2, 0.7, 0.1),
        "own": 0,
        "weights": (("letters", 0.5), ("likelihood", 0.25)),
        "reliability": 0.8,
        "questions": position,
    }
    letters = (LetterOrder(order=(2, 0, 1), log_p=(-1.0, -1.0, -1.0)),)
    compared = CandidateEvidence(candidates=options, letters=letters, likelihoods=(None,) * 3, source="options")
    return replace(
        make_record(position, correct=False, frozen_correct=False),
        question=Question("Capital?", options, "B", domain="quiz"),
        evidence=Evidence(candidates=compared),
        posterior=Posterior(**{**values, **changes}),
        answers_best=answers_best,
    )


def test_the_notes_say_what_the_letters_are_worth_and_what_the_views_weigh() -> None:
    plain, title = [make_record(position) for position in range(4)], "Posterior: how probable each candidate is"
    assert posterior_notes(plain) == []
    for records, there in ((plain, False), ([weighed(0)], True)):
        assert (title in [section.title for section in sections_of(make_report(records))]) is there
    notes = posterior_notes([weighed(0, questions=0), weighed(1, questions=0), *map(weighed, range(2, 10))])
    assert notes == [
        "The letters follow the options when these change places with a reliability of 0.80 of 1 (seen in 9 "
        "questions). Weights at the end, per nat: option letters, mean over orders 0.50, likelihood of the text, per "
        "token 0.25.",
        "For 10 questions the most probable candidate is not the model's own answer, which --answer best gives in its "
        "place.",
    ]


def test_the_result_is_about_the_posterior_and_both_kinds_of_answers_or_the_adapted_confidence() -> None:
    records = [weighed(position) for position in range(30)]
    own = make_report(records, method="posterior", keys=KEYS)
    assert own.main == own.summary.estimators["posterior"]
    table = main_table(own)
    assert table is not None
    assert [[cell.text for cell in line][:2] for line in table.sections[""]] == [
        ["Stated (frozen)", "0.0%"],
        ["Posterior", "0.0%"],
        ["Posterior, best answers", "100.0%"],
    ]
    assert [title for title, _, _ in panels(own)[0]] == ["Stated (frozen)", "Posterior", "Posterior, best answers"]
    ((*_, accuracy),) = domain_table(own).sections["Posterior"]
    assert accuracy.detail == "best 100.0%"
    best = make_report([replace(each, answers_best=True) for each in records], method="posterior", keys=KEYS)
    assert best.main == best.summary.estimators["posterior_best"]
    learning = make_report(records, keys=(*KEYS, "secl"))
    assert learning.main == learning.summary.estimators["secl"]


def given(answer: str, question: str, reference: Any = None, **fields: Any) -> Record:
    """A question of which the model has given this answer."""
    record = Calibrator(ScriptedModel(), method="secl").ask(Question(question, reference=reference, **fields))
    reply = replace(record.reply, text=answer, answer=answer)
    return replace(record, reply=reply, frozen=reply)


def test_graders_that_disagree_are_counted_but_for_official_rules_patterns_and_labels() -> None:
    records = [
        given("7 * 8 = 56", "7 * 8?", "56"),  # exact alone says wrong
        given("not Goethe", "Who?", "Goethe"),  # contains alone says right
        given("Goethe", "Who?", "Goethe"),
        given("Schiller", "Who?", "Goethe"),
    ]
    assert graders_line([replace(record, position=n) for n, record in enumerate(records)]) == (
        "3 graders disagree on 2 of 4 answers (right by exact 25%, contains 75%, auto 50%); used here: auto."
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
    assert "from 120 labels" in labelled.notes[0]
    cells = [[cell.text for cell in row] for row in free.sections[""]]
    assert cells == [["5%", "none", UNDEFINED], ["10%", "0.7", "50%"], ["20%", "0.7", "50%"]]
    assert "Estimates by the confidences alone" in free.notes[0]


def test_labels_of_volunteers_in_a_folder_do_not_pass_for_references(tmp_path: Path) -> None:
    records = answered(CONFIDENCE, [None] * 120)
    with Store(run_folder(tmp_path / "run", records), writable=True) as store:
        for number, record in enumerate(records[:60], 1):
            store.add_label(label_of(record, True, number=number, source="feedback", chance=None))
        answers = stored_answers(store)
        current = stored_answers(store, list(current_records(store)))
    assert (current.basis, current.correct[0]) == ("volunteers", 1.0)
    assert (answers.basis, answers.curve.total) == ("volunteers", 60)
    assert "Estimates by the confidences alone" in risk_table(answers).notes[0]


def test_the_picture_has_the_labels_of_a_curve_and_what_its_confidences_expect(tmp_path: Path) -> None:
    figure = risk_coverage_figure(risk_coverage([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [1, 1, 1, 0, 0, 0]), (0.1,))
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert np.asarray(drawn["labelled answers"].get_ydata()).tolist() == [2 / 5, 3 / 6]
    svg = write_picture(figure, tmp_path / "risk")
    assert "exact 90% interval" in svg
    assert "6 answers, 6 labelled" in svg
    for confidence in ([0.9, 0.8], []):
        plain = risk_coverage_figure(risk_coverage(confidence, [float("nan")] * len(confidence)))
        assert "labelled" not in write_picture(plain, tmp_path / "plain")
