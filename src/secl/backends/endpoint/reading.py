"""Letters, digits, True and False, read off the most probable tokens that a server reports.

A chat API does not let us begin a reply, so a model may write "**B**" or "My confidence is 8." where a letter or a
digit is asked for. What counts is the distribution where it says one of the names that it was asked for; spellings of
the same name ("B", " B", "B.") are added up. Where it says none of them, its first token counts: the names among the
most probable ones there have little mass, and that is reported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secl.backends.entropy import entropy_of
from secl.errors import ModelError
from secl.fields.values import token_ends
from secl.prompts.parsing import THOUGHTS
from secl.writing import Token, Written

DECORATION = "*_`\"'()[]<>.:,;! "
"""Characters around a name that do not belong to it."""

WORDS = ("A", "I")
"""Letters that are words as well: before a word in lower case they are no names of options."""

VOCABULARY = 128_000
"""Tokens that a model has, for the tail of an entropy; twice or half as many change it by a few hundredths of a nat."""

DIGITS = tuple("0123456789")
VERDICTS = ("true", "false")


Usage = Mapping[str, int]
"""Numbers of tokens, "prompt_tokens" and "completion_tokens"; empty if the server does not give them."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields beside "content" in which servers return a thought."""

END = re.compile(r"<[^<>\s]*>$")
"""A token that ends a reply, such as "<|im_end|>" or "</s>": some servers report it, and leave it out of the text."""

OTHERWISE = "the endpoint answers in another way than OpenAI's API describes."

HALF = "\ufffd"
"""Reported for the bytes of a character that several tokens share."""


@dataclass(frozen=True, slots=True)
class Said:
    """One text in an answer, or what a chunk of a stream adds to it.

    Attributes:
        text: the content.
        thought: thought before it, "" if the server hides it; None without a thought.
        tokens: the reported tokens.
        parts: their bytes.
        finish: reason of the end; "" before the end.
    """

    text: str
    thought: str | None
    tokens: tuple[Token, ...]
    parts: tuple[bytes, ...]
    finish: str

    def then(self, more: Said) -> Said:
        """Return this text with what the next chunk adds to it."""
        thought = self.thought if more.thought is None else (self.thought or "") + more.thought
        return Said(
            self.text + more.text,
            thought,
            self.tokens + more.tokens,
            self.parts + more.parts,
            more.finish or self.finish,
        )

    def alone(self, *, thinking: bool = False, stop: Sequence[str] = ()) -> Said:
        """Return the answer without its thought, and the tokens from the answer's first one on.

        Servers mix tokens of a thought into those of the content. Without tokens that make up the answer, there are
        none in the result.

        Args:
            thinking: whether a thought may begin without a mark. If not, a whole reply in the field of a thought is an
                answer: some servers look for the end of a thought also where the model was told not to think.
            stop: texts that may have ended the reply.
        """
        text, thought = self.text, self.thought
        if thought and not text.strip() and not thinking and self.finish == "stop":
            text, thought = thought, None
        marked, answer = split_thought(text, unopened=thinking)
        if marked is not None:
            text, thought = answer, marked
        first = first_token(text, self.parts, stop)
        if first is None:
            return replace(self, text=text, thought=thought, tokens=(), parts=())
        return replace(self, text=text, thought=thought, tokens=self.tokens[first:], parts=self.parts[first:])


def split_thought(text: str, *, unopened: bool = False) -> tuple[str | None, str]:
    """Return the thought that a text begins with, or None, and the answer behind it, "" before the end of the thought.

    >>> split_thought("<think>Hm.</think>\\n\\nParis"), split_thought("Paris")
    (('Hm.', 'Paris'), (None, 'Paris'))
    >>> split_thought("Hm.</think>Paris", unopened=True)
    ('Hm.', 'Paris')
    """
    begun = text.lstrip()
    for mark in THOUGHTS:
        if begun.startswith(mark.opening) or (unopened and mark.closing in begun):
            thought, _, answer = begun.removeprefix(mark.opening).partition(mark.closing)
            return thought.strip(), answer.lstrip()
    return None, text


