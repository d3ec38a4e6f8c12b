"""What is read off the most probable tokens that a server reports: letters, digits, True and False.

A chat API does not let us begin a reply, so a model may write "**B**" or "My confidence is 8." where a letter or a
digit is asked for. What counts is the distribution where it says one of the names that it was asked for; spellings of
the same name ("B", " B", "B.") are added up. Where it says none of them, its first token counts: the names among the
most probable ones there have little mass, and that is reported.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from secl.backends.entropy import entropy_of
from secl.errors import ModelError
from secl.writing import Token

DECORATION = "*_`\"'()[]<>.:,;! "
"""Characters around a name that do not belong to it."""

WORDS = ("A", "I")
"""Letters that are words as well: before a word in lower case they are no names of options."""

VOCABULARY = 128_000
"""Tokens that a model has, for the tail of an entropy; twice or half as many change it by a few hundredths of a nat."""

DIGITS = tuple("0123456789")
VERDICTS = ("true", "false")


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice that a server wrote, with its tokens (if it has log-probabilities); `cut_off` by their limit.

    The length is in tokens, of prompt and text together.
    """

    text: str
    tokens: tuple[Token, ...]
    length: int
    cut_off: bool = False


def read_completion(answer: Any) -> Completion:
    """What a server answered to a chat request; a ModelError if that is not what OpenAI's API describes."""
    try:
        choice = answer["choices"][0]
        usage = answer.get("usage") or {}
        return Completion(
            text=choice["message"].get("content") or "",
            tokens=tokens_of(choice.get("logprobs")),
            length=int(usage.get("total_tokens") or 0),
            cut_off=choice.get("finish_reason") == "length",
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
        raise ModelError("the endpoint answers in another way than OpenAI's API describes.") from problem


def tokens_of(logprobs: Any) -> tuple[Token, ...]:
    """The tokens in the field "logprobs" of a choice of a chat; none where it is left out."""
    if not logprobs:
        return ()
    return tuple(
        _token(
            each["token"], each["logprob"], ((top["token"], top["logprob"]) for top in each.get("top_logprobs") or ())
        )
        for each in logprobs.get("content") or ()
    )


def _token(text: str, log_p: float, top: Iterable[tuple[str, float]]) -> Token:
    return Token(text, min(0.0, float(log_p)), tuple((other, min(0.0, float(value))) for other, value in top))


def entropy(token: Token) -> float:
    """Entropy of the distribution that a token comes from, in nats; its tail is estimated (`secl.backends.entropy`)."""
    return entropy_of((log_p for _, log_p in _seen(token)), VOCABULARY)


def _seen(token: Token) -> Sequence[tuple[str, float]]:
    """The most probable tokens, and the one that was written if it is none of them."""
    there = any(text == token.text for text, _ in token.top)
    return token.top if there else (*token.top, (token.text, token.log_p))


@dataclass(frozen=True, slots=True)
class Choice:
    """The names that a model was asked to choose from, where it chose.

    Attributes:
        log_p: of those among the most probable tokens, all spellings together.
        most: what the log-probability of any other name is at most.
    """

    log_p: Mapping[str, float]
    most: float
    entropy: float

    def of(self, name: str) -> float:
        """Log-probability of a name, or the most that it can be."""
        return self.log_p.get(name, self.most)

    @property
    def best(self) -> str | None:
        """The most probable name, the first of a tie; None if there is none."""
        return max(self.log_p, key=self.log_p.__getitem__) if self.log_p else None


def read_choice(tokens: Sequence[Token], names: Collection[str]) -> Choice:
    """Which of some names a model says, and how probable each of them is there.

    >>> tokens = [Token("**", -0.1), Token("B", -0.7, (("B", -0.7), ("A", -1.6), (" B", -2.3)))]
    >>> chosen = read_choice(tokens, "AB")
    >>> chosen.best, round(chosen.of("B"), 2), round(chosen.of("A"), 2)
    ('B', -0.52, -1.6)
    """
    if not tokens:
        return Choice({}, 0.0, 0.0)
    spoken = (i for i, token in enumerate(tokens) if name_of(token.text, names) and not _goes_on(tokens, i))
    token = tokens[next(spoken, 0)]
    p: dict[str, float] = {}
    for text, log_p in _seen(token):
        name = name_of(text, names)
        if name is not None:
            p[name] = p.get(name, 0.0) + math.exp(log_p)
    reported = [log_p for _, log_p in _seen(token)]
    rest = max(1.0 - math.fsum(map(math.exp, reported)), 1e-9)
    log_p_of = {name: math.log(p[name]) for name in names if name in p and p[name] > 0}
    return Choice(log_p_of, min(*reported, math.log(rest)) if len(reported) > 1 else math.log(rest), entropy(token))


def name_of(text: str, names: Collection[str]) -> str | None:
    """The name that a token spells; verdicts in upper or lower case.

    >>> name_of(" (B)", "ABCD"), name_of("TRUE", VERDICTS), name_of("85", DIGITS)
    ('B', 'true', None)
    """
    plain = text.strip().strip(DECORATION)
    plain = plain.lower() if names is VERDICTS else plain
    return plain if plain and plain in set(names) else None


def _goes_on(tokens: Sequence[Token], number: int) -> bool:
    """Whether a token that could be a letter is the word of a sentence."""
    after = "".join(token.text for token in tokens[number + 1 : number + 3])
    return tokens[number].text.strip() in WORDS and after[:1] == " " and after[1:2].islower()


def bins_of(chosen: Choice) -> tuple[tuple[float, ...], float]:
    """Probabilities of the ten digits renormalised to sum to 1, and their mass before; equal ones for no digit at all.

    >>> bins, mass = bins_of(Choice({"7": math.log(0.3), "9": math.log(0.1)}, -5.0, 1.0))
    >>> round(bins[7], 2), round(mass, 2)
    (0.75, 0.4)
    """
    p = [math.exp(chosen.log_p[digit]) if digit in chosen.log_p else 0.0 for digit in DIGITS]
    mass = math.fsum(p)
    return (tuple(each / mass for each in p), min(1.0, mass)) if mass > 0 else ((0.1,) * 10, 0.0)


def within(tokens: Sequence[Token], text: str) -> Sequence[Token]:
    """The tokens that an answer reaches into; what was written behind it is no part of it."""
    written = ""
    for number, token in enumerate(tokens):
        written += token.text
        if text in written:
            return tokens[: number + 1]
    return tokens
