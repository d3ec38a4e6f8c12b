"""The object `secl` of a reply: how probable it is that the answer is correct; every detail only on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NotRequired  # pydantic reads those of typing from Python 3.12 on only

from typing_extensions import TypedDict

from secl.evaluation.json_values import defined
from secl.evaluation.reason import Code
from secl.evaluation.symptoms import Source, source_of
from secl.evaluation.trust import Level
from secl.posterior.views import pmi_of
from secl.server.online.queue import Answer


class Candidate(TypedDict):
    """A possible answer, and the probability that it is correct."""

    text: str
    probability: float


class Detail(TypedDict):
    """What the confidence was made of; sent with `"detail": "full"`.

    source: "posterior", what the frozen model shows about all candidates, or "stated" by the model. label_free: the
    confidence without labels; labels: their number. own: the model's own answer as it wrote it; own_answer: the letter
    or the short text read from it; own_confidence: the probability that it is correct. stated: the confidence that the
    model stated (the expected centre of the ten bins, in [0.05, 0.95]); frozen: that of the frozen model. remark: how
    to read the confidence. bins: probabilities of the stated digits 0 to 9, which sum to 1; digit_mass: their sum
    before they were normalised. entropy: of the reply, in nats. log_probability: natural logarithm of the probability
    of the answer's tokens. pmi: nats by which the question makes the answer more probable. p_true: probability that the
    model calls it true. version: of the weights that computed the reply. in_burst: whether the gate asks for lessons.
    cost: tokens that went through the network, by purpose, without a chat's text, which usage counts. accept: the
    server's threshold. verdict: whether the latest confidences may be acted on; warnings: codes of the reasons against
    it.
    """

    source: Source
    label_free: float | None
    labels: int
    own: str
    own_answer: str | None
    own_confidence: float | None
    stated: float | None
    frozen: float | None
    remark: str | None
    bins: list[float]
    digit_mass: float | None
    entropy: float | None
    log_probability: float | None
    pmi: float | None
    p_true: float | None
    version: int
    in_burst: bool
    cost: dict[str, float]
    stored: bool
    accept: float | None
    verdict: Level | None
    warnings: list[Code]


class CallSecl(TypedDict):
    """The probability that a call with all its arguments is correct.

    tool: confidence in the choice of this tool; null if the request chose it. fields: the arguments.
    """

    name: str
    confidence: float | None
    tool: AnswerReply | None
    fields: dict[str, AnswerReply]


class Secl(TypedDict):
    """The probability that an answer is correct.

    confidence: that probability, in [0, 1]. low, high: bounds that contain the right confidence with a probability of
    0.9; null without labels to follow. candidates: possible answers, the most probable first; null without a posterior.
    accepted: whether the confidence reaches the server's threshold; null without a threshold. record_id: names the
    record, for reading it and for labelling the answer. reason: why confidence or record_id is null; absent otherwise.
    fields: of an object, by name or JSON pointer; absent for other answers. calls: of tools; absent without tools.
    ended: of the choice to call no (further) tool; absent where there was no such choice.
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
    detail: NotRequired[Detail]


class Named(TypedDict):
    """An answer: its text, and its letter for a choice; both null where the model's words could not be read."""

    text: str | None
    letter: str | None


class AnswerReply(Named, Secl):
    """An answer with its confidence: to a question, from elsewhere, or the value of a field as a text."""


def unrated(reason: str, record_id: str | None = None) -> Secl:
    """Return the object without a confidence, and why it has none."""
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


def later(record_id: str) -> Secl:
    """Return the object of a stream that ends before its confidence is known."""
    return unrated(f"the confidence takes longer than the text; GET /v1/records/{record_id} will have it.", record_id)


def secl_of(answer: Answer, *, full: bool) -> Secl:
    """The object with the confidence of an answer."""
    record, confidence = answer.record, defined(answer.record.confidence)
    secl: Secl = {
        "confidence": confidence,
        "low": defined(record.low),
        "high": defined(record.high),
        "candidates": candidates_of(record.candidates) if record.posterior else None,
        "accepted": record.accepted,
        "record_id": answer.record_id if answer.stored else None,
    }
    if confidence is None:
        secl["reason"] = answer.remark or "the model stated no confidence."
    elif not answer.stored:
        secl["reason"] = "the server cannot write to its disk, so the answer has no record."
    if full:
        secl["detail"] = _detail(answer)
    return secl


def candidates_of(pairs: Sequence[tuple[str, float]]) -> list[Candidate]:
    return [{"text": text, "probability": probability} for text, probability in pairs]


def _detail(answer: Answer) -> Detail:
    record, reply, p_true = answer.record, answer.record.reply, answer.record.evidence.p_true
    return {
        "source": source_of(record),
        "label_free": defined(record.label_free),
        "labels": 0 if record.labelled is None else record.labelled.labels,
        "own": reply.text.strip(),
        "own_answer": None if record.question.free else reply.answer,
        "own_confidence": None if record.posterior is None else record.posterior.confidence,
        "stated": defined(reply.stated),
        "frozen": defined(record.frozen.stated),
        "remark": answer.remark,
        "bins": list(reply.bins),
        "digit_mass": defined(reply.digit_mass),
        "entropy": defined(reply.entropy),
        "log_probability": defined(reply.log_probability),
        "pmi": defined(pmi_of(record)),
        "p_true": None if p_true is None else p_true.probabilities[0],
        "version": reply.version,
        "in_burst": record.decision.in_burst,
        "cost": {purpose: tokens for purpose, tokens in asdict(record.ledger).items() if tokens},
        "stored": answer.stored,
        "accept": record.accept,
        "verdict": None if answer.verdict is None else answer.verdict.level,
        "warnings": [] if answer.verdict is None else list(answer.verdict.warnings),
    }


def answer_reply(answer: Answer, *, full: bool) -> AnswerReply:
    """The reply to a plain question or to an answer to rate, and the object for one part of an answer."""
    record = answer.record
    return {"text": record.text, "letter": record.letter, **secl_of(answer, full=full)}
