"""What a report says and draws of the posterior: where its weights come from, and own against best answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Posterior
from secl.question import Question
from secl.records import Record
from secl.reports.run_report import RunReport, panels
from secl.reports.sections import posterior_notes, sections_of
from secl.reports.summary_table import domain_table, main_table

MakeReport = Callable[..., RunReport]

KEYS = ("stated", "posterior_best", "posterior")
WEIGHTS = (("letters", 0.5), ("likelihood", 0.25))


@pytest.fixture
def answered(make_record: Any) -> Callable[..., Record]:
    """A question with options A, B and C of which B is right and the model answers A, with a posterior."""

    def record(position: int, probabilities: tuple[float, ...] = (0.2, 0.7, 0.1), **changes: Any) -> Record:
        values: dict[str, Any] = {
            "candidates": ("Rome", "Paris", "Bern"),
            "probabilities": probabilities,
            "own": 0,
            "weights": WEIGHTS,
            "reliability": 0.8,
            "questions": position,
        }
        question = Question("Capital?", ("Rome", "Paris", "Bern"), "B", domain=changes.pop("domain", "quiz"))
        best = changes.pop("answers_best", False)
        evidence = CandidateEvidence(
            candidates=question.options,
            letters=(LetterOrder(order=(2, 0, 1), log_p=(-1.0, -1.0, -1.0)),),
            likelihoods=(None, None, None),
            source="options",
        )
        plain: Record = make_record(position, correct=False, frozen_correct=False)
        return replace(
            plain,
            question=question,
            evidence=Evidence(candidates=evidence),
            posterior=Posterior(**{**values, **changes}),
            answers_best=best,
        )

    return record


def test_a_run_without_a_posterior_has_nothing_to_say_and_no_section(
    answered: Any, make_record: Any, make_report: MakeReport
) -> None:
    def titles(records: list[Record]) -> list[str]:
        return [section.title for section in sections_of(make_report(records))]

    records = [make_record(position) for position in range(4)]
    assert posterior_notes(records) == []
    assert "Posterior: how probable each candidate is" not in titles(records)
    assert "Posterior: how probable each candidate is" in titles([answered(0)])


def test_the_notes_say_what_the_letters_are_worth_and_what_the_views_weigh(answered: Any) -> None:
    notes = posterior_notes([answered(0, questions=0), answered(1, questions=0), *map(answered, range(2, 10))])
    assert notes == [
        "The letters follow the options when these change places with a reliability of 0.80 of 1 (seen in 9 "
        "questions). Weights at the end, per nat: option letters, mean over orders 0.50, likelihood of the text, per "
        "token 0.25.",
        "For 10 questions the most probable candidate is not the model's own answer, which --answer best gives in its "
        "place.",
    ]


def test_the_result_is_about_the_posterior_and_both_kinds_of_answers(answered: Any, make_report: MakeReport) -> None:
    own = make_report([answered(position) for position in range(30)], method="posterior", keys=KEYS)
    row = own.summary.estimators["posterior"]
    assert own.main == row
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
    best = make_report([answered(position, answers_best=True) for position in range(30)], method="posterior", keys=KEYS)
    assert best.main == best.summary.estimators["posterior_best"]


def test_an_adapted_confidence_stays_what_a_run_that_learns_is_about(answered: Any, make_report: MakeReport) -> None:
    run = make_report([answered(position) for position in range(30)], keys=(*KEYS, "secl"))
    assert run.main == run.summary.estimators["secl"]
