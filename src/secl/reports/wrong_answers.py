"""The wrong answers of a run that were given with the highest confidence, ready to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secl.grading import reported_correct
from secl.question import References
from secl.records import Record, Reply
from secl.reports.answers import named, named_reference
from secl.reports.formatting import number

MAX_WRONG = 10
"""Wrong answers that are shown."""

EXCERPT = 300
"""Characters of a question that are shown."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer as text.

    Attributes:
        position: place of the question in the stream, from 0.
        domain: domain of the question.
        text: the question, or its beginning.
        options: letters and texts of its options.
        answer: the answer as it was graded; None if it could not be read.
        answered: the answer for people, an option with its text.
        reference: the right answer as it was graded against.
        right: the right answer for people.
        before: stated confidence of the frozen model.
        before_of: the frozen model's answer where it is another one, else empty.
        after: stated confidence of the adapted model; empty where nothing learned.
        p_true: P(True) of the model's own answer; empty where it was not asked for.
        posterior: posterior of the answer; empty where there is none.
        own: the model's own answer where the posterior's best one was given instead, else empty.
    """

    position: int
    domain: str
    text: str
    options: tuple[tuple[str, str], ...]
    answer: str | None
    answered: str
    reference: str | References | None
    right: str
    before: str
    before_of: str
    after: str
    p_true: str
    posterior: str
    own: str


def wrong_answers(records: Sequence[Record], *, adapted: bool, count: int = MAX_WRONG) -> list[WrongAnswer]:
    """The graded wrong answers with the highest reported confidence, the highest first.

    Args:
        records: records of one run.
        adapted: whether the adapted model's replies and stated confidences are meant, else the frozen model's, where a
            question has no posterior.
        count: the most that are returned.
    """
    graded = [(record, _reported(record, adapted)) for record in records]
    wrong = [(record, reported) for record, reported in graded if reported.correct is False]
    wrong.sort(key=lambda pair: (-pair[1].confidence, pair[0].position))
    return [_wrong_answer(record, reported, adapted) for record, reported in wrong[:count]]


@dataclass(frozen=True, slots=True)
class _Reported:
    """What was reported for a question: the reply, the answer in the end, how sure, and whether it is right."""

    reply: Reply
    answer: str | None
    confidence: float
    correct: bool | None


def _reported(record: Record, adapted: bool) -> _Reported:
    reply = record.reply
    if record.posterior is not None:
        return _Reported(reply, record.answer, record.confidence, reported_correct(record))
    if adapted:
        return _Reported(reply, reply.answer, reply.confidence, record.correct)
    return _Reported(record.frozen, record.frozen.answer, record.frozen.confidence, record.frozen_correct)


def _posterior(record: Record, answer: str | None) -> float | None:
    """Posterior of an answer: the model's own or the best one; None where there is none."""
    posterior = record.posterior
    if posterior is None or answer == record.reply.answer:
        return None if posterior is None else posterior.confidence
    return posterior.probabilities[posterior.best]


def _wrong_answer(record: Record, reported: _Reported, adapted: bool) -> WrongAnswer:
    question, frozen, p_true = record.question, record.frozen, record.evidence.p_true
    reply, answer, posterior = reported.reply, reported.answer, _posterior(record, reported.answer)
    text = question.text.strip()
    frozen_answer = named(question, frozen.answer) or "nothing readable"
    return WrongAnswer(
        position=record.position,
        domain=question.domain,
        text=text if len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()} …",
        options=tuple(zip(question.letters, question.options, strict=True)),
        answer=answer,
        answered=named(question, answer) or f"nothing readable: {reply.text.strip()[:EXCERPT]!r}",
        reference=question.reference,
        right=named_reference(question),
        before=number(frozen.confidence, 3),
        before_of=frozen_answer if frozen.answer != answer else "",
        after=number(reply.confidence, 3) if adapted else "",
        p_true=number(p_true.probabilities[0], 3) if p_true else "",
        posterior="" if posterior is None else number(posterior, 3),
        own=named(question, reply.answer) if answer != reply.answer else "",
    )
