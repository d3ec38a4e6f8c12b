"""Distractors of an open answer: which of the generated answers count, and numbers that fill the gap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from secl.grading import normalise_text, parse_number, write_number
from secl.question import Form


def distinct(answer: str, candidates: Iterable[str], form: Form, count: int) -> list[str]:
    """The first `count` candidates that differ from `answer` and from each other once normalised.

    >>> distinct("The Nile", ["nile", "Amazon", "the amazon", "Volga"], "short", 4)
    ['Amazon', 'Volga']
    """
    key: Callable[[str], object] = parse_number if form == "number" else normalise_text
    by_key: dict[object, str] = {}
    for candidate in candidates:
        by_key.setdefault(key(candidate), candidate)
    by_key.pop(key(answer), None)
    return [*by_key.values()][:count]


def near_numbers(answer: str) -> list[str]:
    """Wrong numbers such as slips produce: off by one, doubled, halved, off by ten, off by a tenth.

    >>> near_numbers("12")[:4]
    ['13', '11', '24', '6']
    """
    value = parse_number(answer)
    if value is None:
        return []
    slips = (value + 1, value - 1, value * 2, value / 2, value + 10, value - 10, value * Fraction(11, 10), value + 2)
    return [write_number(slip) for slip in slips]
