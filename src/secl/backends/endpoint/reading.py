"""Reading of replies from a server: texts without thoughts, and the log-probabilities of their tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from secl.backends.endpoint.client import OTHERWISE, choices_of
from secl.backends.endpoint.probabilities import (
    MIN_LOG_P,
    MISSING,
    OF_ALL,
    OTHER_TEXT,
    PART,
    UNREADABLE,
    ZERO,
    DamagedError,
    alternatives,
    distribution,
    fault_of,
    log_p_of,
    positions,
)
from secl.errors import ModelError
from secl.evidence import Thought
from secl.fields.values import token_ends
from secl.prompts.parsing import split_thought
from secl.writing import Chunk, Token

TokenCounts = Mapping[str, int]
"""Numbers of "prompt_tokens" and "completion_tokens"; empty if the server does not give them."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers return a thought."""

LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length")
"""Values of `finish_reason` of a text that a limit cuts."""

OTHER_REPLIES = ("tool_calls", "function_call", "tool_use", "content_filter", "error", "abort")
"""Values of `finish_reason` of replies that are no complete text. All values in no list stand for a complete text."""

END = re.compile(r"(<[^<>\s]*>|token_id:\d+|```)$")
"""A token that ends a reply, such as "<|im_end|>" or "</s>". Some servers list this token, but the text omits it.

llama.cpp omits the marks of a code block around an object.
"""