def first_token(text: str, parts: Sequence[bytes], stop: Sequence[str] = ()) -> int | None:
    """Return the number of the token with which a text begins that the last tokens make up; None if they do not.

    >>> first_token("B", [b"<think>", b"A or B?", b"</think>", b"\\n\\n", b"B", b"<|im_end|>"])
    4
    >>> first_token("B", [b"A or B?"]) is None
    True
    """
    wanted, whole = text.strip(), b"".join(parts).decode("utf-8", "replace")
    if not wanted or not parts:
        return None
    for rest in (whole, *(whole[: whole.rfind(each)] for each in stop if each in whole)):
        begin = _begin(rest.rstrip(), wanted)
        if begin is None:
            continue
        if not whole[:begin].strip():
            return 0
        ends = token_ends(parts)
        first = next(number for number, end in enumerate(ends) if end > begin)
        # A token across the border is the thought's as well, and its probability is of both.
        return first if not whole[ends[first - 1] : begin].strip() else None
    pattern = ".{1,4}".join(map(re.escape, re.split(f"{HALF}+", whole.strip())))
    return 0 if HALF in whole and re.fullmatch(pattern, wanted, re.DOTALL) else None


def _begin(whole: str, text: str) -> int | None:
    """Return where a text begins that ends `whole`, but for tokens that end replies."""
    if whole.endswith(text):
        return len(whole) - len(text)
    return _begin(END.sub("", whole).rstrip(), text) if END.search(whole) else None


def read_chat(answer: Any, *, thinking: bool = False) -> Written:
    """Return the first text in the answer to a chat request. Raises what `said_in` does."""
    texts, usage = said_in(answer)
    if not texts:
        raise ModelError(OTHERWISE)
    said = texts[0].alone(thinking=thinking)
    return Written(
        text=said.text,
        thought=said.thought,
        finish="length" if said.finish == "length" else "stop",
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        tokens=said.tokens,
    )


def said_in(answer: Any) -> tuple[list[Said], Usage]:
    """Return the texts of an answer, or of a chunk of a stream, and its usage.

    Raises:
        ModelError: not what OpenAI's API describes.
    """
    try:
        numbers = answer.get("usage") or {}
        usage = {name: int(numbers[name]) for name in ("prompt_tokens", "completion_tokens") if numbers.get(name)}
        hidden = bool((numbers.get("completion_tokens_details") or {}).get("reasoning_tokens"))
        return [_said(choice, hidden) for choice in answer["choices"]], usage
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ModelError(OTHERWISE) from problem


def _said(choice: Mapping[str, Any], hidden: bool) -> Said:
    message = choice["message"] if "message" in choice else choice["delta"]
    text, finish = message.get("content") or "", choice.get("finish_reason") or ""
    shown = [str(message[name]) for name in THOUGHT_FIELDS if message.get(name)]
    hidden = hidden or ("message" in choice and finish == "length" and not text and not message.get("tool_calls"))
    listed = (choice.get("logprobs") or {}).get("content") or ()
    return Said(
        text=text,
        thought=shown[0] if shown else "" if hidden else None,
        tokens=tuple(Token(*_pair(each), tuple(map(_pair, each.get("top_logprobs") or ()))) for each in listed),
        parts=tuple(bytes(each.get("bytes") or each["token"].encode()) for each in listed),
        finish=finish,
    )


def _pair(token: Mapping[str, Any]) -> tuple[str, float]:
    return token["token"], min(0.0, float(token["logprob"]))


def entropy(token: Token) -> float:
    """Return the entropy (nats) behind a token, with an estimated tail (`secl.backends.entropy`)."""
    return entropy_of((log_p for _, log_p in _reported(token)), VOCABULARY)


