"""What a report says and draws of the posterior: where its weights come from, and own against best answers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from secl.errors import ParameterError
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.summary import evaluate
from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Posterior
from secl.question import Question
from secl.records import Record
from secl.reports.figures.posterior import groups_of, posterior_figure
from secl.reports.figures.timeline import timeline_figure
from secl.reports.folder import write_report
from secl.reports.headline import verdict
from secl.reports.page import render
from secl.reports.posterior_section import posterior_notes
from secl.reports.run_report import RunReport, best_alternative, panels
from secl.reports.run_rows import domain_rows, overview
from secl.reports.wrong_answers import wrong_answers

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


def test_a_run_without_a_posterior_has_nothing_to_say_and_no_section(make_record: Any, make_report: MakeReport) -> None:
    records = [make_record(position) for position in range(4)]
    assert posterior_notes(records) == []
    assert "Posterior" not in render([make_report(records)], [{}], None)


def test_the_notes_say_what_the_letters_are_worth_and_what_the_views_weigh(answered: Any) -> None:
    notes = posterior_notes([answered(0, questions=0), answered(1, questions=0), *map(answered, range(2, 10))])
    assert notes == [
        "The letters follow the options when these change places (reliability 0.80 of 1, seen in 9 questions). Weights "
        "at the end, per nat: option letters, mean over orders 0.50, likelihood of the text, per token 0.25.",
        "For 10 questions the most probable candidate is not the model's own answer, which --answer best gives in its "
        "place.",
        "Of 10 graded questions, 0.0% of the model's own answers and 100.0% of the most probable candidates are right.",
    ]


@pytest.mark.parametrize(
    ("reliability", "questions", "said"),
    [
        (0.3, 4, "The letters follow only in part the options"),
        (0.0, 4, "when these change places (seen in 4 questions): they weigh nothing."),
        (0.0, 0, "when these change places (as known before the first question): they weigh nothing."),
    ],
)
def test_letters_are_called_as_reliable_as_they_are(
    answered: Any, reliability: float, questions: int, said: str
) -> None:
    assert said in " ".join(posterior_notes([answered(1, reliability=reliability, questions=questions)]))


def test_what_is_unknown_is_left_out(answered: Any) -> None:
    notes = posterior_notes([answered(0, questions=0, reliability=None)])
    assert notes[0].startswith("Weights at the end, per nat: ")
    assert len(notes) == 3


def test_questions_without_a_posterior_are_counted(answered: Any, make_record: Any) -> None:
    notes = " ".join(posterior_notes([answered(1), make_record(2), make_record(3)]))
    assert "2 questions had no posterior" in notes
    assert "Of 1 graded question" in notes


def test_the_verdict_is_about_the_posterior_and_both_kinds_of_answers(answered: Any, make_report: MakeReport) -> None:
    own = make_report([answered(position) for position in range(30)], learned=False, keys=KEYS)
    row = own.summary.estimators["posterior"]
    assert best_alternative(own.summary) == row
    assert verdict(own.summary).endswith(
        f"; the posterior was off by {row.ece:.3f}, Brier score {row.brier:.3f}. The answers themselves were right 0% "
        "of the time, the posterior's best ones 100%."
    )
    assert list(panels(own)) == ["stated", "posterior", "posterior_best"]
    assert overview(own)[3] == "0.0%, best 100.0%"
    assert overview(own)[6] == "Posterior"
    assert domain_rows(own)[0]["best_accuracy"] == "best 100.0%"
    best = make_report([answered(position, answers_best=True) for position in range(30)], learned=False, keys=KEYS)
    assert best_alternative(best.summary) == best.summary.estimators["posterior_best"]


def test_an_adapted_confidence_stays_what_a_run_that_learns_is_about(answered: Any) -> None:
    records = [answered(position) for position in range(30)]
    summary = evaluate(records, {name: ESTIMATORS[name] for name in (*KEYS, "secl")}, intervals=False).summary
    assert best_alternative(summary) == summary.estimators["secl"]
    said = verdict(summary)
    assert said.index("after adapting it was off by") < said.index("the posterior was off by")


def test_wrong_answers_have_the_posterior_as_their_confidence(answered: Any) -> None:
    records = [answered(0, (0.2, 0.7, 0.1)), answered(1, (0.5, 0.4, 0.1)), answered(2, own=None)]
    wrong = wrong_answers(records, adapted=False)
    assert [(each.position, each.posterior, each.own) for each in wrong] == [
        (2, "", ""),
        (1, "0.500", ""),
        (0, "0.200", ""),
    ]


def test_best_answers_are_graded_and_shown_as_what_was_answered(answered: Any) -> None:
    records = [
        answered(0, (0.2, 0.7, 0.1), answers_best=True),
        answered(1, (0.2, 0.1, 0.7), answers_best=True),
    ]
    (wrong,) = wrong_answers(records, adapted=False)
    assert (wrong.position, wrong.answered, wrong.posterior, wrong.own) == (1, "C. Bern", "0.700", "A. Rome")


def test_a_group_has_accuracies_and_mean_confidences(answered: Any, make_record: Any) -> None:
    records = [answered(0, domain="a"), answered(1, (0.6, 0.3, 0.1), domain="b"), make_record(2, domain="c")]
    groups = groups_of(records)
    assert list(groups) == ["all questions", "a", "b"]
    every = groups["all questions"]
    assert (every.n, every.own, every.best) == (2, 0.0, 0.5)
    assert (every.stated, every.posterior, every.posterior_best) == pytest.approx((0.95, 0.4, 0.65))
    assert list(groups_of(records[:1])) == ["all questions"]
    assert groups_of(records[2:]) == {}


@pytest.mark.heavy
def test_the_picture_has_a_bar_for_each_kind_of_answer(answered: Any) -> None:
    figure = posterior_figure(groups_of([answered(0), answered(1, (0.6, 0.3, 0.1))]))
    (axes,) = figure.axes
    assert [patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)] == [0.0, 0.5]
    assert [text.get_text() for text in axes.texts] == ["0.0% right", "50.0% right"]
    with pytest.raises(ParameterError, match="at least one group"):
        posterior_figure({})


@pytest.mark.heavy
def test_a_timeline_has_the_posterior_and_the_best_answers(answered: Any, make_record: Any) -> None:
    _, middle, bottom = timeline_figure([answered(0), answered(1), make_record(2)], window=20, adapted=False).axes
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in (*middle.lines, *bottom.lines)}
    assert lines["posterior, mean of 20"] == pytest.approx([0.2, 0.2, 0.2])
    assert lines["best, mean of 20"] == [1.0, 1.0, 1.0]


def test_the_page_has_a_section_with_its_picture(
    tmp_path: Path, answered: Any, make_report: MakeReport, sketched: None
) -> None:
    records = [answered(position, domain="<b>&") for position in range(5)]
    page = write_report(tmp_path, [make_report(records, learned=False, keys=KEYS)]).read_text(encoding="utf-8")
    ET.fromstring(page.partition("\n")[2])
    assert "Posterior: how probable each candidate is" in page
    assert "the second the posterior of the answers" in page
    assert "option letters, mean over orders" in page
    assert "best 100.0%" in page
    assert (tmp_path / "posterior.svg").is_file()
    assert "## Posterior: how probable each candidate is" in (tmp_path / "summary.md").read_text(encoding="utf-8")
