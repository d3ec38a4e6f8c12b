"""The object `secl` of a reply: the probability that the answer is correct, and the whole record on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NotRequired

from typing_extensions import TypedDict  # pydantic accepts typing.TypedDict only from Python 3.12 on

from secl.evaluation.json_values import defined
from secl.fields.calls import Call
from secl.runs.encoding import to_export
from secl.server.online.queue import Answer


class Candidate(TypedDict):
    """A possible answer, and the probability that it is correct."""

    text: str
    probability: float


class CallSecl(TypedDict):
    """The probability that a call with all its arguments is correct.

    tool: the choice of this tool; null if the request chose the tool. fields: the arguments.
    """

    name: str
    confidence: float | None
    tool: AnswerReply | None
    fields: dict[str, AnswerReply]


class Secl(TypedDict):
    """The probability that an answer is correct.

    confidence: this probability, in [0, 1]. low, high: 90 % interval of the calibrated confidence; null if the server
    does not calibrate by labels. candidates: possible answers, the most probable first; null without a posterior.
    accepted: whether the confidence reaches the server's threshold; null without a threshold. record_id: for reading
    the record and labelling the answer. reason: why confidence or record_id is null, or why the confidence is the
    stated one; absent otherwise. fields: of an object, by name or JSON pointer; absent for other answers. calls: of
    tools; absent without tools. ended: the choice to call no (further) tool; absent without this choice. detail: the
    record, as of `/v1/records/{record_id}`; absent unless the request asks for it.
    """

    confidence: float | None
    low: float | None
    high: float | None
    candidates: list[Candidate] | None
    accepted: bool | None
    record_id: str | None
    reason: NotRequired[str]
    fields: NotRequired[dict[str, AnswerReply]]
    calls: NotRequired[list[CallSecl]]
    ended: NotRequired[AnswerReply]
    detail: NotRequired[dict[str, object]]


class Named(TypedDict):
    """An answer's text, and its letter for a choice; both null if the reply has no readable answer."""

    text: str | None
    letter: str | None


class AnswerReply(Named, Secl):
    """An answer with its confidence: the model's answer, an answer from elsewhere, or a field's value as text."""


def call_secl(call: Call, parts: Iterator[AnswerReply]) -> CallSecl:
    """Return the confidences of a call; the first entries of `parts` belong to its records."""
    return {
        "name": call.name,
        "confidence": defined(call.confidence),
        "tool": None if call.tool is None else next(parts),
        "fields": {name: next(parts) for name in call.fields},
    }


def unrated(reason: str, record_id: str | None = None) -> Secl:
    """Return the object without a confidence, with the reason."""
    return {
        "confidence": None,
        "low": None,
        "high": None,
        "candidates": None,
        "accepted": None,
        "record_id": record_id,
        "reason": reason,
    }


UNWANTED = unrated("the request turned confidences off, so the server records nothing.")

LATER = "the confidence takes longer than the text; GET /v1/records/{} will have it."
"""Reason in a stream that ends before its confidence is known."""


def secl_of(answer: Answer, *, full: bool) -> Secl:
    record, confidence = answer.record, defined(answer.record.confidence)
    secl: Secl = {
        "confidence": confidence,
        "low": defined(record.low),
        "high": defined(record.high),
        "candidates": candidates_of(record.candidates) if record.posterior else None,
        "accepted": record.accepted,
        "record_id": answer.record_id if answer.stored else None,
    }
    reason = answer.remark
    if confidence is None:
        unread = "the reply holds no readable answer."
        reason = reason or (unread if record.answer is None else "the model stated no confidence.")
    elif not answer.stored:
        reason = "the server cannot write to its disk, so the answer has no record."
    if reason is not None:
        secl["reason"] = reason
    if full:
        secl["detail"] = to_export(record)
    return secl


def candidates_of(pairs: Sequence[tuple[str, float]]) -> list[Candidate]:
    return [{"text": text, "probability": probability} for text, probability in pairs]


def answer_reply(answer: Answer, *, full: bool) -> AnswerReply:
    """Return the reply to a question or to a rating, or the object for one part of an answer."""
    record = answer.record
    return {"text": record.text, "letter": record.letter, **secl_of(answer, full=full)}
