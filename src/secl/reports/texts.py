"""A text for display: plain pieces, and facts with shades for their confidences. Terminal and pages share it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from secl.display import number
from secl.grading.rules import reported_correct
from secl.records import Record

SHADES = (0.9, 0.7, 0.5, 0.25)
"""Lowest confidences of the shades 0 to 3; lower confidences have shade 4."""

LEGEND = (*(f"{100 * low:.0f}%" + (" and more" if place == 0 else "") for place, low in enumerate(SHADES)), "less")
"""Confidences of the shades 0 to 4 in words, from the surest facts to the least certain."""

UNCERTAIN = 0.5
"""Confidence below which a fact is marked if the run has no threshold."""

MOST_OTHERS = 4
"""Maximum number of candidates in the title of a fact."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: a fact, or the text between two facts.

    Attributes:
        fact: the record of the fact; None for other text.
    """

    text: str
    fact: Record | None = None

    @property
    def shade(self) -> int | None:
        """Shade of the fact, from 0 for a sure fact to 4; None for other text, and if the confidence is unknown.

        A labelled fact has shade 0 if it is right, and else 4.
        """
        if self.fact is None:
            return None
        right, confidence = reported_correct(self.fact), self.fact.confidence
        if right is not None:
            return 0 if right else len(SHADES)
        return None if math.isnan(confidence) else sum(confidence < low for low in SHADES)

    @property
    def is_uncertain(self) -> bool:
        """Whether a reader should check the fact: labelled as wrong, not accepted, or probably wrong."""
        return self.fact is not None and is_uncertain(self.fact)

    @property
    def mark(self) -> str:
        """Text behind the fact, such as "[0.31]", or "[wrong]" and "[right]" by a label; empty for a sure fact."""
        right = None if self.fact is None else reported_correct(self.fact)
        if self.fact is None or right is not None:
            return "" if right is None else "[right]" if right else "[wrong]"
        return f"[{short(self.fact.confidence)}]" if self.is_uncertain else ""

    @property
    def title(self) -> str:
        """Kind and confidence of the fact, and its other candidates; empty for other text."""
        fact = self.fact
        if fact is None:
            return ""
        shown = [f"{fact.question.domain}, confidence {short(fact.confidence)}"]
        shown += [f"{other} {short(p)}" for other, p in fact.candidates[:MOST_OTHERS] if other != fact.text]
        return ", or ".join(shown)


def is_uncertain(fact: Record) -> bool:
    """Return whether a fact is labelled as wrong, not accepted, or without a threshold has a confidence below 0.5."""
    right = reported_correct(fact)
    if right is not None:
        return not right
    unaccepted = fact.confidence < UNCERTAIN if fact.accepted is None else not fact.accepted
    return unaccepted and not math.isnan(fact.confidence)


def pieces_of(record: Record) -> list[Piece]:
    """Return the pieces of a record's text in order; their texts joined are the text.

    >>> import secl
    >>> text = "In May 1535 the Spanish came to the valley, where the city of Lima stands today. It is by the sea."
    >>> record = secl.load(secl.testing.ScriptedModel()).score("Tell me about the capital.", text, form="text")
    >>> [(piece.text, piece.shade, piece.mark) for piece in pieces_of(record)][1]
    ('May 1535', 3, '[0.37]')
    """
    return list(_pieces(record.reply.answer or "", record.facts or ()))


def _pieces(text: str, facts: tuple[Record, ...]) -> Iterator[Piece]:
    place = 0
    for fact in facts:
        start, end = fact.span or (place, place)
        if start > place:
            yield Piece(text[place:start])
        yield Piece(text[start:end], fact)
        place = end
    if place < len(text):
        yield Piece(text[place:])


def short(confidence: float) -> str:
    """Return a confidence with two decimals; only 0 and 1 become "0.00" and "1.00".

    >>> short(0.314), short(0.001), short(0.999), short(1.0)
    ('0.31', '<0.01', '>0.99', '1.00')
    """
    if 0 < confidence < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= confidence < 1 else number(confidence, 2)
