"""Parsing of generated texts into answers; None for an unreadable reply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from secl.grading.numbers import parse_number, write_number
from secl.grading.texts import LONGEST_TEXT
from secl.question import Form

MAX_WORDS = 12
"""Maximum number of words of an item in a list of short answers; secl ignores longer items."""

BRIEF = 200
"""Maximum number of characters of a free answer that secl compares with others."""

LONGEST_LOOP = 16
"""Maximum period of a loop, in words."""

LOOPED_WORDS = 8
"""Minimum number of words of a loop, so that "Tora! Tora! Tora!" is no loop."""

_WORD = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+")
"""A word; in scripts without spaces a character."""

_ANSWER_LINE = re.compile(r"Answer:[ \t]*(\S[^\n]*)")
_LIST_MARK = re.compile(r"^\s*(?:\(?\d+[.):](?!\d)|[*•]|-(?!\d))\s*")


@dataclass(frozen=True, slots=True)
class ThinkTags:
    """The texts before and after a thought, for a family of models.

    A reply that begins with `empty` (an empty thought, or the opening of the answer) has no thought.
    """

    opening: str
    closing: str
    empty: str


_TAGS = (
    ("<think>", "</think>"),  # Qwen 3, DeepSeek-R1, SmolLM 3 and most others
    ("[THINK]", "[/THINK]"),  # Magistral, and Ministral with reasoning
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
)
THINK_TAGS = (
    *(ThinkTags(opening, closing, f"{opening}\n\n{closing}\n\n") for opening, closing in _TAGS),
    ThinkTags("<|channel|>analysis", "<|channel|>final<|message|>", "<|channel|>final<|message|>"),  # gpt-oss
)


def find_tags(begun: str, *, unopened: bool = False) -> ThinkTags | None:
    """Return the tags of the thought with which a text begins; None without a thought.

    `unopened`: whether a thought may begin without an opening mark.
    """
    found = (each for each in THINK_TAGS if begun.startswith(each.opening) or (unopened and each.closing in begun))
    return next(found, None)


def split_thought(text: str, *, unopened: bool = False) -> tuple[str | None, str]:
    """Return the thought at the beginning of a text, and the answer after the thought.

    The thought is None if the text has none. The answer is "" if the thought has no end.

    >>> split_thought("<think>Hm.</think>\\n\\nParis"), split_thought("Paris")
    (('Hm.', 'Paris'), (None, 'Paris'))
    >>> split_thought("Hm.</think>Paris", unopened=True)
    ('Hm.', 'Paris')
    """
    begun = text.lstrip()
    tags = find_tags(begun, unopened=unopened)
    if tags is None:
        return None, text
    thought, _, answer = begun.removeprefix(tags.opening).partition(tags.closing)
    return thought.strip(), answer.lstrip()


def bare_thought(text: str) -> str:
    """Return a thought without an incomplete last character and without marks that would format the answer."""
    return text.strip().rstrip(" \n*#\ufffd")


def is_complete(text: str, form: Form) -> bool:
    """Return whether a generated answer is complete, so that generation can stop."""
    if form == "text":
        return False
    _, text = split_thought(text)
    if "Confidence:" in text:
        return True
    if form == "number":
        # More digits may follow until a new line begins.
        line = _ANSWER_LINE.search(text)
        return _repeats(text) or (line is not None and "\n" in text[line.end() :])
    return "\n" in text.lstrip()


def _repeats(text: str) -> bool:
    """Return whether the last two complete lines are equal, as in loops of small models."""
    finished = [line.strip() for line in text.split("\n")[:-1] if line.strip()]
    return len(finished) > 1 and finished[-1] == finished[-2]


def is_loop(text: str) -> bool:
    """Return whether a text ends in a loop: the same words at least three times; the last word may be cut off.

    The period has at most `LONGEST_LOOP` words. The repetitions cover at least half of the words, and at least
    `LOOPED_WORDS`. Case and punctuation do not count.

    >>> is_loop("The original answer is: The original answer is: The original answer is: The orig")
    True
    >>> is_loop("Location, location, location."), is_loop("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")
    (False, False)
    """
    words = _WORD.findall(text.casefold())
    return any(
        _looped(words, period) >= max(3 * period, LOOPED_WORDS, len(words) / 2) for period in range(1, LONGEST_LOOP + 1)
    )


def _looped(words: Sequence[str], period: int) -> int:
    """Return how many words at the end of a text belong to a loop of this period."""
    if len(words) <= period:
        return 0
    repeated = 0
    for place in range(len(words) - 1, period - 1, -1):
        earlier, last = words[place - period], place == len(words) - 1
        if not (earlier.startswith(words[place]) if last else earlier == words[place]):
            break
        repeated += 1
    return repeated + period


def trim_answer(text: str, form: Form, *, prefilled: bool = False) -> str:
    """Return the answer as written, without thought, confidence line, and later text.

    After a prefill such as "Answer:", the space at the beginning of an answer is part of the answer.
    """
    _, text = split_thought(text)
    if form == "text":
        return text
    text = text.split("Confidence:")[0]
    if form == "number":
        line = _ANSWER_LINE.search(text)
        return (text[: line.end()] if line else text).strip()
    lines = text.strip().splitlines()
    space = " " if (prefilled or form == "short") and text[:1].isspace() else ""
    return space + lines[0].rstrip() if lines else ""


def read_answer(text: str, form: Form, context: str = "") -> str | None:
    """Return the answer in a trimmed reply: for the form "number" the number, else the text; None if unreadable.

    `context` is the question, which may write decimal commas.
    """
    if form != "number":
        return None if is_loop(text) else text.strip() or None
    number = parse_number(text, context)
    return None if number is None else write_number(number)


def as_written(answer: str, form: Form) -> str:
    """Return a given answer as the model would have written it, so that `read_answer` can read it.

    >>> as_written("Paris ", "short"), as_written("12", "number"), as_written("It is blue.", "sentence")
    ('Paris', 'Answer: 12', 'It is blue.')
    """
    text = answer.strip()
    alone = form == "number" and len(text.split()) == 1 and parse_number(text) is not None
    return f"Answer: {text}" if alone else text


def is_brief(answer: str, form: Form) -> bool:
    """Return whether an answer is short enough to compare with others."""
    text = answer.strip()
    return len(text) <= LONGEST_TEXT if form != "text" else "\n" not in text and len(text) <= BRIEF


def read_list(text: str, form: Form) -> list[str]:
    """Return the items of a generated list, one per line, without list marks; for "number" only numbers."""
    items = []
    for line in text.splitlines():
        item = _LIST_MARK.sub("", line).strip().rstrip(".").strip("\"'").strip()
        if form == "number":
            number = parse_number(item)
            item = "" if number is None else write_number(number)
        if item and (form != "short" or len(item.split()) <= MAX_WORDS):
            items.append(item)
    return items
