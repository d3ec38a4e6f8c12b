"""A judge's word on open answers, and a model as a judge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from secl.calibrator import Calibrator
from secl.evaluation.judging import answers_of, judge_by, judged
from secl.evidence import CandidateEvidence, EvidenceKind, LetterOrder
from secl.gates import Never
from secl.grading import reported_correct
from secl.model import ModelAnswer
from secl.question import Question, References
from secl.records import Record, Reply
from secl.testing import ScriptedModel, toy_stream


def answered(question: Question, answer: str | None) -> Record:
    record = Calibrator(ScriptedModel(), gate=Never()).ask(question)
    reply = replace(record.reply, text=answer or "", answer=answer)
    return replace(record, reply=reply, frozen=reply, correct=False, frozen_correct=False)


OPEN = Question("Who wrote Faust?", reference="Goethe", id="a")


def says_poet(pairs: Sequence[tuple[Question, str]]) -> list[bool]:
    return ["poet" in answer for _, answer in pairs]


def test_what_the_judge_calls_right_is_right_everywhere_and_nothing_else() -> None:
    choice = Calibrator(ScriptedModel(), gate=Never()).ask(toy_stream(1)[0])
    unknown = answered(replace(OPEN, reference=None), "the poet")
    records = [answered(OPEN, "The poet of Weimar"), answered(OPEN, "Goethe"), answered(OPEN, None), choice, unknown]
    found = judged(records, says_poet)
    assert [record.correct for record in found[:3]] == [True, False, False]
    assert [reported_correct(record) for record in found[:3]] == [True, False, False]
    assert found[3:] == records[3:]


def test_people_come_before_the_judge() -> None:
    record = answered(OPEN, "The poet of Weimar").with_label(False)
    assert judged([record], says_poet) == [record]


def test_each_different_answer_is_judged_once() -> None:
    record = answered(OPEN, "The poet")
    record = replace(record, frozen=replace(record.frozen, answer="Somebody"))
    assert answers_of(record) == ("The poet", "Somebody")
    seen: list[tuple[Question, str]] = []

    def judge(pairs: Sequence[tuple[Question, str]]) -> list[bool]:
        seen.extend(pairs)
        return [True] * len(pairs)

    found = judged([record, record], judge)
    assert [answer for _, answer in seen] == ["The poet", "Somebody"]
    assert all(each.correct and each.frozen_correct for each in found)


class Seeing(ScriptedModel):
    """Remembers what it was asked, and prefers Yes or No by so many nats in each order."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.first, self.second, self.asked = first, second, list[Question]()

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
    ) -> ModelAnswer:
        self.asked.append(question)
        answer = super().answer(question, evidence=evidence, written=written)
        letters = (self.first, 0.0)
        reply = replace(answer.frozen, option_log_p=letters, answer="A" if self.first > 0 else "B")
        return replace(answer, reply=reply, frozen=reply)

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:  # noqa: ARG002
        order = LetterOrder(order=(1, 0), log_p=(self.second, 0.0))
        return CandidateEvidence(candidates=("Yes", "No"), letters=(order,), likelihoods=(None, None), source="options")


@pytest.mark.parametrize(
    ("first", "second", "verdict"), [(2.0, 1.0, True), (2.0, -3.0, False), (-1.0, 2.0, True), (-1.0, -1.0, False)]
)
def test_a_model_judges_by_its_letters_in_both_orders(first: float, second: float, verdict: bool) -> None:
    model = Seeing(first, second)
    pairs = [(OPEN, "Goethe, of course"), (replace(OPEN, reference=References(("x", "y"), ())), "x")]
    assert judge_by(model)(pairs) == [verdict, verdict]
    assert {question.options for question in model.asked} == {("Yes", "No")}
    assert "Correct answer: Goethe\nA student answered: Goethe, of course" in model.asked[0].text
    assert "Correct answer: x or y" in model.asked[1].text
