"""How answers are put into OpenAI's two kinds of reply, whole and piece by piece."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from pydantic import BaseModel

from secl.server.http.openai_replies import (
    AnswerMessage,
    Choice,
    Completion,
    LogProbs,
    Shown,
    TextChoice,
    TextCompletion,
    TextLogProbs,
    TokenLogProb,
    TopLogProb,
    usage_of,
)
from secl.writing import Piece, Token

LEAST = -9999.0
"""What stands for the logarithm of a probability of nothing, as at OpenAI's."""


class Shape(ABC):
    """How a kind of reply is put into JSON.

    Args:
        model: the model's public name.
        warnings: of the reply.
        logprobs: whether log-probabilities were asked for.
    """

    prefix: str
    chunk_object: str

    def __init__(self, model: str, warnings: list[str], *, logprobs: bool) -> None:
        self.model, self.warnings, self.logprobs = model, warnings, logprobs
        self.created = int(time.time())

    @abstractmethod
    def reply(self, identifier: str, shown: Sequence[Shown]) -> BaseModel:
        """The whole reply; `identifier` is what is behind the hyphen in its id."""

    @abstractmethod
    def first(self, index: int) -> dict[str, Any] | None:
        """What a choice begins with in a stream."""

    @abstractmethod
    def piece(self, piece: Piece) -> dict[str, Any]:
        """A further piece of a choice."""

    @abstractmethod
    def last(self, index: int, shown: Shown) -> dict[str, Any]:
        """What a choice ends with, beside its `secl`."""

    def _about(self, identifier: str, shown: Sequence[Shown]) -> dict[str, Any]:
        """What stands beside the choices of a reply."""
        return {
            "id": f"{self.prefix}-{identifier}",
            "created": self.created,
            "model": self.model,
            "usage": usage_of(shown),
            "secl": shown[0].secl,
            "warnings": self.warnings,
        }


class ChatShape(Shape):
    """Chat completions."""

    prefix = "chatcmpl"
    chunk_object = "chat.completion.chunk"

    def reply(self, identifier: str, shown: Sequence[Shown]) -> Completion:
        choices = [
            Choice(
                index=index,
                message=AnswerMessage(content=each.text),
                finish_reason=each.finish,
                logprobs=self._logprobs(each.tokens),
                secl=each.secl,
            )
            for index, each in enumerate(shown)
        ]
        return Completion(choices=choices, **self._about(identifier, shown))

    def first(self, index: int) -> dict[str, Any]:
        return _delta(index, {"role": "assistant", "content": ""})

    def piece(self, piece: Piece) -> dict[str, Any]:
        logprobs = self._logprobs(piece.tokens)
        return _delta(piece.choice, {"content": piece.text}) | {
            "logprobs": None if logprobs is None else logprobs.model_dump()
        }

    def last(self, index: int, shown: Shown) -> dict[str, Any]:
        return _delta(index, {}) | {"finish_reason": shown.finish}

    def _logprobs(self, tokens: Sequence[Token]) -> LogProbs | None:
        return LogProbs(content=[_token(token) for token in tokens]) if self.logprobs else None


class TextShape(Shape):
    """Completions of a bare text, with the prompt before each where `echo` is not empty."""

    prefix = "cmpl"
    chunk_object = "text_completion"

    def __init__(self, model: str, warnings: list[str], *, logprobs: bool, echo: str = "") -> None:
        super().__init__(model, warnings, logprobs=logprobs)
        self.echo = echo
        self._lengths: dict[int, int] = {}

    def reply(self, identifier: str, shown: Sequence[Shown]) -> TextCompletion:
        choices = [
            TextChoice(
                index=index,
                text=self.echo + each.text,
                finish_reason=each.finish,
                logprobs=self._logprobs(each.tokens, 0),
                secl=each.secl,
            )
            for index, each in enumerate(shown)
        ]
        return TextCompletion(choices=choices, **self._about(identifier, shown))

    def first(self, index: int) -> dict[str, Any] | None:
        return self._choice(index, self.echo) if self.echo else None

    def piece(self, piece: Piece) -> dict[str, Any]:
        start = self._lengths.get(piece.choice, 0)
        self._lengths[piece.choice] = start + sum(len(token.text) for token in piece.tokens)
        logprobs = self._logprobs(piece.tokens, start)
        return self._choice(piece.choice, piece.text) | {
            "logprobs": None if logprobs is None else logprobs.model_dump()
        }

    def last(self, index: int, shown: Shown) -> dict[str, Any]:
        return self._choice(index, "") | {"finish_reason": shown.finish}

    @staticmethod
    def _choice(index: int, text: str) -> dict[str, Any]:
        return {"index": index, "text": text, "finish_reason": None, "logprobs": None}

    def _logprobs(self, tokens: Sequence[Token], start: int) -> TextLogProbs | None:
        if not self.logprobs:
            return None
        lengths = [len(token.text) for token in tokens]
        return TextLogProbs(
            tokens=[token.text for token in tokens],
            token_logprobs=[max(LEAST, token.log_p) for token in tokens],
            top_logprobs=[{text: max(LEAST, log_p) for text, log_p in token.top} for token in tokens],
            text_offset=list(accumulate(lengths, initial=start))[:-1],
        )


def _delta(index: int, delta: dict[str, str]) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": None, "logprobs": None}


def _token(token: Token) -> TokenLogProb:
    top = [TopLogProb(**_logprob(text, log_p)) for text, log_p in token.top]
    return TokenLogProb(**_logprob(token.text, token.log_p), top_logprobs=top)


def _logprob(text: str, log_p: float) -> dict[str, Any]:
    # A decoder makes U+FFFD of bytes that are no whole character, and nobody knows any more which they were.
    return {
        "token": text,
        "logprob": max(LEAST, log_p),
        "bytes": None if "\ufffd" in text else list(text.encode()),
    }
