"""How answers are put into OpenAI's replies, whole and piece by piece."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from secl.server.http.openai_replies import (
    AnswerMessage,
    Choice,
    Completion,
    LogProbs,
    Shown,
    TokenLogProb,
    TopLogProb,
    usage_of,
)
from secl.writing import Piece, Token

PREFIX = "chatcmpl"
"""What the id of a reply begins with."""

LEAST = -9999.0
"""What stands for the logarithm of a probability of nothing, as at OpenAI's."""


class Shape:
    """How answers are put into JSON.

    Args:
        model: the model's public name.
        warnings: of the reply.
        logprobs: whether log-probabilities were asked for.
    """

    def __init__(self, model: str, warnings: list[str], *, logprobs: bool) -> None:
        self.model, self.warnings, self.logprobs = model, warnings, logprobs
        self.created = int(time.time())

    def reply(self, identifier: str, shown: Sequence[Shown]) -> Completion:
        """The whole reply; `identifier` is what is behind the hyphen in its id."""
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
        return Completion(
            id=f"{PREFIX}-{identifier}",
            created=self.created,
            model=self.model,
            choices=choices,
            usage=usage_of(shown),
            secl=shown[0].secl,
            warnings=self.warnings,
        )

    def first(self, index: int) -> dict[str, Any]:
        """What a choice begins with in a stream."""
        return _delta(index, {"role": "assistant", "content": ""})

    def piece(self, piece: Piece) -> dict[str, Any]:
        """A further piece of a choice."""
        logprobs = self._logprobs(piece.tokens)
        return _delta(piece.choice, {"content": piece.text}) | {
            "logprobs": None if logprobs is None else logprobs.model_dump()
        }

    def last(self, index: int, shown: Shown) -> dict[str, Any]:
        """What a choice ends with, beside its `secl`."""
        return _delta(index, {}) | {"finish_reason": shown.finish}

    def _logprobs(self, tokens: Sequence[Token]) -> LogProbs | None:
        return LogProbs(content=[_token(token) for token in tokens]) if self.logprobs else None


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
