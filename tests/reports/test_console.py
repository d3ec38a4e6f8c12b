"""One answered question: the most probable answer first, the others below it, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from secl.calibrator import Calibrator
from secl.evidence import CandidateEvidence, Evidence, Labelled, LetterOrder, Posterior, Sample
from secl.question import Question
from secl.records import Record
from secl.reports.console import answer_reasons, answer_table
from secl.testing import ScriptedModel

KENYA = Question("Capital of Kenya?", options=("Lagos", "Nairobi", "Accra"), reference="B")
HAMLET = Question("Who wrote Hamlet?", reference="Shakespeare")


def answered(question: Question, found: Posterior | None, evidence: Evidence | None = None) -> Record:
    """The record of a question that is answered with the most probable candidate."""
    calibrator = Calibrator(ScriptedModel(stated=0.8, accuracy=1.0), method="stated")
    record = replace(calibrator.ask(question), labelled=None, answers_best=True)
    return replace(record, posterior=found, evidence=evidence or Evidence())


def posterior(question: Question, probabilities: tuple[float, ...], own: int | None, *more: str) -> Posterior:
    texts = question.options or ("Shakespeare", *more)
    return Posterior(candidates=texts, probabilities=probabilities, own=own, weights=(), reliability=None, questions=0)


def letters(log_p: tuple[float, float, float]) -> Evidence:
    read = (LetterOrder(order=(1, 2, 0), log_p=log_p),)
    return Evidence(
        candidates=CandidateEvidence(candidates=KENYA.options, letters=read, likelihoods=(None,) * 3, source="options")
    )


def rows(record: Record) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in answer_table(record).sections[""]]


def test_the_returned_answer_stands_first_and_the_models_own_says_what_it_stated() -> None:
    record = answered(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters((-3.0, -1.0, -2.0)))
    assert rows(record) == [("Nairobi", "76%", "own answer, stated 80%"), ("Lagos", "15%", ""), ("Accra", "9%", "")]
    assert answer_reasons(record) == ["Shown the options in another order, it picks the same."]
    turned = answered(KENYA, posterior(KENYA, (0.15, 0.76, 0.09), 1), letters((-3.0, -2.0, -1.0)))
    (reason,) = answer_reasons(turned)
    assert "C. Accra" in reason
    moved = Labelled(confidence=0.7, low=0.52, high=0.85, label_free=0.76, labels=30, of_domain=0, until=30)
    assert rows(replace(record, labelled=moved))[0][1] == "70% (52 to 85%)"
    other = answered(HAMLET, posterior(HAMLET, (0.08, 0.9, 0.02), 0, "Marlowe", "Kyd"))
    assert rows(other) == [("Marlowe", "90%", ""), ("Shakespeare", "8%", "own answer, stated 80%"), ("Kyd", "2%", "")]
    assert answer_reasons(other) == []


def test_unlisted_answers_are_named_many_candidates_counted_and_a_lone_one_has_the_stated_confidence() -> None:
    found = replace(posterior(HAMLET, (0.1, 0.7, 0.2), 0, "Marlowe", "None of these"), none_last=True)
    assert rows(answered(HAMLET, found))[1] == ("any other answer", "20%", "")
    names = [f"a rather long name number {number}" for number in range(9)]
    shown = rows(answered(HAMLET, posterior(HAMLET, (0.91, *(0.01,) * 9), 0, *names)))
    assert [row[0] for row in shown] == ["Shakespeare", *names[:4], "and 5 others"]
    alone = answered(HAMLET, None)
    assert rows(alone) == [("Shakespeare", "80%", "own answer, stated 80%")]
    assert answer_reasons(alone) == ["There are no two different candidates to compare."]


def test_an_unreadable_reply_is_said_and_the_most_probable_candidate_given() -> None:
    record = answered(HAMLET, posterior(HAMLET, (0.6, 0.4), None, "Marlowe"))
    unread = replace(record, reply=replace(record.reply, answer=None))
    assert rows(unread)[0] == ("Shakespeare", "60%", "")
    assert answer_table(unread).notes == ["The model's own reply holds no readable answer."]
    assert rows(replace(unread, posterior=None))[0][0] == "no readable answer"


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
    found = posterior(HAMLET, (0.9, 0.08, 0.02), 0, "Marlowe", "Kyd")
    assert answer_reasons(answered(HAMLET, found, Evidence(candidates=evidence))) == [why]
