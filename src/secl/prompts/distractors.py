"""Wrong answers to compare an open answer with: which of the generated ones count, and what fills the gap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from secl.data.grading import normalise_text, parse_number, write_number
from secl.records import Form

COUNT = 4
"""Distractors of an open question (K in the paper)."""


def distinct(answer: str, found: Iterable[str], form: Form, count: int = COUNT) -> list[str]:
    """The first `count` of `found` that differ from `answer` and from each other once normalised.

    >>> distinct("The Nile", ["nile", "Amazon", "the amazon", "Volga"], "short")
    ['Amazon', 'Volga']
    """
    key: Callable[[str], object] = parse_number if form == "number" else normalise_text
    seen = {key(answer)}
    kept: list[str] = []
    for candidate in found:
        if key(candidate) not in seen and len(kept) < count:
            seen.add(key(candidate))
            kept.append(candidate)
    return kept


def near_numbers(answer: str) -> list[str]:
    """Wrong numbers of the kind that slips produce: off by one, doubled, halved, off by ten, off by a tenth.

    >>> near_numbers("12")[:4]
    ['13', '11', '24', '6']
    """
    value = parse_number(answer)
    if value is None:
        return []
    slips = (value + 1, value - 1, value * 2, value / 2, value + 10, value - 10, value * Fraction(11, 10), value + 2)
    return [write_number(slip) for slip in slips]