REPLACEMENT_CHARACTER = "\ufffd"
"""Replacement character, which servers report for a token with an incomplete character."""

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""A token of one byte in a SentencePiece vocabulary."""

PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF = {
    **{chr(byte): byte for byte in PRINTABLE},
    **{chr(256 + number): byte for number, byte in enumerate(sorted({*range(256)} - {*PRINTABLE}))},
}
"""The byte that each character stands for in a byte-level vocabulary; a space is "Ġ" there."""


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """One text in an answer, or the part of a text in one chunk of a stream.

    Attributes:
        text: the content.
        thought: the model's thought before the text; "" if the server hides the thought, None without a thought.
        listed: the entry of each token with log-probabilities.
        finish: why the text ended: "stop", "length", a value of `OTHER_REPLIES`, or "" before the end.
        damage: what is wrong with the form of the log-probabilities; "" if nothing is.
    """

    text: str
    thought: str | None = None
    listed: tuple[Mapping[str, Any], ...] = ()
    finish: str = ""
    damage: str = ""

    @classmethod
    def joined(cls, chunks: Sequence[ReplyPart]) -> ReplyPart:
        """Join the chunks of a stream into one text."""
        thoughts = [each.thought for each in chunks if each.thought is not None]
        return cls(
            text="".join(each.text for each in chunks),
            thought="".join(thoughts).strip() if thoughts else None,
            listed=tuple(entry for each in chunks for entry in each.listed),
            finish=next((each.finish for each in reversed(chunks) if each.finish), ""),
            damage=next((each.damage for each in chunks if each.damage), ""),
        )

    @property
    def tokens(self) -> list[Token]:
        """The tokens of a chunk."""
        spelled = spellings(self.listed)
        fitting = (spell for spell, parts in spelled if b"".join(parts).decode("utf-8", "replace") == self.text)
        spell = next(fitting, next((spell for spell, _ in spelled), None))
        return [] if spell is None else [read_token(entry, spell)[0] for entry in self.listed]

    def spell(self, *, thinking: bool = False, stop: Sequence[str] = (), least: int = 2) -> SpelledText:
        """Return the text and its tokens without the thought.

        Args:
            thinking: whether the model thinks; a thought may then begin without an opening mark such as <think>. If
                False, the thought of a complete reply without a text is the answer: some servers put the answer into
                the field for thoughts.
            stop: texts that may have ended the reply.
            least: minimum number of tokens in each list; 0 if a schema may allow only one token at some positions.
        """
        text, thought = self.text, self.thought
        if thought and not text.strip() and not thinking and self.finish != "length":
            text, thought = thought, None
        marked, answer = split_thought(text, unopened=thinking)
        if marked is not None:
            text, thought = answer, marked
        if text.strip() or thought:
            tokens, ends, damage = self._tokens(text, stop, least)
        else:
            tokens, ends, damage = (), (), OTHER_TEXT if self._lists_text else ""
        return SpelledText(text, thought, tokens, ends, self.finish, damage)

    @property
    def _lists_text(self) -> bool:
        """Whether a listed token is no end of a reply."""
        return any(END.sub("", str(entry.get("token") or "")).strip() for entry in self.listed)

    def _tokens(self, text: str, stop: Sequence[str], least: int) -> tuple[tuple[Token, ...], tuple[int, ...], str]:
        """Return the tokens of a text, the number of characters up to the end of each token, and the damage."""
        wanted = len(text.rstrip())
        if self.damage or not self.listed or not wanted:
            return (), (), self.damage or (MISSING if wanted else "")
        spelled = spelling_of(text, self.listed, stop)
        if spelled is None:
            return (), (), OTHER_TEXT
        spell, first, ends = spelled
        shown = [pair for pair in zip(self.listed[first:], ends, strict=True) if spell(pair[0]) or _is_written(pair[0])]
        read = [read_token(entry, spell, least) for entry, _ in shown]
        ends = tuple(end for _, end in shown)
        inside = read[: sum(begin < wanted for begin in (0, *ends[:-1]))]
        damages = [damage for _, damage in inside if damage]
        faults = {fault_of(token.top) for token, _ in inside}
        if not least and len(faults) == 1:  # a schema may leave one token or improbable ones, but not everywhere
            damages += faults & OF_ALL
        lost = bool(OF_ALL.intersection(damages))
        tokens = tuple(Token(token.text, math.nan) if lost else token for token, _ in read)
        return tokens, ends, next(iter(damages), "")


@dataclass(frozen=True, slots=True)
class SpelledText:
    """A text without its thought, and the tokens that spell the text; tokens of a reply's end may follow.

    Attributes:
        tokens: the tokens; empty if their texts do not spell the text. A damaged token has the log-probability nan.
        ends: number of characters of the text up to the end of each token.
        damage: what is wrong with the log-probabilities; "" if nothing is.
    """

    text: str
    thought: str | None
    tokens: tuple[Token, ...]
    ends: tuple[int, ...]
    finish: str
    damage: str

    def whole_thought(self, length: int) -> Thought | None:
        """Return the thought; `length` is the number of tokens of thought and reply together."""
        if self.thought is None:
            return None
        cut = self.finish == "length" and not self.text.strip()
        return Thought(text=self.thought or None, tokens=max(0, length - len(self.tokens)), cut=cut)

    def chunk(self, usage: TokenCounts) -> Chunk:
        """Return the text as the only chunk of a reply."""
        length = usage.get("completion_tokens", 0)
        return Chunk(
            text=self.text,
            finish="length" if self.finish == "length" else "stop",
            prompt_tokens=usage.get("prompt_tokens", 0),
            completion_tokens=length,
            tokens=self.tokens,
            thought=self.thought,
            whole_thought=self.whole_thought(length),
        )


def _is_written(entry: Mapping[str, Any]) -> bool:
    """Return whether a token without a text is a part of a character, as in vLLM, and not a mark of the server."""
    with suppress(DamagedError):
        return log_p_of(entry.get("logprob")) > MIN_LOG_P
    return False


Spelling = Callable[[Mapping[str, Any]], bytes]
"""Returns the text of a token, as bytes, from its entry. Raises DamagedError."""


def _as_text(entry: Mapping[str, Any]) -> bytes:
    token = entry.get("token")
    if not isinstance(token, str):
        raise DamagedError(UNREADABLE)
    return token.encode("utf-8", "replace") or _bytes(entry)


def _by_bytes(entry: Mapping[str, Any]) -> bytes:
    return _bytes(entry) or _as_text(entry)


def _bytes(entry: Mapping[str, Any]) -> bytes:
    """Return the "bytes" of a token, or b"" without usable ones."""
    data = entry.get("bytes")
    known = isinstance(data, list) and all(type(byte) is int and 0 <= byte < 256 for byte in data)
    return bytes(data) if known and data else b""


def _by_sentencepiece(entry: Mapping[str, Any]) -> bytes:
    token = _as_text(entry).decode()
    byte = BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()


def _by_byte_level(entry: Mapping[str, Any]) -> bytes:
    token = _as_text(entry).decode()
    return bytes(map(BYTE_OF.__getitem__, token)) if all(each in BYTE_OF for each in token) else token.encode()


def spellings(listed: Sequence[Mapping[str, Any]]) -> list[tuple[Spelling, list[bytes]]]:
    """Return the texts of tokens in each way that can read all of them, the most likely way first.

    A server may name tokens by ids, or as its vocabulary writes them.
    """
    tokens = [str(other.get("token")) for entry in listed for other in (entry, *_others(entry))]
    likely = {
        _by_bytes: any(map(_bytes, listed)),
        _by_byte_level: any(token[:1] in ("\u0120", "\u010a") for token in tokens),
        _by_sentencepiece: any(token[:1] == "\u2581" or BYTE.fullmatch(token) for token in tokens),
        _as_text: True,
    }
    read: list[tuple[Spelling, list[bytes]]] = []
    for spell in sorted(likely, key=lambda each: not likely[each]):
        with suppress(DamagedError):
            read.append((spell, [spell(entry) for entry in listed]))
    return read


def _others(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    try:
        return alternatives(entry)
    except DamagedError:
        return []


def spelling_of(
    text: str, listed: Sequence[Mapping[str, Any]], stop: Sequence[str] = ()
) -> tuple[Spelling, int, tuple[int, ...]] | None:
    """Return the way in which the last tokens of a reply spell a text, and their `place`; None if they do not."""
    spelled = spellings(listed)
    for placing in (place, place_roughly):
        for spell, parts in spelled:
            if (placed := placing(text, parts, stop)) is not None:
                return spell, *placed
    return None


def place(text: str, parts: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[int, tuple[int, ...]] | None:
    """Return the index in `parts` of a text's first token, and the number of characters up to each token's end.

    None if the last tokens do not spell the text.

    >>> place("B", [b"<think>", b"A or B?", b"</think>", b"\\n\\n", b"B", b"<|im_end|>"])
    (4, (1, 11))
    >>> place("B", [b"A or B?"]) is None
    True
    >>> place("B", [b"Well: B"]), place("B", [b"<think>", b"Hm.</think>B"])
    (None, None)
    """
    wanted, whole = text.strip(), b"".join(parts).decode("utf-8", "replace")
    for rest in _cut_end(whole, stop):
        if wanted and rest.endswith(wanted):
            begin, ends = len(rest) - len(wanted), token_ends(parts)
            first = 0
            if whole[:begin].strip():
                first = next(number for number, end in enumerate(ends) if end > begin)
                # A token that spans the end of the thought and the start of the answer has no probability of its own.
                if not first or whole[ends[first - 1] : begin].strip():
                    return None
            offset = text.index(wanted) - begin
            return first, tuple(end + offset for end in ends[first:])
    return None


def place_roughly(text: str, parts: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[int, tuple[int, ...]] | None:
    """Return `place` for tokens of which some have `REPLACEMENT_CHARACTER` instead of the bytes of an incomplete
    character.

    >>> place_roughly("é!", ["\\ufffd".encode(), "\\ufffd".encode(), b"!"])
    (0, (1, 1, 2))
    """
    texts = [part.decode("utf-8", "replace") for part in parts]
    whole, wanted = "".join(texts), text.strip()
    if REPLACEMENT_CHARACTER not in whole or not wanted:
        return None
    lead = len(whole) - len(whole.lstrip())
    for rest in _cut_end(whole, stop):
        if (inside := _character_ends(rest[lead:], wanted)) is not None:
            offset = text.index(wanted)
            known = [*range(offset - lead, offset), *(offset + end for end in inside)]
            known += range(known[-1] + 1, known[-1] + 1 + len(whole) - len(rest))
            return 0, tuple(known[end - 1] if end else offset for end in accumulate(map(len, texts)))
    return None


def _cut_end(whole: str, stop: Sequence[str]) -> list[str]:
    """Return the texts that a reply may have, without the stop text or the tokens at its end."""
    rests = [whole.rstrip(), *(whole[: whole.rfind(each)].rstrip() for each in stop if each in whole)]
    for rest in rests:
        if END.search(rest):
            rests.append(END.sub("", rest).rstrip())
    return rests


def _character_ends(whole: str, text: str) -> list[int] | None:
    """Return, for each character of `whole`, the end in `text` of what it stands for; None if they differ.

    A run of `REPLACEMENT_CHARACTER` stands for one or more characters of the text.
    """
    ends: list[int] = []
    pieces = re.split(f"({REPLACEMENT_CHARACTER}+)", whole)
    at = 0
    for literal, run in zip(pieces[::2], ["", *pieces[1::2]], strict=True):
        last = len(ends) + len(run) + len(literal) == len(whole)
        least, most = at + bool(run), at + (max(4, len(run)) if run else 0)
        begin = len(text) - len(literal) if last else text.find(literal, least, most + len(literal))
        if not (least <= begin <= most and text.startswith(literal, begin)):
            return None
        ends += [at + math.ceil((begin - at) * (number + 1) / len(run)) for number in range(len(run))]
        at = begin + len(literal)
        ends += range(begin + 1, at + 1)
    return ends if at == len(text) else None


def read_token(entry: Mapping[str, Any], spell: Spelling, least: int = 0) -> tuple[Token, str]:
    """Return a token with all reported tokens at its position, and what is wrong with the report ("" if nothing is).

    `least`: minimum number of reported tokens, which are the most probable ones; with 0, secl does not check the list.
    """
    text = spell(entry).decode("utf-8", "replace")
    try:
        log_p = log_p_of(entry.get("logprob"))
        if log_p <= MIN_LOG_P:
            raise DamagedError(ZERO)
        listed = [
            (spell(other).decode("utf-8", "replace"), log_p_of(other.get("logprob"))) for other in alternatives(entry)
        ]
        # Some servers write the text of the written token in another form among the most probable tokens.
        forms = {other for other, each in listed if each == log_p}
        if forms and all(other != text for other, _ in listed):
            if REPLACEMENT_CHARACTER in "".join(forms) and REPLACEMENT_CHARACTER not in text:
                raise DamagedError(PART)  # llama.cpp merges the tokens of a character, but not their probabilities
            listed = [(other, each) for other, each in listed if each != log_p]
        top = distribution((text, log_p), listed)
        if least and (fault := fault_of(top, least)):
            raise DamagedError(fault)
    except DamagedError as damage:
        return Token(text, math.nan), str(damage)
    return Token(text, log_p, top), ""


def read_reply(answer: object, url: str) -> tuple[ReplyPart, TokenCounts]:
    """Return the first text and the usage in an answer. Raises ModelError: no text, or not in OpenAI's form."""
    texts, usage = read_parts(answer, url)
    if not texts:
        raise ModelError(OTHERWISE.format(url))
    return texts[0], usage


