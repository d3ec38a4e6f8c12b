"""What replies hold, whole and as streams of server-sent events, with an object `secl` in every choice.

A stream: role of each choice -> pieces, as they are written -> for each choice why it ended, and its `secl` -> usage ->
[DONE]. An object comes in one piece.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from pydantic import BaseModel, Field

from secl.conversation import ToolCall
from secl.errors import SeclError
from secl.server.entries import Values
from secl.server.http.confidence import UNWANTED, Secl, later, secl_of
from secl.server.http.errors import describe_failure, error_json, to_request_error
from secl.server.http.waiting import TextEvents
from secl.server.online.queue import Answer
from secl.server.online.texts import Ended, Event, Rated
from secl.writing import Finish, Piece, Token, Written

LEAST = -9999.0
"""Logarithm of a probability of 0, as at OpenAI's."""

GRACE = 0.5
"""Seconds that the end of a stream waits for the confidence; clients take a longer silence for a fault."""

log = logging.getLogger("secl.server")


class Usage(BaseModel):
    """Tokens of the prompt, once, and of all texts; those for the confidence are in `secl.records`."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt: int, written: int) -> Usage:
        return cls(prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written)


class TopLogProb(BaseModel):
    """A token with its log-probability. bytes: null where they are part of a character."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogProb(TopLogProb):
    """A token of a text, with the most probable ones in its place."""

    top_logprobs: list[TopLogProb]


class LogProbs(BaseModel):
    """Log-probabilities of a text's tokens, before temperature and top_p."""

    content: list[TokenLogProb]
    refusal: None = None

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> LogProbs | None:
        """Those of a text, or of a piece of it; None without tokens."""
        content = []
        for token in tokens:
            top = [TopLogProb(**_logprob(text, log_p)) for text, log_p in token.top]
            content.append(TokenLogProb(**_logprob(token.text, token.log_p), top_logprobs=top))
        return cls(content=content) if content else None


def _logprob(text: str, log_p: float) -> Values:
    """Of a token. A decoder turns bytes of half a character into U+FFFD, so the original bytes are unknown."""
    return {"token": text, "logprob": max(LEAST, log_p), "bytes": None if "\ufffd" in text else list(text.encode())}


class CalledFunction(BaseModel):
    """What is called, with a JSON object of arguments as a text."""

    name: str
    arguments: str


class AnsweredCall(BaseModel):
    """A call of a tool."""

    id: str = Field(default_factory=lambda: f"call_{secrets.token_hex(12)}")
    type: Literal["function"] = "function"
    function: CalledFunction


class AnswerMessage(BaseModel):
    """The visible answer; tool_calls: absent for a text."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: list[AnsweredCall] | None = Field(None, exclude_if=lambda value: value is None)


def called_message(text: str, calls: Sequence[ToolCall]) -> AnswerMessage:
    """The answer with calls, and with what is said beside them."""
    functions = [CalledFunction(name=call.name, arguments=call.arguments) for call in calls]
    return AnswerMessage(content=text or None, tool_calls=[AnsweredCall(function=each) for each in functions])


class Choice(BaseModel):
    """A text with its confidence."""

    index: int
    message: AnswerMessage
    finish_reason: Finish | Literal["tool_calls"]
    logprobs: LogProbs | None = None
    secl: Secl


class Completion(BaseModel):
    """OpenAI's chat completion. `secl` is that of the first choice; `warnings` name what had no effect."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    secl: Secl
    warnings: list[str]


class ModelCard(BaseModel):
    """A model that can be asked."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "secl"


class ModelList(BaseModel):
    """All models that can be asked: one."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


def choices_of(texts: Sequence[Written], confidences: Sequence[Secl]) -> list[Choice]:
    """Texts with their confidences; without confidences, texts whose request wanted none."""
    return [
        Choice(
            index=index,
            message=AnswerMessage(content=written.text),
            finish_reason=written.finish,
            logprobs=LogProbs.of(written.tokens),
            secl=secl,
        )
        for index, (written, secl) in enumerate(zip(texts, confidences or [UNWANTED] * len(texts), strict=True))
    ]


