"""The everyday rule ("auto"): whether an English sentence gives the right answer, as a reader would judge.

Equal texts (`same_text`) are right. Otherwise the first row that fits the reference decides:

    yes or no       the answer affirms or denies as the reference does, in a word or in a statement
    an amount       the answer states this amount and no other
    a date          the answer has the day, month and year that the reference gives, in any order
    several items   the answer mentions all of them, in any order
    name or words   the answer mentions the name or words (`secl.grading.mentions`); a person's last name suffices
    a long text     the answer has at least 4/5 of the text's words, and both or neither have a negation

The rule does not understand meaning: a wrong sentence that mentions the right answer can pass, and a paraphrase can
fail.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from secl.grading.mentions import CONJUNCTIONS, DENIALS, FUNCTION_WORDS, Word, denied, mentioned, read_words, word_list
from secl.grading.texts import DASHES, NUMBER, normalise_text, number_value, same_text, shortened

_POLARITY = {"yes": True, "true": True, "correct": True, "no": False, "false": False, "incorrect": False}
_DOUBT = re.compile(
    r"\b(?:not|n't|cannot|can't|don't)\s+(?:know|sure|certain|say|answer|tell)\b|\b(?:depends|maybe|perhaps|possibly|unclear|unknown)\b",
    re.IGNORECASE,
)

_MONTH_NAMES = word_list("january february march april may june july august september october november december")
_MONTHS = {name: f"#{n}" for n, month in enumerate(_MONTH_NAMES, 1) for name in (month, month[:3])} | {"sept": "#9"}
_ISO_DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(\d{2})\b")
_IN_DATES = frozenset(("st", "nd", "rd", "th", "of", "the", "on", "in", "day"))

_SMALL_NUMBERS = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = dict(zip(word_list("twenty thirty forty fifty sixty seventy eighty ninety"), range(20, 100, 10), strict=True))
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_UNITS = (
    "m metre meter|km kilometre kilometer|cm centimetre centimeter|mm millimetre millimeter|mi mile|ft foot feet|"
    "inch inche|g gram gramme|kg kilogram kilo|lb pound|s sec second|min minute|h hr hour|day|week|month|year yr|"
    "l litre liter|ml millilitre milliliter|°c celsius|°f fahrenheit|kelvin|% percent"
)  # in lower case and without a plural s; each unit begins with the spelling that `Amount.unit` has
_UNIT_OF = {word: words.split()[0] for words in _UNITS.split("|") for word in words.split()}
_SPELLED = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_SMALL_NUMBERS[1:10])}))?|({'|'.join(_SMALL_NUMBERS)}))\b",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?<!\d\s)\b(?:minus|negative)\s+(?=\d)", re.IGNORECASE)
_BEHIND = re.compile(rf"(?:\s*({'|'.join(_SCALES)})\b)?[\s-]*((?:degrees?\s+|°\s*)?[^\W\d_]+|%|°|)", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"^\W*(?:\w+\W+){0,2}?(?:or|to)\W+(?:\w+\W+)?$|^\s*-\s*$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\W*$", re.IGNORECASE)
_DENIAL = re.compile(r"\b(?:not|n't|never|isnt|rather than|instead of)\s+(?:\w+\s+)?$", re.IGNORECASE)

_TEXT_WORDS = 3
"""Minimum number of content words of a reference that counts as a text, not a name."""


def says(question: str, references: Sequence[str], answer: str) -> bool:
    """Return whether an answer gives any of the references."""
    question, answer = shortened(question), shortened(answer)
    return any(_says(question, shortened(reference), answer) for reference in references)


def _says(question: str, reference: str, answer: str) -> bool:
    if same_text(reference, answer):
        return True
    polarity = _POLARITY.get(normalise_text(reference))
    if polarity is not None:
        return _polarity(answer) is polarity
    amount = whole_amount(question, reference)
    if amount is not None:
        return states(question, amount, answer)
    if _unspaced(reference):
        return "".join(normalise_text(reference).split()) in "".join(normalise_text(answer).split())
    date = _date_words(reference)
    kinds = {word[0] if word[0] == "#" else word.isdecimal() for word in date if word not in _IN_DATES}
    if kinds == {"#", True}:  # a month with a day, a year or both
        return {*date} - _IN_DATES <= {*_date_words(answer)}
    if mentioned(question, reference, answer):
        return True
    items = _items(reference)
    if items:
        return all(mentioned(question, item, answer, listed=True) for item in dict.fromkeys(items))
    return _covers(reference, answer)


def _polarity(answer: str) -> bool | None:
    """Return True if an answer to a yes-or-no question means yes, False if no, None for one like "I do not know"."""
    words = read_words(answer)
    for place, word in enumerate(words):
        begins = not place or words[place - 1].after or words[place - 1].text in CONJUNCTIONS
        if word.text in _POLARITY and (begins or word.text != "no"):
            return _POLARITY[word.text] != any(earlier.text in ("not", "isnt") for earlier in words[:place])
    if not words or _DOUBT.search(answer):
        return None
    return not any(denied(words, place, place + 1) for place in range(len(words)))


def _unspaced(text: str) -> bool:
    """Return whether a text is in a script without spaces between words."""
    scripts = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER")
    return any(unicodedata.name(letter, "").startswith(scripts) for letter in text)


def _items(reference: str) -> list[str]:
    """Return the items of a reference that is a list of items of at most three words; empty for any other reference."""
    members = [item.strip() for item in re.split(r"[,;]\s*(?:and\s+)?|\s(?:and|&)\s", reference) if item.strip()]
    joined = re.search(r"\s(?:and|&)\s|;", reference) is not None
    if len(members) < (2 if joined else 3) or any(len(member.split()) > 3 for member in members):
        return []
    return members


def _covers(reference: str, answer: str) -> bool:
    """Return whether an answer has 4/5 of the content words of a long text, and both or neither have a negation."""
    words, others = read_words(reference), read_words(answer)
    content = {word.text for word in words} - FUNCTION_WORDS
    if len(content) < _TEXT_WORDS or all(word.capital for word in words if word.text not in FUNCTION_WORDS):
        return False
    shared = content & {word.text for word in others}
    return 5 * len(shared) >= 4 * len(content) and _denies(words) is _denies(others)


def _denies(words: Sequence[Word]) -> bool:
    return any(word.text in DENIALS - {"than", "without", "except", "unlike"} or word.text == "no" for word in words)


def _date_words(text: str) -> list[str]:
    """Return words and numbers of a text, with "#7" for July: "4th of July" gives 4, th, of, #7."""
    spelled = _ISO_DATE.sub(lambda date: f"{date[1]} {_MONTH_NAMES[int(date[2]) - 1]} {date[3]}", text.lower())
    words = re.findall(r"[^\W\d_]+|\d+", spelled)
    return [str(int(word)) if word.isdecimal() else _MONTHS.get(word, word) for word in words]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a text from `in_figures`; the unit may be "". `start` and `end` do not include the unit."""

    value: Fraction
    decimals: int
    unit: str
    start: int
    end: int


def in_figures(text: str, *, ones: bool = False) -> str:
    """Return a text with figures for English number words below 100, and for "one" only with `ones`.

    >>> in_figures("Twenty-one is one of three numbers.")
    '21 is one of 3 numbers.'
    """

    def figure(match: re.Match[str]) -> str:
        tens, ones_digit, small = (part.lower() if part else "" for part in match.groups())
        if small == "one" and not ones:
            return match[0]
        return str(_TENS.get(tens, 0) + (_SMALL_NUMBERS.index(ones_digit or small) if ones_digit or small else 0))

    return _MINUS.sub("-", _SPELLED.sub(figure, DASHES.sub("-", text)))


def read_amounts(text: str) -> list[Amount]:
    """Return the amounts of a text in figures, in order."""
    amounts = []
    for match in NUMBER.finditer(text):
        value = number_value(match)
        behind = _BEHIND.match(text, match.end())
        if value is None or behind is None:
            continue  # the number is too long, or divides by zero
        if re.match(r"\.\d", text[match.end() :]) or re.search(r"\d\.$", _before(text, match.start())):
            continue  # part of "2.0.1"
        scale = (behind[1] or "").lower()
        noun = re.sub(r"^(?:degrees?\s+|°\s*)(?=\S)", "", " ".join(behind[2].lower().split()))
        unit = _UNIT_OF.get(_singular({"c": "°c", "f": "°f"}.get(noun, noun)), "")
        end = behind.end(1) if scale else match.end()
        decimals = len((match["decimals"] or ".")[1:])
        amounts.append(Amount(value * _SCALES.get(scale, 1), decimals, unit, match.start(), end))
    return amounts


def _singular(noun: str) -> str:
    if noun in _UNIT_OF:
        return noun
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith("ss") else noun


def whole_amount(question: str, reference: str) -> Amount | None:
    """Return the amount of a reference that begins with a number and has no other number; else None.

    If words follow the number, the first must be a unit, or all must occur in the question.

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
    """Return whether an answer states an amount, without alternatives.

    Numbers of the question, denied numbers, and numbers with another unit do not count. Of the remaining numbers, the
    first after the last "=" must be the amount. If no number follows a "=", the amount must be the first or the last.
    """
    text = in_figures(answer, ones=reference.value == 1)
    in_question = {amount.value for amount in read_amounts(in_figures(question))} - {reference.value}
    amounts = [
        amount
        for amount in read_amounts(text)
        if amount.value not in in_question
        and not _DENIAL.search(_before(text, amount.start))
        and not (reference.unit and amount.unit not in ("", reference.unit))
    ]
    results = [amount for amount in amounts if amount.start > text.rfind("=") > -1]
    if not amounts or _has_alternatives(results or amounts, text):
        return False
    left = results[:1] or amounts
    ends = (left[0].value, left[-1].value)
    rounded = (round(value, reference.decimals) for value in ends if reference.decimals > 0)
    return reference.value in (*ends, *rounded)


def _has_alternatives(amounts: Sequence[Amount], text: str) -> bool:
    """Return whether two successive amounts are alternatives or the ends of a range."""
    for one, other in pairwise(amounts):
        between = text[one.end : other.start]
        span = _BETWEEN.search(_before(text, one.start)) and re.search(r"\band\W*$", between)
        if one.value != other.value and (span or _ALTERNATIVES.match(between)):
            return True
    return False


def _before(text: str, place: int) -> str:
    """Return up to 40 characters before an index."""
    return text[max(place - 40, 0) : place]
