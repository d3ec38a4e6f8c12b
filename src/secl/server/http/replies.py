"""What replies hold, whole and as streams of server-sent events, with an object `secl` in every choice.

A stream: role of each choice -> pieces, as they are written -> for each choice why it ended, and its `secl` -> usage ->
[DONE]
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from secl.errors import SeclError
from secl.server.entries import Values
from secl.server.http.confidence import UNWANTED, NoConfidence, Secl, later, secl_of
from secl.server.http.errors import describe_failure, error_json, to_request_error
from secl.server.http.waiting import Texts
from secl.writing import Finish, Token, Written

PREFIX = "chatcmpl"
"""What the id of a reply begins with."""

LEAST = -9999.0
"""What stands for the logarithm of a probability of nothing, as at OpenAI's."""

GRACE = 0.5
"""Seconds that the end of a stream waits for the confidence; clients take a longer silence for a fault."""

log = logging.getLogger("secl.server")


class Usage(BaseModel):
    """Tokens of the prompt, once, and of all texts; those for the confidence are in `secl.records`."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


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
    def of(cls, tokens: Sequence[Token]) -> LogProbs:
        """Those of a text, or of a piece of it."""
        content = []
        for token in tokens:
            top = [TopLogProb(**_logprob(text, log_p)) for text, log_p in token.top]
            content.append(TokenLogProb(**_logprob(token.text, token.log_p), top_logprobs=top))
        return cls(content=content)


def _logprob(text: str, log_p: float) -> Values:
    """Of a token. A decoder makes U+FFFD of bytes that are no whole character, and nobody knows which they were."""
    return {"token": text, "logprob": max(LEAST, log_p), "bytes": None if "\ufffd" in text else list(text.encode())}


class AnswerMessage(BaseModel):
    """The visible answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    """A text with its confidence."""

    index: int
    message: AnswerMessage
    finish_reason: Finish
    logprobs: LogProbs | None
    secl: Secl | NoConfidence


class Completion(BaseModel):
    """OpenAI's chat completion. `secl` is that of the first choice; `warnings` name what had no effect."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    secl: Secl | NoConfidence
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


def choices_of(texts: Sequence[Written], confidences: Sequence[Secl | NoConfidence]) -> list[Choice]:
    """Texts with their confidences, which nobody may have wanted."""
    return [
        Choice(
            index=index,
            message=AnswerMessage(content=written.text),
            finish_reason=written.finish,
            logprobs=LogProbs.of(written.tokens) if written.tokens else None,
            secl=secl,
        )
        for index, (written, secl) in enumerate(zip(texts, confidences or [UNWANTED] * len(texts), strict=True))
    ]


def usage_of(texts: Sequence[Written]) -> Usage:
    """Tokens of one prompt and of all texts."""
    prompt, written = texts[0].prompt_tokens, sum(text.completion_tokens for text in texts)
    return Usage(prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How the answers to one chat are put into OpenAI's JSON.

    Attributes:
        model: the model's public name.
        warnings: of the reply.
        with_usage: whether a stream ends with usage.
        created: when, in seconds since 1970.
    """

    model: str
    warnings: list[str]
    with_usage: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def reply(self, identifier: str, choices: list[Choice], usage: Usage) -> Completion:
        """The whole reply; `identifier` is what is behind the hyphen in its id."""
        return Completion(
            id=f"{PREFIX}-{identifier}",
            created=self.created,
            model=self.model,
            choices=choices,
            usage=usage,
            secl=choices[0].secl,
            warnings=self.warnings,
        )

    async def live(self, identifier: str, texts: Texts) -> AsyncIterator[str]:
        """The stream of texts as they are written; what fails on the way is its last event.

        It ends soon after the last word. A confidence that takes longer is in the record, whose name it ends with.
        """
        try:
            for index in range(texts.writing.n):
                yield self._event(identifier, _chunk(index, {"role": "assistant", "content": ""}))
            async for piece in texts.pieces():
                if piece.text or piece.tokens:
                    logprobs = LogProbs.of(piece.tokens) if piece.tokens else None
                    yield self._event(identifier, _chunk(piece.choice, {"content": piece.text}, logprobs))
            answers = await texts.answers_within(GRACE)
            confidences = (
                [later(name) for name in texts.names] if answers is None else [secl_of(each) for each in answers]
            )
            written = texts.written
            for chunk in self._ends(choices_of(written, confidences), usage_of(written)):
                yield self._event(identifier, chunk)
        except Exception as problem:
            if not isinstance(problem, SeclError):
                log.error("a stream failed: %s", describe_failure(problem))
                problem = SeclError()
            yield _data(error_json(to_request_error(problem)))
        finally:
            texts.cancel()  # the client may have gone
        yield "data: [DONE]\n\n"

    def _ends(self, choices: Sequence[Choice], usage: Usage) -> Iterator[Values]:
        """Why each choice ended, with its confidence; then usage, if it is wanted."""
        for each in choices:
            secl = each.secl.model_dump(mode="json")
            chunk = _chunk(each.index, {}, finish_reason=each.finish_reason, secl=secl)
            yield chunk | {"secl": secl, "warnings": self.warnings}
        if self.with_usage:
            yield {"choices": [], "usage": usage.model_dump()}

    def _event(self, identifier: str, chunk: Values) -> str:
        head = {
            "id": f"{PREFIX}-{identifier}",
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
        }
        return _data({**head, **({"usage": None} if self.with_usage else {}), **chunk})


def _chunk(index: int, delta: dict[str, str], logprobs: LogProbs | None = None, **more: object) -> Values:
    """A chunk of one choice."""
    plain = None if logprobs is None else logprobs.model_dump()
    return {"choices": [{"index": index, "delta": delta, "finish_reason": None, "logprobs": plain, **more}]}


def _data(content: object) -> str:
    return f"data: {json.dumps(content, allow_nan=False)}\n\n"