def read_parts(answer: object, url: str) -> tuple[list[ReplyPart], TokenCounts]:
    """Return the texts and the usage in an answer, or in a chunk of a stream, of the server at `url`.

    Raises ModelError: not in OpenAI's form.
    """
    choices = choices_of(answer, url)
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    numbers: Any = ((name, usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    counts = {name: int(each) for name, each in numbers if type(each) in (int, float) and 0 < each < math.inf}
    details = usage.get("completion_tokens_details")
    hidden = isinstance(details, Mapping) and bool(details.get("reasoning_tokens"))
    try:
        return [_read_part(choice, hidden) for choice in choices], counts
    except (AttributeError, TypeError, ValueError) as problem:
        raise ModelError(OTHERWISE.format(url)) from problem


def _read_part(choice: Mapping[str, Any], hidden: bool) -> ReplyPart:
    message = choice.get("delta") or choice.get("message") or {}
    text, thought = _texts(message.get("content") or message.get("refusal"))
    shown = [thought, *("".join(_texts(message.get(name))) for name in THOUGHT_FIELDS)]
    finish, listed, damage = _finish(choice.get("finish_reason")), [], ""
    try:
        listed = positions(choice.get("logprobs"))
    except DamagedError as problem:
        damage = str(problem)
    cut = "message" in choice and finish == "length" and not text and not message.get("tool_calls")
    return ReplyPart(
        text=text,
        thought=next((each for each in shown if each), "" if hidden or cut else None),
        listed=tuple(listed),
        finish=finish,
        damage=damage,
    )


def _texts(content: object) -> tuple[str, str]:
    """Return the text and the thought in a message's content: a text, a block, or a list of blocks."""
    if content is None or isinstance(content, str):
        return content or "", ""
    if isinstance(content, Mapping):
        inner = next((content[name] for name in ("text", "content", "thinking", "value") if content.get(name)), None)
        text = "".join(_texts(inner))
        return ("", text) if str(content.get("type")) in ("thinking", "reasoning") else (text, "")
    if isinstance(content, list):
        blocks = [_texts(block) for block in content]
        return "".join(text for text, _ in blocks), "".join(thought for _, thought in blocks)
    raise TypeError(f"{type(content).__name__} is no content")


def _finish(reported: object) -> str:
    """Return a `finish_reason` as "stop", "length", a value of `OTHER_REPLIES`, or "" for none."""
    reason = reported.get("type") if isinstance(reported, Mapping) else reported
    if not reason:
        return ""
    lowered = str(reason).lower()
    return "length" if lowered in LENGTH else lowered if lowered in OTHER_REPLIES else "stop"
