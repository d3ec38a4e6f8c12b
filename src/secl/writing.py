"""Texts that a model writes as it likes: how they are to be written, and how they come, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from secl.errors import ParameterError

Finish = Literal["stop", "length"]
"""Why a text ended: the model ended it or a stop text came, or there was no room for more tokens."""

MAX_TOP = 20
"""Most alternatives to a token that are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Parameters of a text to write.

    Attributes:
        max_tokens: most tokens that it may have, at least 1; None for as many as the model can read.
        or_fewer: whether fewer tokens than `max_tokens` will do where the model can read no more.
        temperature: 0 takes the most probable token each time; else what logits are divided by, up to 2.
        top_p: share of the probability that is drawn from, in (0, 1].
        seed: of the draws; text number i is drawn with `seed` + i.
        stop: texts before which it ends.
        n: how many texts, at least 1.
        top_logprobs: alternatives to report for every token, 0 to 20; None for no log-probabilities.
        extra: further fields for a server that writes, by their names there.
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
            "seed": (0 <= self.seed < 2**63, "from 0 to 2^63 - 1"),
            "stop": (all(self.stop), "texts that are not empty"),
            "n": (self.n >= 1, "at least 1"),
            "top_logprobs": (self.top_logprobs is None or 0 <= self.top_logprobs <= MAX_TOP, f"from 0 to {MAX_TOP}"),
        }
        for name, (valid, allowed) in checks.items():
            if not valid:
                raise ParameterError(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a text, with the texts and log-probabilities of the most probable tokens in its place, in order.

    Log-probabilities are natural logarithms, before temperature and top_p.
    """

    text: str
    log_p: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The part of a text that was written since its last piece.

    Attributes:
        choice: number of the text, from 0.
        text: may be empty; never holds part of a stop text or of a character.
        tokens: where log-probabilities were asked for.
        finish, prompt_tokens, completion_tokens: in the last piece.
        draft: what the model keeps of the text, in the last piece, for reading on after the text; opaque to others.
        thought: of the model before the text, in the last piece; "" if a server hides it, None without a thought.
        thought_tokens, thought_cut: its length, and whether it had no room for its end.
    """

    choice: int = 0
    text: str = ""
    tokens: tuple[Token, ...] = ()
    finish: Finish | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    draft: object = field(default=None, repr=False, compare=False)
    thought: str | None = None
    thought_tokens: int = 0
    thought_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A text with how it ended; attributes as of `Piece`."""

    text: str
    finish: Finish
    prompt_tokens: int
    completion_tokens: int
    tokens: tuple[Token, ...] = ()
    draft: object = field(default=None, repr=False, compare=False)
    thought: str | None = None
    thought_tokens: int = 0
    thought_cut: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def length(self) -> int:
        """Tokens of prompt and text."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> tuple[Written, ...]:
        """Return the texts that pieces make up, in the order of their numbers.

        >>> [text.text for text in Written.of([Piece(text="Par"), Piece(text="is", finish="stop")])]
        ['Paris']
        """
        texts: dict[int, list[Piece]] = {}
        for piece in pieces:
            texts.setdefault(piece.choice, []).append(piece)
        return tuple(
            cls(
                text="".join(piece.text for piece in parts),
                finish=parts[-1].finish or "length",
                prompt_tokens=parts[-1].prompt_tokens,
                completion_tokens=parts[-1].completion_tokens,
                tokens=tuple(token for piece in parts for token in piece.tokens),
                draft=parts[-1].draft,
                thought=parts[-1].thought,
                thought_tokens=parts[-1].thought_tokens,
                thought_cut=parts[-1].thought_cut,
            )
            for _, parts in sorted(texts.items())
        )
