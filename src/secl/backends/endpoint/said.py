"""Texts in the answers of a server, separated from thoughts, with their tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
"""A token that ends a reply, such as "<|im_end|>" or "</s>"; some servers report this token, but not in the text."""

OTHERWISE = "the endpoint's reply does not have the form of OpenAI's API."

HALF = "\ufffd"
"""Reported for the bytes of a character that several tokens share."""


@dataclass(frozen=True, slots=True)
class Said:
    """One text in an answer, or its part in a chunk of a stream.

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
        """Return the answer without its thought, with its own tokens; no tokens if they do not spell the answer.

        Args:
            thinking: whether a thought may begin without a mark. If not, a reply in the field for thoughts is an
                answer. Some servers use this field if the model did not think.
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
        """Return the thought; `length` counts the tokens of thought and reply."""
        if self.thought is None:
            return None
        cut = self.finish == "length" and not self.text.strip()
        return Thought(text=self.thought or None, tokens=max(0, length - len(self.tokens)), cut=cut)


def split_thought(text: str, *, unopened: bool = False) -> tuple[str | None, str]:
    """Return the thought that a text begins with, or None, and the answer after it, "" before the end of the thought.

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
    """Return the index of a text's first token if the last tokens spell the text; else None.

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
        # A token that spans the end of the thought and the start of the answer has no probability of the answer alone.
        return first if first and not whole[ends[first - 1] : begin].strip() else None
    pattern = ".{1,4}".join(map(re.escape, re.split(f"{HALF}+", whole.strip())))
    return 0 if HALF in whole and re.fullmatch(pattern, wanted, re.DOTALL) else None


def _begin(whole: str, text: str) -> int | None:
    """Return the position in `whole` of a text at its end, before tokens that end replies; else None."""
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
    """Return the first text and the usage in an answer. Raises ModelError: no text, or not OpenAI's API."""
    texts, usage = said_in(answer)
    if not texts:
        raise ModelError(OTHERWISE)
    return texts[0], usage


def said_in(answer: Any) -> tuple[list[Said], Usage]:
    """Return the texts and the usage in an answer, or in a chunk of a stream. Raises ModelError: not OpenAI's API."""
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
