"""Amounts: numbers in figures or in words, with their units, and which of them an answer states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from secl.grading.numbers import DASHES, NUMBER, number_value
from secl.grading.vocabulary import SCALES, SMALL_NUMBERS, TENS, UNITS

_TENS = dict(zip(TENS, range(20, 100, 10), strict=True))
_SPELLED = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(SMALL_NUMBERS[1:10])}))?|({'|'.join(SMALL_NUMBERS)}))\b", re.IGNORECASE
)
_MINUS = re.compile(r"(?<!\d\s)\b(?:minus|negative)\s+(?=\d)", re.IGNORECASE)
_BEHIND = re.compile(rf"(?:\s*({'|'.join(SCALES)})\b)?[\s-]*((?:degrees?\s+|°\s*)?[^\W\d_]+|%|°|)", re.IGNORECASE)
_UNIT_OF = {word: unit for unit, words in UNITS.items() for word in words.split()}
_ALTERNATIVES = re.compile(r"^\W*(?:\w+\W+){0,2}?(?:or|to|oder)\W+(?:\w+\W+)?$|^\s*-\s*$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\W*$", re.IGNORECASE)
_DENIAL = re.compile(r"\b(?:not|n't|never|isnt|rather than|instead of)\s+(?:\w+\s+)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a text: its value, its digits behind the point, its unit under one name, and its place.

    The unit is empty without one. The place is in the text that `in_figures` gives, and the unit is no part of it.
    """

    value: Fraction
    decimals: int
    unit: str
    start: int
    end: int


def in_figures(text: str, *, ones: bool = False) -> str:
    """A text with its English number words below a hundred in figures; "one", most often no number, only with `ones`.

    >>> in_figures("Twenty-one is one of three numbers.")
    '21 is one of 3 numbers.'
    """

    def figure(match: re.Match[str]) -> str:
        tens, ones_digit, small = (part.lower() if part else "" for part in match.groups())
        if small == "one" and not ones:
            return match[0]
        return str(_TENS.get(tens, 0) + (SMALL_NUMBERS.index(ones_digit or small) if ones_digit or small else 0))

    return _MINUS.sub("-", _SPELLED.sub(figure, DASHES.sub("-", text)))


def read_amounts(text: str) -> list[Amount]:
    """The amounts of a text in figures, in order."""
    amounts = []
    for match in NUMBER.finditer(text):
        value = number_value(match)
        behind = _BEHIND.match(text, match.end())
        if value is None or behind is None:
            continue  # too long
        if re.match(r"\.\d", text[match.end() :]) or re.search(r"\d\.$", _before(text, match.start())):
            continue  # a part of "2.0.1"
        scale, noun = (behind[1] or "").lower(), " ".join(behind[2].lower().split())
        noun = re.sub(r"^(?:degrees?\s+|°\s*)(?=\S)", "", noun)
        noun = {"c": "°c", "f": "°f"}.get(noun, noun)
        end = behind.end(1) if scale else match.end()
        decimals = len((match["decimals"] or ".")[1:])
        amounts.append(
            Amount(value * SCALES.get(scale, 1), decimals, _UNIT_OF.get(_singular(noun), ""), match.start(), end)
        )
    return amounts


def _singular(noun: str) -> str:
    if noun in _UNIT_OF:
        return noun
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith("ss") else noun


def whole_amount(question: str, reference: str) -> Amount | None:
    """The amount that a reference is, with its unit or with what the question counts; None if it is none.

    >>> whole_amount("How tall is it?", "8 km").unit, whole_amount("Who?", "50 Cent"), whole_amount("", "ten").value
    ('km', None, Fraction(10, 1))
    """
    text = in_figures(reference.strip(), ones=True)
    amounts = read_amounts(text)
    if len(amounts) != 1 or text[: amounts[0].start].strip(" ~-"):
        return None
    rest = text[amounts[0].end :].strip(" .-°").lower()
    words = {_singular(word) for word in re.findall(r"[^\W\d_]+", question.lower())}
    known = not rest or amounts[0].unit or all(_singular(word) in words for word in rest.split())
    return amounts[0] if known else None


def states(question: str, reference: Amount, answer: str) -> bool:
    """Whether an answer states an amount, and not several to choose from.

    Numbers of the question do not count, nor do denied ones and those of another unit. Behind a last "=" stands the
    result. What is left must begin or end with the amount: results come last, remarks come behind.

    >>> eight = whole_amount("", "8")
    >>> states("How many legs has a spider?", eight, "It has 8 legs and 6 eyes."), states("4 + 4?", eight, "8 or 9")
    (True, False)
    """
    text = in_figures(answer, ones=reference.value == 1)
    in_question = {amount.value for amount in read_amounts(in_figures(question))} - {reference.value}
    amounts = [each for each in read_amounts(text) if not _DENIAL.search(_before(text, each.start))]
    amounts = [each for each in amounts if each.value not in in_question]
    if reference.unit:
        amounts = [each for each in amounts if each.unit in ("", reference.unit)]
    results = [each for each in amounts if each.start > text.rfind("=") > -1]
    if not amounts or _to_choose(results or amounts, text):
        return False
    left = results[:1] or amounts
    return any(_equal(reference, each.value) for each in (left[0], left[-1]))


def _equal(reference: Amount, value: Fraction) -> bool:
    """Whether a value is the reference, or rounds to it where that has decimals."""
    return value == reference.value or (reference.decimals > 0 and round(value, reference.decimals) == reference.value)


def _to_choose(amounts: Sequence[Amount], text: str) -> bool:
    """Whether two amounts that follow each other are alternatives or the ends of a range."""
    for one, other in pairwise(amounts):
        between = text[one.end : other.start]
        span = _BETWEEN.search(_before(text, one.start)) and re.search(r"\band\W*$", between)
        if one.value != other.value and (span or _ALTERNATIVES.match(between)):
            return True
    return False


def _before(text: str, place: int) -> str:
    """The end of what stands before a place: as much as may matter."""
    return text[max(place - 40, 0) : place]
