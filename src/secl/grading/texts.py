"""Normalisation of short answers as texts and as numbers."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from secl.question import Form

LONGEST_TEXT = 4000
"""Maximum number of characters of a text that the everyday rule reads."""

DASHES = re.compile("[\u2010-\u2015\u2212\ufe63\uff0d]")
"""Characters that stand for a hyphen or a minus."""

NUMBER = re.compile(
    r"""(?P<minus>(?<![\w.])-)?                  # a minus that is not a hyphen or a range
        (?:(?:US)?[$€£¥]\s?)?                    # a currency
        (?<!\w)                                  # no letter before the number: the 2 of H2O is not a number
        (?:(?P<whole>\d+)[ ]+(?=\d+/\d))?         # the 1 of "1 1/2"
        (?P<digits>\d{1,3}(?:,\d{3})+(?!\d)|\d+|(?=\.\d))
        (?P<decimals>\.\d+)?
        (?P<exponent>[eE][+-]?\d{1,3}(?!\w))?
        (?:/(?P<below>\d+))?""",
    re.VERBOSE,
)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_ANSWER_MARK = re.compile(r"answer(?:\s+is\b|\s*:)\s*:?", re.IGNORECASE)
_COMBINING_MARKS = re.compile("[\u0300-\u036f]")


@lru_cache(maxsize=32)
def shortened(text: str) -> str:
    r"""Return a text with each run of white space shortened to one space, or to one line break if the run has one.

    Of a long text, only the beginning and the end stay.

    >>> shortened(" one  \n two\t three "), len(shortened("four " * LONGEST_TEXT)) <= LONGEST_TEXT
    ('one\ntwo three', True)
    """
    text = re.sub(r"\s+", lambda space: "\n" if "\n" in space[0] else " ", text.strip())
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]}\n{text[1 - half :]}"


def answer_key(answer: str, form: Form) -> object:
    """Return a key for grouping answers of one form: two answers with equal keys count as the same.

    >>> answer_key("The Nile.", "short") == answer_key("nile", "short"), answer_key("12.0", "number")
    (True, Fraction(12, 1))
    """
    if form == "choice":
        return answer
    number = parse_number(answer) if form == "number" else None
    return normalise_text(answer) if number is None else number


def same_text(one: str, other: str) -> bool:
    """Return whether two short texts are equal once normalised, or are two equal numbers."""
    if normalise_text(one) == normalise_text(other):
        return True
    first, second = only_number(one), only_number(other)
    return first is not None and first == second


def contains(part: str, text: str) -> bool:
    """Return whether the normalised text contains the normalised `part` as whole words."""
    return f" {normalise_text(part)} " in f" {normalise_text(text)} "


def normalise_text(text: str) -> str:
    """Return a short text without case, accents, punctuation, articles and extra spaces.

    The result keeps a minus before a digit, the marks inside a number (3.5, 1/2, 10:30), symbols with meaning ("C++",
    "C#"), an article as the last word ("vitamin A"), and a text of punctuation alone. Thousands commas are removed, and
    hyphens become spaces. Normalising twice has no further effect.

    >>> normalise_text("  The Café-Bar, U.S.A.! "), normalise_text("Vitamin A"), normalise_text("-1,200.50")
    ('cafe bar usa', 'vitamin a', '-1200.50')
    """
    # Casefolding may compose characters, hence the second NFKD. NFKC keeps marks that are not accents, such as the mark
    # that distinguishes Japanese ka from ga.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = unicodedata.normalize("NFKC", _COMBINING_MARKS.sub("", plain))
    plain = DASHES.sub("-", plain)
    bare = _without_punctuation(plain)
    # Removing a mark can bring another mark next to a digit, so repeat until the text stays the same.
    while bare != (barer := _without_punctuation(bare)):
        bare = barer
    words = bare.split()
    without_articles = [word for word in words[:-1] if word not in {"a", "an", "the"}] + words[-1:]
    return " ".join(without_articles) or " ".join(plain.split()) or text.strip()


def _without_punctuation(text: str) -> str:
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    return re.sub(r"[^\w\s]|_", lambda mark: _replacement(text, mark.start()), text)


def _replacement(text: str, position: int) -> str:
    """Return the replacement of a punctuation mark or symbol: itself, nothing, or a space."""
    character = text[position]
    if character == "#" or not unicodedata.category(character).startswith("P"):
        return character
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    if character in ".,/:" and before.isdigit() and after.isdigit():
        return character
    if character == "-" and after.isdigit() and not before.isalnum():
        return character
    return "" if character in ".'\u2019" else " "


@lru_cache(maxsize=32)  # comparisons of answers read the same answer many times
def parse_number(text: str) -> Fraction | None:
    """Return the exact final number of a text; None without a number.

    In order of preference: the first number after the last "####" (GSM8K); the first number between the last "Answer:"
    or "answer is" and the end of its line (if a "=" follows, after the last "="); the last number of the text.
    Thousands commas, currency signs, units and trailing periods are ignored ("50%" is 50). Fractions, mixed numbers
    and exponents are read. A division by zero is not a number.
    """
    text = _LATEX_FRACTION.sub(r"\1/\2", DASHES.sub("-", text))
    behind_hashes = text.rpartition("####")
    if behind_hashes[1] and (numbers := _numbers(_first_line(behind_hashes[2]))):
        return numbers[0]
    marks = list(_ANSWER_MARK.finditer(text))
    if marks and (numbers := _numbers(_first_line(text[marks[-1].end() :]).rpartition("=")[2])):
        return numbers[0]
    numbers = _numbers(text)
    return numbers[-1] if numbers else None


def write_number(value: Fraction) -> str:
    """Return a number as text: whole, decimal if exact, else a fraction.

    >>> write_number(Fraction(12)), write_number(Fraction(5, 2)), write_number(Fraction(1, 3))
    ('12', '2.5', '1/3')
    >>> write_number(Fraction(10**30 + 1, 2))
    '500000000000000000000000000000.5'
    """
    twos_and_fives = value.denominator
    for factor in (2, 5):
        while twos_and_fives % factor == 0:
            twos_and_fives //= factor
    if twos_and_fives > 1:
        return str(value)
    with localcontext() as context:
        # A number has no more digits than bits, nor more decimals than its denominator has bits.
        context.prec = value.numerator.bit_length() + value.denominator.bit_length()
        return format(Decimal(value.numerator) / Decimal(value.denominator), "f")


def _first_line(text: str) -> str:
    lines = text.strip(" \t\r\n*").splitlines()
    return lines[0] if lines else ""


def _numbers(text: str) -> list[Fraction]:
    return [number for match in NUMBER.finditer(text) if (number := number_value(match)) is not None]


def only_number(text: str) -> Fraction | None:
    """Return the value of a text that is only a number, with optional currency, percent sign and period; else None."""
    match = NUMBER.fullmatch(DASHES.sub("-", text).strip().rstrip(".% "))
    return number_value(match) if match else None


def number_value(match: re.Match[str]) -> Fraction | None:
    digits, decimals, exponent = (match[name] or "" for name in ("digits", "decimals", "exponent"))
    if len(digits) + len(decimals) > 1000:
        return None  # Python refuses numbers with thousands of digits
    value = Fraction(f"{digits.replace(',', '') or '0'}{decimals}{exponent}")
    if match["below"]:
        if not int(match["below"][:1000]):
            return None
        value = value / int(match["below"][:1000]) + int((match["whole"] or "0")[:1000])
    return -value if match["minus"] else value
