"""Reading of replies from a server: texts without thoughts, and probabilities of letters, digits, True and False.

A name is a letter, digit or verdict to read. A chat API does not let secl begin a reply, so a model may write
"**B**" or "My confidence is 8." instead of the bare name. secl reads the distribution at the first token that spells
one of the names, and adds up the spellings of a name ("B", " B", "B."). If no token spells a name, secl reads the first
token, where names have little mass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secl.backends.entropy import entropy_of
from secl.errors import ModelError
from secl.evidence import Thought
from secl.fields.values import token_ends
from secl.prompts.parsing import THOUGHTS
from secl.writing import Piece, Token

Usage = Mapping[str, int]
"""Numbers of "prompt_tokens" and "completion_tokens"; empty if the server does not give them."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers return a thought."""

END = re.compile(r"<[^<>\s]*>$")
"""A token that ends a reply, such as "<|im_end|>" or "</s>". Some servers list this token, but the text omits it."""

OTHERWISE = "the endpoint's reply does not have the form of OpenAI's API."

HALF = "\ufffd"
"""Replacement character, which servers report for a token with an incomplete character."""

DECORATION = "*_`\"'()[]<>.:,;! "
"""Characters that may surround a name."""

WORDS = ("A", "I")
"""Option letters that are words of a sentence if a word in lower case follows."""

VOCABULARY = 128_000
"""Assumed size of the vocabulary, for the tail of an entropy.

A factor of two changes the entropy by a few hundredths of a nat.
"""

DIGITS = tuple("0123456789")
VERDICTS = ("true", "false")


@dataclass(frozen=True, slots=True)
class Said:
    """One text in an answer, or the part of a text in one chunk of a stream.

    Attributes:
        text: the content.
        thought: the model's thought before the text; "" if the server hides the thought, None without a thought.
        tokens, parts: the reported tokens, and their bytes.
        finish: reason why the text ended; "" before the end.
    """

    text: str
    thought: str | None
    tokens: tuple[Token, ...]
    parts: tuple[bytes, ...]
    finish: str

    @classmethod
    def joined(cls, chunks: Sequence[Said]) -> Said:
        """Join the chunks of a stream into one text."""
        thoughts = [each.thought for each in chunks if each.thought is not None]
        return cls(
            text="".join(each.text for each in chunks),
            thought="".join(thoughts).strip() if thoughts else None,
            tokens=tuple(token for each in chunks for token in each.tokens),
            parts=tuple(part for each in chunks for part in each.parts),
            finish=next((each.finish for each in reversed(chunks) if each.finish), ""),
        )

    def alone(self, *, thinking: bool = False, stop: Sequence[str] = ()) -> Said:
        """Return the answer and its tokens without the thought. If the tokens do not spell the answer, leave them out.

        Args:
            thinking: whether the model thinks; a thought may then begin without an opening mark such as <think>. If
                False, the thought of a complete reply without a text is the answer: some servers put the answer into
                the field for thoughts.
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

    def whole_thought(self, length: int) -> Thought | None:
        """Return the thought; `length` is the number of tokens of thought and reply together."""
        if self.thought is None:
            return None
        cut = self.finish == "length" and not self.text.strip()
        return Thought(text=self.thought or None, tokens=max(0, length - len(self.tokens)), cut=cut)


def split_thought(text: str, *, unopened: bool = False) -> tuple[str | None, str]:
    """Return the thought at the beginning of a text, and the answer after the thought.

    The thought is None if the text has none. The answer is "" if the thought has no end.

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
    """Return the index of a text's first token in `parts` if the last tokens spell the text; else None.

    >>> first_token("B", [b"<think>", b"A or B?", b"</think>", b"\\n\\n", b"B", b"<|im_end|>"])
    4
    >>> first_token("B", [b"A or B?"]) is None
    True
    >>> first_token("B", [b"Well: B"]), first_token("B", [b"<think>", b"Hm.</think>B"])
    (None, None)
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
        # If a token spans the end of the thought and the start of the answer, the answer has no probability of its own.
        return first if first and not whole[ends[first - 1] : begin].strip() else None
    pattern = ".{1,4}".join(map(re.escape, re.split(f"{HALF}+", whole.strip())))
    return 0 if HALF in whole and re.fullmatch(pattern, wanted, re.DOTALL) else None


def _begin(whole: str, text: str) -> int | None:
    """Return where a text begins in `whole` if no token follows the text except end tokens; else None."""
    if whole.endswith(text):
        return len(whole) - len(text)
    return _begin(END.sub("", whole).rstrip(), text) if END.search(whole) else None


def read_chat(answer: Any, *, thinking: bool = False) -> Piece:
    """Return the first text in the answer to a chat request. Raises the errors of `said_in`."""
    first, usage = first_said(answer)
    said = first.alone(thinking=thinking)
    length = usage.get("completion_tokens", 0)
    return Piece(
        text=said.text,
        finish="length" if said.finish == "length" else "stop",
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=length,
        tokens=said.tokens,
        thought=said.thought,
        whole_thought=said.whole_thought(length),
    )


def first_said(answer: Any) -> tuple[Said, Usage]:
    """Return the first text and the usage in an answer. Raises ModelError: no text, or not in OpenAI's form."""
    texts, usage = said_in(answer)
    if not texts:
        raise ModelError(OTHERWISE)
    return texts[0], usage


