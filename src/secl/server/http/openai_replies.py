"""What OpenAI's replies hold, with an object `secl` in every choice; `shapes` puts answers into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.server.audit.wording import answer_text
from secl.server.http.confidence import NoConfidence, Secl, later, secl_of
from secl.server.online.requests import Answer
from secl.writing import Finish, Token, Written


class Usage(BaseModel):
    """Tokens of the prompt, once, and of all texts; those for the confidence are in `secl.cost`."""

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


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as a client sees it.

    Attributes:
        text: the answer, or what stands in its place.
        finish: why it ended.
        tokens: of the text, where log-probabilities were asked for.
        secl: its confidence.
        usage: tokens of the prompt and of the answer.
    """

    text: str
    finish: Finish
    tokens: tuple[Token, ...]
    secl: Secl | NoConfidence
    usage: tuple[int, int]

    @classmethod
    def of(cls, answer: Answer, refusal: str | None) -> Shown:
        """An answer, or a refusal if it is not accepted."""
        written, secl, usage = answer.written, secl_of(answer), tokens_of(answer)
        if refusal is not None and answer.record.abstained:
            return cls(refusal, "stop", (), secl, usage)
        if written is None:
            form, text = answer.record.question.form, answer_text(answer.record)
            cut = form != "choice" and usage[1] >= MAX_ANSWER_TOKENS[form]
            return cls(text, "length" if cut else "stop", (), secl, usage)
        return cls(written.text, written.finish, written.tokens, secl, usage)

    @classmethod
    def before(cls, written: Written, name: str) -> Shown:
        """A text whose confidence is still to come, in a record of this name."""
        usage = (written.prompt_tokens, written.completion_tokens)
        return cls(written.text, written.finish, written.tokens, later(name), usage)


def tokens_of(answer: Answer) -> tuple[int, int]:
    """Tokens of prompt and answer; where an endpoint counts both together, an answer has 4 bytes for each."""
    if answer.written is not None:
        return answer.written.prompt_tokens, answer.written.completion_tokens
    reply = answer.record.reply
    if reply.prompt_tokens is not None and reply.answer_tokens is not None:
        return reply.prompt_tokens, reply.answer_tokens
    total = max(2, round(answer.record.plain_tokens))
    written = min(total - 1, max(1, len(reply.text.strip().encode()) // 4))
    return total - written, written


def usage_of(shown: Sequence[Shown]) -> Usage:
    """Tokens of all texts behind one prompt."""
    prompt, written = shown[0].usage[0], sum(each.usage[1] for each in shown)
    return Usage(prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written)
