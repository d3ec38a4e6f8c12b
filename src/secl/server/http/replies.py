"""JSON of replies: OpenAI's chat completion, and the object `secl` with the probability that an answer is correct."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Literal, NotRequired, TypeVar

from typing_extensions import TypedDict  # pydantic accepts typing.TypedDict only from Python 3.12 on

from secl.client import AnswerReply, CallSecl, Candidate, FactReply, Secl
from secl.conversation import ToolCall
from secl.evaluation.json_values import defined
from secl.facts.records import expected_wrong
from secl.fields.calls import Call
from secl.records import Record
from secl.runs.encoding import to_export
from secl.server.online.queue import ServedAnswer
from secl.telemetry import mark_span
from secl.writing import FinishReason, Token

Marked = TypeVar("Marked", Secl, AnswerReply)

MIN_LOGPROB = -9999.0
"""Logarithm of the probability 0 in OpenAI's API."""


class Usage(TypedDict):
    """Numbers of tokens. The prompt counts once for all texts. `Record.ledger` has the tokens for confidences."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TopLogProb(TypedDict):
    """A token with its log-probability. bytes: null if the token is only part of a character."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogProb(TopLogProb):
    """A token of a text, with the most probable tokens at its position."""

    top_logprobs: list[TopLogProb]


class LogProbs(TypedDict):
    """Log-probabilities of a text's tokens, before temperature and top_p."""

    content: list[TokenLogProb]
    refusal: None


class CalledFunction(TypedDict):
    """The called function, with its arguments as the text of a JSON object."""

    name: str
    arguments: str


class AnsweredCall(TypedDict):
    """A call of a tool."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(TypedDict):
    """The visible answer. tool_calls: absent for a text. reasoning_content: the thought before the answer, if any."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: NotRequired[list[AnsweredCall]]
    reasoning_content: NotRequired[str]


class Choice(TypedDict):
    """An answer with its confidence."""

    index: int
    message: AnswerMessage
    finish_reason: FinishReason | Literal["tool_calls"]
    logprobs: LogProbs | None
    secl: Secl


class Completion(TypedDict):
    """OpenAI's chat completion. `secl` belongs to the first choice; `warnings` name fields without effect."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    secl: Secl
    warnings: list[str]


class ModelCard(TypedDict):
    """A model that answers requests."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    """The list of models, which has one entry."""

    object: Literal["list"]
    data: list[ModelCard]


def call_secl(call: Call, parts: Iterator[AnswerReply]) -> CallSecl:
    """Return the confidences of a call. `parts` yields the replies for its tool (if rated) and its arguments."""
    return {
        "name": call.name,
        "confidence": defined(call.confidence),
        "tool": None if call.tool is None else next(parts),
        "fields": {name: next(parts) for name in call.fields},
    }


def unrated(reason: str, record_id: str | None = None) -> Secl:
    """Return the object `secl` of an answer without a confidence."""
    return {
        "confidence": None,
        "low": None,
        "high": None,
        "candidates": None,
        "accepted": None,
        "accept": None,
        "record_id": record_id,
        "reason": reason,
    }


UNWANTED = unrated("the request turned confidences off, so the server records nothing.")

LATER = "the confidence takes longer than the text; GET /v1/records/{} will return it."
"""Reason in a stream that ends before its confidence is known."""


def secl_of(answer: ServedAnswer, *, full: bool, content: str | None = None) -> Secl:
    """Return the object `secl` of an answer; `content` is the text that the client gets, by default `Record.text`."""
    record = answer.record
    secl: Secl = {
        "confidence": defined(record.confidence),
        "low": defined(record.low),
        "high": defined(record.high),
        "candidates": candidates_of(record.candidates) if record.posterior else None,
        "accepted": record.accepted,
        "accept": record.accept,
        "record_id": answer.record_id if answer.stored else None,
    }
    reason = answer.caveat
    if secl["confidence"] is not None and not answer.stored:
        reason = "the server cannot write to its disk, so the answer has no record."
    if reason is not None:
        secl["reason"] = reason
    if record.facts is not None:
        secl["facts"] = facts_of(record, content)
        secl["expected_wrong"] = defined(expected_wrong(record.facts)) if record.facts else None
    if full:
        secl["detail"] = to_export(record)
    return secl


def facts_of(record: Record, content: str | None) -> list[FactReply]:
    """Return the facts of a text with their places in `content`, which may have spaces or a thought before the text."""
    before = 0 if content is None else len(content.rstrip()) - len(record.text or "")
    return [
        {
            "number": fact.fact,
            "start": before + start,
            "end": before + end,
            "text": fact.text or "",
            "kind": fact.question.domain,
            "confidence": defined(fact.confidence),
            "low": defined(fact.low),
            "high": defined(fact.high),
            "candidates": candidates_of(fact.candidates) if fact.posterior else None,
            "accepted": fact.accepted,
            "accept": fact.accept,
            "in_passage": fact.in_passage,
            "support": defined(fact.support),
        }
        for fact in record.facts or ()
        for start, end in [fact.span or (0, 0)]
    ]


def candidates_of(pairs: Sequence[tuple[str, float]]) -> list[Candidate]:
    return [{"text": text, "probability": probability} for text, probability in pairs]


def answer_reply(answer: ServedAnswer, *, full: bool) -> AnswerReply:
    """Return the JSON of a rated answer: a whole answer, a field of an object, or a part of a call."""
    record = answer.record
    return {"text": record.text, "letter": record.letter, **secl_of(answer, full=full)}


def marked(secl: Marked) -> Marked:
    """Give the current span of OpenTelemetry the confidence of a reply, and return its object `secl`."""
    mark_span(confidence=secl["confidence"], accepted=secl["accepted"], record_id=secl["record_id"])
    return secl


def usage_of(prompt: int, written: int) -> Usage:
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def log_probs(tokens: Sequence[Token]) -> LogProbs | None:
    """Return the log-probabilities of some tokens of a text; None without tokens."""
    content: list[TokenLogProb] = [
        {**_log_prob(token.text, token.log_p), "top_logprobs": [_log_prob(*top) for top in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None} if content else None


def _log_prob(text: str, log_p: float) -> TopLogProb:
    # The tokenizer decodes an incomplete UTF-8 character as U+FFFD, so the bytes of this token are unknown.
    return {
        "token": text,
        "logprob": max(MIN_LOGPROB, log_p),
        "bytes": None if "\ufffd" in text else list(text.encode()),
    }


def choice_of(
    text: str,
    finish: FinishReason,
    secl: Secl,
    *,
    tokens: Sequence[Token] = (),
    index: int = 0,
    thought: str | None = None,
    calls: Sequence[ToolCall] = (),
) -> Choice:
    """Return a choice of OpenAI's API. `secl`: object with the confidence. `thought`: thought before the answer."""
    message: AnswerMessage = {"role": "assistant", "content": text, "refusal": None}
    if thought:
        message["reasoning_content"] = thought  # the name that vLLM, llama-server and DeepSeek use
    if calls:
        message["content"] = text or None
        message["tool_calls"] = [
            {
                "id": f"call_{secrets.token_hex(12)}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    reason: FinishReason | Literal["tool_calls"] = "tool_calls" if calls and finish == "stop" else finish
    return {"index": index, "message": message, "finish_reason": reason, "logprobs": log_probs(tokens), "secl": secl}
