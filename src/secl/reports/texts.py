"""A text for display: plain segments, and facts with shades for their confidences. Terminal and pages share it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from secl.display import counted, excerpt, number, percent, percents
from secl.facts.records import GAP_MARK
from secl.grading.rules import reported_correct
from secl.records import Record
from secl.reports.table import Cell, Column, Table

SHADES = (0.9, 0.7, 0.5, 0.25)
"""Lowest confidences of the shades 0 to 3; lower confidences have shade 4."""

LEGEND = ("90% and more", "70 to 90%", "50 to 70%", "25 to 50%", "below 25%")
"""Confidences of the shades 0 to 4 in words, from the surest facts to the least certain."""

UNCERTAIN = 0.5
"""Confidence below which a fact is marked if the run has no threshold."""

LEAST_CERTAIN = 5
"""Number of facts in the table of a text."""

MAX_CHARACTERS = 120
"""Maximum number of characters of a fact and of its sentence in a table."""

MOST_OTHERS = 4
"""Maximum number of candidates in the title of a fact."""


@dataclass(frozen=True, slots=True)
class Segment:
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
        return f"{_kind(fact)}, confidence {short(fact.confidence)}{_others(fact, ', or ')}"


def is_uncertain(fact: Record) -> bool:
    """Return whether a fact is labelled as wrong, not accepted, or without a threshold has a confidence below 0.5."""
    right = reported_correct(fact)
    if right is not None:
        return not right
    unaccepted = fact.confidence < UNCERTAIN if fact.accepted is None else not fact.accepted
    return unaccepted and not math.isnan(fact.confidence)


def segments_of(record: Record) -> list[Segment]:
    """Return the segments of a record's text in order; their texts joined are the text.

    >>> import secl
    >>> text = "In May 1535 the Spanish came to the valley, where the city of Lima stands today. It is by the sea."
    >>> record = secl.load(secl.testing.ScriptedModel()).score("Tell me about the capital.", text, form="text")
    >>> [(segment.text, segment.shade, segment.mark) for segment in segments_of(record)][1]
    ('May 1535', 3, '[0.37]')
    """
    return list(_segments(record.reply.answer or "", record.facts or ()))


def _segments(text: str, facts: tuple[Record, ...]) -> Iterator[Segment]:
    place = 0
    for fact in facts:
        start, end = fact.span or (place, place)
        if start > place:
            yield Segment(text[place:start])
        yield Segment(text[start:end], fact)
        place = end
    if place < len(text):
        yield Segment(text[place:])


def short(confidence: float | None) -> str:
    """Return a confidence with two decimals, a dash if unknown; only 0 and 1 become "0.00" and "1.00".

    >>> short(0.314), short(0.001), short(0.999), short(1.0)
    ('0.31', '<0.01', '>0.99', '1.00')
    """
    if confidence is None:
        return number(None, 2)
    if 0 < confidence < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= confidence < 1 else number(confidence, 2)


def _kind(fact: Record) -> str:
    """Return the kind of a fact, and whether the fact stands in the passage of the question."""
    passage = {None: "", True: ", in the passage", False: ", not in the passage"}
    return f"{fact.question.domain}{passage[fact.in_passage]}"


def _others(fact: Record, before: str) -> str:
    """Return the other candidates of a fact with their probabilities; empty without any."""
    others = [f"{other} {short(p)}" for other, p in fact.candidates if other != fact.text][:MOST_OTHERS]
    return f"{before}{', '.join(others)}" if others else ""


def facts_table(facts: Sequence[Record], most: int | None = LEAST_CERTAIN) -> Table:
    """Return a table of the `most` least certain facts; of all facts in order for None."""
    shown = list(facts) if most is None else sorted(facts, key=_certainty)[:most]
    columns = [
        Column("Fact" if len(shown) == len(facts) else "Least certain facts", text=True, wraps=True),
        Column("Confidence"),
        Column("Kind", text=True),
        Column("In the text", text=True, wraps=True),
    ]
    rows = [
        (
            Cell(excerpt(fact.text or "", MAX_CHARACTERS), excerpt(_others(fact, "or "), MAX_CHARACTERS)),
            Cell(interval_of(fact)),
            Cell(*_kind(fact).partition(", ")[::2]),
            Cell(around_gap(fact.question.text)),
        )
        for fact in shown
    ]
    left = len(facts) - len(shown)
    return Table(columns, {"": rows}, [f"And {counted(left, 'more fact')}."] if left else [])


def interval_of(record: Record) -> str:
    """Return a confidence in percent, with its interval if known, such as "31% (11 to 61%)"."""
    likely = percent(record.confidence)
    return likely if math.isnan(record.low) else f"{likely} ({percents(record.low, record.high)})"


def _certainty(fact: Record) -> float:
    return math.inf if math.isnan(fact.confidence) else fact.confidence


def around_gap(sentence: str, longest: int = MAX_CHARACTERS) -> str:
    """Return a sentence on one line, cut to `longest` characters around the gap of its fact.

    >>> around_gap("The lake is deep and wide, and the city of ____ lies by it.", 30)
    '… wide, and the city of ____ lie …'
    """
    line = " ".join(sentence.split())
    start = max(0, min(line.find(GAP_MARK) - longest + longest // 4, len(line) - longest))
    return f"{'… ' if start else ''}{excerpt(line[start:], longest)}"
