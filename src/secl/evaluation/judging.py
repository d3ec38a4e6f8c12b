"""Answers judged by a model: does an answer say the same as the reference? It costs passes, and the judge errs too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from secl.calibrator import Calibrator
from secl.evaluation.posterior import order_averaged
from secl.lookahead import WINDOW
from secl.model import Model
from secl.question import Question, References
from secl.records import Record

Judge = Callable[[Sequence[tuple[Question, str]]], Sequence[bool]]
"""Says of each question's answer whether it is right by the question's reference."""

YES, NO = "Yes", "No"


def judged(records: Sequence[Record], judge: Judge) -> list[Record]:
    """Records whose open answers are graded by a judge: own, frozen and best answers alike.

    The answers that it calls right become the right answers of their question, so that everything behind grades alike.
    Multiple choice, questions without a reference, and answers that people labelled stay as they are.
    """
    pairs = {(record.question, answer): False for record in records if _open(record) for answer in answers_of(record)}
    verdicts = dict(zip(pairs, judge(list(pairs)), strict=True))
    return [_with(record, verdicts) if _open(record) else record for record in records]


def answers_of(record: Record) -> tuple[str, ...]:
    """The different answers of a record that can be right or wrong."""
    given = (record.reply.answer, record.frozen.answer, record.best_answer)
    return tuple(dict.fromkeys(answer for answer in given if answer is not None and answer.strip()))


def judge_by(model: Model) -> Judge:
    """A model as a judge: the letters of Yes and No, averaged over both orders, so that neither place is preferred."""
    calibrator = Calibrator(model, method="posterior")

    def judge(pairs: Sequence[tuple[Question, str]]) -> list[bool]:
        asked = [_verdict_on(question, answer) for question, answer in pairs]
        found: list[Record] = []
        for first in range(0, len(asked), WINDOW):
            found += calibrator.answer_all(asked[first : first + WINDOW])
        return [_says_yes(record) for record in found]

    return judge


def _verdict_on(question: Question, answer: str) -> Question:
    reference = question.reference
    right = reference.correct if isinstance(reference, References) else (str(reference),)
    text = (
        f"Question: {question.text}\nCorrect answer: {' or '.join(right)}\nA student answered: {answer}\n"
        "Is the student's answer correct?"
    )
    return Question(text, options=(YES, NO))


def _says_yes(record: Record) -> bool:
    own = order_averaged(record)
    if own is None:
        return False
    return (own if record.reply.answer == "A" else 1.0 - own) > 0.5


def _open(record: Record) -> bool:
    return not record.question.options and record.question.reference is not None and record.label is None


def _with(record: Record, verdicts: dict[tuple[Question, str], bool]) -> Record:
    right = tuple(answer for answer in answers_of(record) if verdicts[record.question, answer])
    question = replace(record.question, reference=References(right or ("",), ()), grader="exact")
    return replace(
        record,
        question=question,
        correct=record.reply.answer in right,
        frozen_correct=record.frozen.answer in right,
    )
