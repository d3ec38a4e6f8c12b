"""One answered question in a few lines: the most probable answer first, one number, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from secl.calibrator import Calibrator
from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Posterior, Sample
from secl.question import Question
from secl.records import Record
from secl.reports.console import answer_json, answer_lines
from secl.testing import ScriptedModel

KENYA = Question("Capital of Kenya?", options=("Lagos", "Nairobi", "Accra"), reference="B")
HAMLET = Question("Who wrote Hamlet?", reference="Shakespeare")


def answered(question: Question, found: Posterior | None, evidence: Evidence | None = None) -> Record:
    """The record of a question that is answered with the most probable candidate."""
    calibrator = Calibrator(ScriptedModel(stated=0.8, accuracy=1.0), method="stated")
    record = replace(calibrator.ask(question), labelled=None, answers_best=True)
    return replace(record, posterior=found, evidence=evidence or Evidence())


def posterior(question: Question, probabilities: tuple[float, ...], own: int | None, *more: str) -> Posterior:
    return Posterior(
        candidates=question.options or ("Shakespeare", *more),
        probabilities=probabilities,
        own=own,
        weights=(),
        reliability=None,
        questions=0,
    )


def lines(question: Question, found: Posterior | None, evidence: Evidence | None = None) -> list[str]:
    return answer_lines(answered(question, found, evidence))


def letters(*orders: tuple[float, float, float]) -> Evidence:
    read = tuple(LetterOrder(order=(1, 2, 0), log_p=log_p) for log_p in orders)
    return Evidence(
        candidates=CandidateEvidence(candidates=KENYA.options, letters=read, likelihoods=(None,) * 3, source="options")
    )


def test_the_own_answer_stands_first_where_it_is_the_most_probable_one() -> None:
    assert lines(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters((-3.0, -1.0, -2.0))) == [
        "Nairobi   76% likely right   (the model itself claims 80%)",
        "  Lagos 15%   Accra 9%",
        "Shown the options in another order, it picks the same.",
    ]


def test_another_choice_in_another_order_is_the_reason_that_is_shown() -> None:
    shown = lines(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters((-3.0, -2.0, -1.0)))
    assert "C. Accra" in shown[-1]
    assert len(shown) == 3


def test_a_more_probable_answer_stands_before_the_models_own() -> None:
    shown = lines(HAMLET, posterior(HAMLET, (0.08, 0.9, 0.02), 0, "Marlowe", "Kyd"))
    assert shown == [
        "Marlowe   90% likely right",
        "  Kyd 2%",
        'The model itself answers "Shakespeare" and claims 80%; 8% likely right.',
    ]


def test_what_is_given_as_json_is_what_is_shown_first() -> None:
    record = answered(HAMLET, posterior(HAMLET, (0.1, 0.9), 0, "Marlowe"))
    values = answer_json(record)
    assert (values["answer"], values["confidence"], values["source"]) == ("Marlowe", 0.9, "posterior")
    assert (values["own_answer"], values["own_confidence"]) == ("Shakespeare", 0.1)
    assert values["stated_confidence"] == record.reply.stated


def test_without_other_candidates_the_number_is_the_models_own_claim() -> None:
    assert lines(HAMLET, None) == [
        "Shakespeare   80% likely right, by the model's own claim alone",
        "There are no two different candidates to compare.",
    ]


def test_candidates_that_do_not_fit_on_a_line_are_counted() -> None:
    names = [f"a rather long name number {number}" for number in range(6)]
    _, others, _ = lines(HAMLET, posterior(HAMLET, (0.94, *(0.01,) * 6), 0, *names))
    assert others.endswith("   and 5 more")
    assert len(others) <= 76


def test_an_unreadable_reply_is_said_and_the_most_probable_candidate_given() -> None:
    record = answered(HAMLET, posterior(HAMLET, (0.6, 0.4), None, "Marlowe"))
    unread = replace(record, reply=replace(record.reply, answer=None))
    shown = answer_lines(unread)
    assert shown[0] == "Shakespeare   60% likely right"
    assert shown[-1] == "The model's own reply holds no readable answer."
    assert answer_lines(replace(unread, posterior=None))[0] == "no readable answer"


@pytest.mark.parametrize("text", ["one\ntwo", "word " * 20])
def test_a_long_answer_has_its_number_on_a_line_of_its_own(text: str) -> None:
    shown = lines(HAMLET, posterior(HAMLET, (0.3, 0.7), 0, text))
    assert shown[1] == "70% likely right"


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ((("Shakespeare", 0, False),) * 3, "Asked 3 times more, it says the same every time."),
        ((("Shakespeare", 0, False), ("Kyd", 2, False)), "Asked 2 times more, it says the same 1 time."),
        ((("Kyd", 2, False),) * 2, "Asked 2 times more, it never says the same."),
        ((("7", 0, True),), "A short program that it wrote comes to the same number."),
        ((("8", 1, True), ("7", 0, False)), "A short program that it wrote comes to another number."),
        (((None, None, True), ("7", 0, False)), "A short program that it wrote comes to no number."),
    ],
)
def test_the_reason_of_an_open_answer_is_what_else_was_said(
    samples: tuple[tuple[str | None, int | None, bool], ...], why: str
) -> None:
    drawn = tuple(Sample(text=text, candidate=number, log_p=None, program=program) for text, number, program in samples)
    evidence = CandidateEvidence(candidates=("a",) * 3, letters=(), likelihoods=(None,) * 3, samples=drawn, source="")
    shown = lines(HAMLET, posterior(HAMLET, (0.9, 0.08, 0.02), 0, "Marlowe", "Kyd"), Evidence(candidates=evidence))
    assert shown[-1] == why