def said_in(answer: Any) -> tuple[list[Said], Usage]:
    """Return the texts and the usage in an answer or a chunk of a stream. Raises ModelError: not in OpenAI's form."""
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
    """Return the entropy (nats) of the distribution at a token; `entropy_of` estimates the part of unlisted tokens."""
    return entropy_of((log_p for _, log_p in _reported(token)), VOCABULARY)


def _reported(token: Token) -> Sequence[tuple[str, float]]:
    """Return the most probable tokens and the written token."""
    there = any(text == token.text for text, _ in token.top)
    return token.top if there else (*token.top, (token.text, token.log_p))


@dataclass(frozen=True, slots=True)
class NameDistribution:
    """Log-probabilities (nats) of names at the token where a model chose a name.

    Attributes:
        log_p: log-probabilities of the names among the most probable tokens, summed over spellings.
        most: upper bound of the log-probability of any other name.
        entropy: entropy over the whole vocabulary.
    """

    log_p: Mapping[str, float]
    most: float
    entropy: float

    def of(self, name: str) -> float:
        """Return the log-probability of a name, or `most` if the name is not in `log_p`."""
        return self.log_p.get(name, self.most)

    @property
    def best(self) -> str | None:
        """The most probable name (the first one in a tie); None without names."""
        return max(self.log_p, key=self.log_p.__getitem__) if self.log_p else None


def read_names(tokens: Sequence[Token], names: Collection[str]) -> NameDistribution:
    """Return the distribution over names at the first token that spells a name, or else at the first token.

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
    """Return the name that a token spells, or None; verdicts may be in upper or lower case.

    >>> spelled(" (B)", "ABCD"), spelled("TRUE", VERDICTS), spelled("85", DIGITS)
    ('B', 'true', None)
    """
    plain = text.strip().strip(DECORATION)
    plain = plain.lower() if names is VERDICTS else plain
    return plain if plain and plain in set(names) else None


def _goes_on(tokens: Sequence[Token], number: int) -> bool:
    """Return whether a token that looks like an option letter is a word of a sentence."""
    after = "".join(token.text for token in tokens[number + 1 : number + 3])
    return tokens[number].text.strip() in WORDS and after[:1] == " " and after[1:2].islower()


def bins_of(chosen: NameDistribution) -> tuple[tuple[float, ...], float]:
    """Return the normalised probabilities of the ten digits (0.1 each without digits), and their mass.

    >>> bins, mass = bins_of(NameDistribution({"7": math.log(0.3), "9": math.log(0.1)}, -5.0, 1.0))
    >>> round(bins[7], 2), round(mass, 2)
    (0.75, 0.4)
    """
    p = [math.exp(chosen.log_p[digit]) if digit in chosen.log_p else 0.0 for digit in DIGITS]
    mass = math.fsum(p)
    return (tuple(each / mass for each in p), min(1.0, mass)) if mass > 0 else ((0.1,) * 10, 0.0)


def within(tokens: Sequence[Token], text: str) -> Sequence[Token]:
    """Return the tokens up to the end of the answer `text`; all tokens if they do not spell the answer."""
    written = ""
    for number, token in enumerate(tokens):
        written += token.text
        if text in written:
            return tokens[: number + 1]
    return tokens