def usage_of(texts: Sequence[Written]) -> Usage:
    return Usage.of(texts[0].prompt_tokens, sum(text.completion_tokens for text in texts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """What all chunks of a reply begin with, and the whole reply; `full` asks for every detail of the confidence."""

    id: str
    model: str
    full: bool
    warnings: list[str] = field(default_factory=list)
    created: int = field(default_factory=lambda: int(time.time()))


def texts_reply(heading: Heading, texts: Sequence[Written], answers: Sequence[Answer]) -> Completion:
    """The whole reply with texts."""
    choices = choices_of(texts, [secl_of(answer, full=heading.full) for answer in answers])
    return completion_of(heading, choices, usage_of(texts))


def completion_of(heading: Heading, choices: list[Choice], usage: Usage) -> Completion:
    return Completion(
        id=heading.id,
        created=heading.created,
        model=heading.model,
        choices=choices,
        usage=usage,
        secl=choices[0].secl,
        warnings=heading.warnings,
    )


async def chunks_of(heading: Heading, texts: TextEvents, first: Event, *, with_usage: bool) -> AsyncIterator[Values]:
    """The chunks of the reply, while its texts are written; a confidence that takes longer is in the record."""

    data = partial(_headed, heading, with_usage)
    for index in range(texts.job.writing.n):
        yield data(_chunk(index, {"role": "assistant", "content": ""}))
    event = first
    while isinstance(event, Piece):
        if event.text or event.tokens:
            yield data(_chunk(event.choice, {"content": event.text}, LogProbs.of(event.tokens)))
        event = await texts.next()
    if isinstance(event, Ended):
        rated = await texts.next_within(GRACE)
        confidences = [later(identifier) for identifier in texts.job.record_ids]
        if isinstance(rated, Rated):
            confidences = [secl_of(answer, full=heading.full) for answer in rated.answers]
        for choice in choices_of(event.texts, confidences):
            yield data(_last_chunk(choice, heading))
        if with_usage:
            yield data({"choices": [], "usage": usage_of(event.texts).model_dump()})


async def chunks_at_once(heading: Heading, reply: Completion, *, with_usage: bool) -> AsyncIterator[Values]:
    """The chunks of a reply that is there as a whole."""
    data = partial(_headed, heading, with_usage)
    for choice in reply.choices:
        delta = choice.message.model_dump(mode="json")
        for number, call in enumerate(delta.get("tool_calls", ())):
            call["index"] = number
        yield data(_chunk(choice.index, delta))
        yield data(_last_chunk(choice, heading))
    if with_usage:
        yield data({"choices": [], "usage": reply.usage.model_dump()})


def _headed(heading: Heading, with_usage: bool, chunk: Values) -> Values:
    head = {"id": heading.id, "object": "chat.completion.chunk", "created": heading.created, "model": heading.model}
    return {**head, **({"usage": None} if with_usage else {}), **chunk}


def _last_chunk(choice: Choice, heading: Heading) -> Values:
    secl = choice.secl.model_dump(mode="json")
    chunk = _chunk(choice.index, {}, finish_reason=choice.finish_reason, secl=secl)
    return chunk | {"secl": secl, "warnings": heading.warnings}


async def sent(chunks: AsyncIterator[Values], cancel: Callable[[], None]) -> AsyncIterator[str]:
    """Chunks as server-sent events, with their end; a failure on the way is the last event before it."""
    try:
        async for chunk in chunks:
            yield _data(chunk)
    except Exception as problem:
        if not isinstance(problem, SeclError):
            log.error("a stream failed: %s", describe_failure(problem))
            problem = SeclError()
        yield _data(error_json(to_request_error(problem)))
    finally:
        cancel()  # the client may have gone
    yield "data: [DONE]\n\n"


def _chunk(index: int, delta: Values, logprobs: LogProbs | None = None, **more: object) -> Values:
    """A chunk of one choice."""
    plain = None if logprobs is None else logprobs.model_dump()
    return {"choices": [{"index": index, "delta": delta, "finish_reason": None, "logprobs": plain, **more}]}


def _data(content: object) -> str:
    return f"data: {json.dumps(content, allow_nan=False)}\n\n"
