"""Free texts of a model: parameters of the writing, and the chunks that the model writes one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from secl.errors import ParameterError
from secl.evidence import Thought

FinishReason = Literal["stop", "length"]
"""Why a text ended: "stop" by the model or a stop text, "length" at the token limit."""

MAX_TOP = 20
"""Maximum number of reported alternatives to a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParameters:
    """Parameters of a text to write.

    Attributes:
        max_tokens: token limit, at least 1. None stands for the limit of the model.
        or_fewer: whether to lower `max_tokens` to the number of tokens that the model has room for.
        temperature: divisor of the logits, from 0 to 2. 0 is greedy decoding.
        top_p: nucleus (top-p) of the next-token distribution, in (0, 1].
        seed: seed of the draws. Text number i has the seed `seed` + i.
        stop: texts that end the answer. The answer does not contain them.
        n: number of texts, at least 1.
        top_logprobs: number of alternatives to report for every token, 0 to 20. With None, no log-probabilities are
            reported.
        extra: additional fields for the request to a model server.
    """

    max_tokens: int | None = None
    or_fewer: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    n: int = 1
    top_logprobs: int | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks = {
            "max_tokens": (self.max_tokens is None or self.max_tokens >= 1, "at least 1"),
            "temperature": (0 <= self.temperature <= 2, "from 0 to 2"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "stop": (all(self.stop), "texts that are not empty"),
            "n": (self.n >= 1, "at least 1"),
            "top_logprobs": (self.top_logprobs is None or 0 <= self.top_logprobs <= MAX_TOP, f"from 0 to {MAX_TOP}"),
        }
        for name, (valid, allowed) in checks.items():
            if not valid:
                raise ParameterError(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a text.

    `top` has the most probable tokens at this position, each with its log-probability, the most probable first.
    Log-probabilities are natural logarithms, before temperature and top_p.
    """

    text: str
    log_p: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The part of a text that the model has written since the previous chunk; joined chunks are a whole text.

    Only the last chunk has `finish`, `generation`, `whole_thought` and the token counts.

    Attributes:
        choice: number of the text, from 0.
        text: new text, possibly empty. It never holds part of a stop text or of a character.
        tokens: new tokens; empty unless log-probabilities were requested.
        generation: state of the model after the text, from which the model can continue; opaque to callers.
        thought: new part of the thought before the text. "" means that a server hides the thought. None means that the
            chunk has no thought.
        whole_thought: the thought, with its length; None without a thought.
    """

    choice: int = 0
    text: str = ""
    tokens: tuple[Token, ...] = ()
    finish: FinishReason | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    generation: object = field(default=None, repr=False, compare=False)
    thought: str | None = None
    whole_thought: Thought | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def length(self) -> int:
        """Number of tokens of prompt and text."""
        return self.prompt_tokens + self.completion_tokens


def joined(chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """Join the chunks of each text, and return the texts in the order of their numbers.

    >>> [text.text for text in joined([Chunk(text="Par"), Chunk(text="is", finish="stop")])]
    ['Paris']
    """
    texts: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        texts.setdefault(chunk.choice, []).append(chunk)
    whole = []
    for _, parts in sorted(texts.items()):
        thoughts = [chunk.thought for chunk in parts if chunk.thought is not None]
        text = replace(
            parts[-1],
            text="".join(chunk.text for chunk in parts),
            tokens=tuple(token for chunk in parts for token in chunk.tokens),
            finish=parts[-1].finish or "length",
            thought="".join(thoughts).strip() if thoughts else None,
        )
        whole.append(text)
    return tuple(whole)