def _reported(token: Token) -> Sequence[tuple[str, float]]:
    """Return the most probable tokens, with the written one if it is none of them."""
    there = any(text == token.text for text, _ in token.top)
    return token.top if there else (*token.top, (token.text, token.log_p))


@dataclass(frozen=True, slots=True)
class NameDistribution:
    """Log-probabilities of the names that a model was asked to choose from, at the token where it chose.

    Attributes:
        log_p: of the names among the most probable tokens, all spellings together (nats).
        most: upper bound of the log-probability of any other name (nats).
        entropy: of the whole vocabulary there (nats).
    """

    log_p: Mapping[str, float]
    most: float
    entropy: float

    def of(self, name: str) -> float:
        """Return the log-probability of a name, or its upper bound."""
        return self.log_p.get(name, self.most)

    @property
    def best(self) -> str | None:
        """The most probable name, the first of a tie; None without any name."""
        return max(self.log_p, key=self.log_p.__getitem__) if self.log_p else None


def read_names(tokens: Sequence[Token], names: Collection[str]) -> NameDistribution:
    """Return the distribution over names at the first token that spells one, else at the first token.

    >>> tokens = [Token("**", -0.1), Token("B", -0.7, (("B", -0.7), ("A", -1.6), (" B", -2.3)))]
    >>> chosen = read_names(tokens, "AB")
    >>> chosen.best, round(chosen.of("B"), 2), round(chosen.of("A"), 2)
    ('B', -0.52, -1.6)
    """
    if not tokens:
        return NameDistribution({}, 0.0, 0.0)
    spoken = (i for i, token in enumerate(tokens) if spelled(token.text, names) and not _goes_on(tokens, i))
    token = tokens[next(spoken, 0)]
    p: dict[str, float] = {}
    for text, log_p in _reported(token):
        name = spelled(text, names)
        if name is not None:
            p[name] = p.get(name, 0.0) + math.exp(log_p)
    reported = [log_p for _, log_p in _reported(token)]
    rest = math.log(max(1.0 - math.fsum(map(math.exp, reported)), 1e-9))
    log_p_of = {name: math.log(p[name]) for name in names if name in p and p[name] > 0}
    return NameDistribution(log_p_of, min(*reported, rest) if len(reported) > 1 else rest, entropy(token))


def spelled(text: str, names: Collection[str]) -> str | None:
    """Return the name that a token spells; verdicts in upper or lower case.

    >>> spelled(" (B)", "ABCD"), spelled("TRUE", VERDICTS), spelled("85", DIGITS)
    ('B', 'true', None)
    """
    plain = text.strip().strip(DECORATION)
    plain = plain.lower() if names is VERDICTS else plain
    return plain if plain and plain in set(names) else None


def _goes_on(tokens: Sequence[Token], number: int) -> bool:
    """Return whether a token that could be a letter is a word of a sentence."""
    after = "".join(token.text for token in tokens[number + 1 : number + 3])
    return tokens[number].text.strip() in WORDS and after[:1] == " " and after[1:2].islower()


def bins_of(chosen: NameDistribution) -> tuple[tuple[float, ...], float]:
    """Return the probabilities of the ten digits, normalised to sum to 1, and their mass before; 0.1 each without any.

    >>> bins, mass = bins_of(NameDistribution({"7": math.log(0.3), "9": math.log(0.1)}, -5.0, 1.0))
    >>> round(bins[7], 2), round(mass, 2)
    (0.75, 0.4)
    """
    p = [math.exp(chosen.log_p[digit]) if digit in chosen.log_p else 0.0 for digit in DIGITS]
    mass = math.fsum(p)
    return (tuple(each / mass for each in p), min(1.0, mass)) if mass > 0 else ((0.1,) * 10, 0.0)


def within(tokens: Sequence[Token], text: str) -> Sequence[Token]:
    """Return the tokens up to the end of an answer, without those written behind it."""
    written = ""
    for number, token in enumerate(tokens):
        written += token.text
        if text in written:
            return tokens[: number + 1]
    return tokens
