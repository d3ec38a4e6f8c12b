"""Normalisation and equality of short answers."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from secl.grading.numbers import (
    DASHES,
    Amount,
    in_ascii,
    in_figures,
    parse_number,
    read_numbers,
    same_number,
    whole_number,
)
from secl.grading.units import agree, may_be_left_out, read_unit
from secl.question import Form

LONGEST_TEXT = 4000
"""Maximum number of characters of a text that the everyday rule reads."""

_COMBINING_MARKS = re.compile("[\u0300-\u0337\u0339-\u036f]")
"""Accents; the stroke U+0338 is none, because "≠" is not "="."""

_CHARGE = re.compile(r"\^\{(\d?[+-])\}")
_PRIME = re.compile(r"(?<![\w'’‘\"])([A-Za-z]|\d+)['’′](?!\w)")
_LEADING_MINUS = re.compile(r"^\s*[-\u2212](?=[A-Za-z]{1,2}(?![A-Za-z])|\\)")
_TRAILING_MINUS = re.compile(r"(?<!\w)((?:[A-Z][a-z]?\d*|\))+)[-\u2212](?![\w-])")
_RELATION = re.compile(r"\s*([=≠<>≤≥≈∈∉]+)\s*")
_RELATIONS = {
    "!=": "≠",
    "=/=": "≠",
    "<>": "≠",
    r"\neq": "≠",
    r"\ne": "≠",
    "<=": "≤",
    r"\leq": "≤",
    ">=": "≥",
    r"\geq": "≥",
}
_SPELLED_RELATION = re.compile(r"!=|=/=|<>|<=(?!>)|>=|\\(?:neq?|leq|geq)\b")
_RANGE = re.compile(
    r"(?<![\w.,/:-])(?:(?:from|von|de)\s+)?(\d[\d.,]*)(?:\s+(?:to|until|till|through|bis|à)\s+|\s?[\u2010-\u2015-]\s?(?=\d{4}(?!\d|\s*=))"
    r"|(?<=\b[12]\d{3})[\u2010-\u2015-](?=\d\d(?!\d)))"
    r"(\d[\d.,]*)(?![\w/:-])|(?<![\w.,/:-])between\s+(\d[\d.,]*)\s+and\s+(\d[\d.,]*)(?![\w/:-])",
    re.IGNORECASE,
)
_PAIRS = re.compile(r"\s*(?:([A-Za-z])\1\s*)+", re.IGNORECASE)
"""Pairs of a letter, as in the genotypes Rr and rr, whose case counts."""

_VERSIONED = re.compile(
    r"\b(?:versions?|releases?|firmware|kernel|sections?|chapters?|clauses?|fassung|abschnitt|kapitel|version|python|java|"
    r"php|ruby|node|django|numpy|pandas|pytorch|tensorflow|cuda|ubuntu|debian|fedora|android|ios|macos)\b|§",
    re.IGNORECASE,
)


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


def same_text(one: str, other: str, question: str = "", passage: str = "") -> bool:
    """Return whether two short texts are equal once normalised, or are equal numbers without different units.

    A currency or percent sign may be left out. Question and passage tell whether "1.234" is a large number, and the
    question whether 3.10 is a version, not a number.

    >>> same_text("1.234,50 €", "1,234.5"), same_text("5 mW", "5 MW"), same_text("3.1", "3.10", "Which version?")
    (True, False, False)
    >>> same_text("The Nile", "nile"), same_text("Vitamin A", "vitamin"), same_text("7 apples", "7")
    (True, False, False)
    """
    if is_version(question, one) or is_version(question, other):
        return _version(one) == _version(other)
    context = f"{question}\n{passage}"
    first, second = whole_number(one, context), whole_number(other, context)
    if first and second:
        return _equal(first, second)
    if _PAIRS.fullmatch(one) and _PAIRS.fullmatch(other):
        return one.split() == other.split()
    units = read_unit(one.strip()), read_unit(other.strip())
    if len(one.strip()) > 1 and all(units) and not agree(*units):
        return False
    return normalise_text(one) == normalise_text(other)


def contains(part: str, text: str, question: str = "") -> bool:
    """Return whether a text contains `part` as whole words once both are normalised, or has the number `part`."""
    if f" {normalise_text(part)} " in f" {normalise_text(text)} ":
        return True
    number = None if is_version(question, part) else whole_number(part, question)
    return number is not None and any(_equal(number, other) for other in read_numbers(in_figures(text), question))


def _equal(one: Amount, other: Amount) -> bool:
    return same_number(one, other) and (bool(one.unit and other.unit) or may_be_left_out(one.unit or other.unit))


def is_version(question: str, text: str) -> bool:
    """Return whether a text has a number such as 3.10 that is not 3.1: of a version or a section.

    >>> is_version("Which version?", "3.10"), is_version("How long is the section?", "3.10"), is_version("", "v3.10")
    (True, False, True)
    """
    if not re.search(r"\d\.\d", text):
        return False
    return re.search(r"\bv(?:ersion)? ?\d", text, re.IGNORECASE) is not None or (
        _VERSIONED.search(question) is not None and not re.search(r"\bhow\b", question, re.IGNORECASE)
    )


def _version(text: str) -> str:
    """Return a normalised text in which 3.0 is 3."""
    return re.sub(r"(?<=\d)(?:\.0)+(?![\d.])", "", re.sub(r"\bv(?:ersion)?\s?(?=\d)", "", normalise_text(text)))


def with_marks(text: str) -> str:
    """Return a text whose meaning does not depend on marks that normalisation removes.

    Ranges have a hyphen, superscripts a "^", a prime and a final minus have signs of their own, "!=" is "≠".

    >>> with_marks("m² from 3 to 5, A- or p', n!=5"), with_marks("SO₄²⁻") == with_marks("SO₄2-")
    ('m^2 3-5, A˗ or p′, n ≠ 5', True)
    """
    if text.isascii() and text.isalnum():
        return text
    if not text.isascii():
        text = in_ascii(text)
    text = _CHARGE.sub(r"\1", text)
    text = _LEADING_MINUS.sub("˗", text)
    text = _PRIME.sub("\\1′", _TRAILING_MINUS.sub("\\1˗", text))
    text = _SPELLED_RELATION.sub(lambda sign: _RELATIONS[sign[0]], text)
    text = _RELATION.sub(r" \1 ", text)
    return _RANGE.sub(_replace_hyphen, text) if re.search(r"\d.*\d", text) else text


def _replace_hyphen(span: re.Match[str]) -> str:
    first, last = span[1] or span[3], span[2] or span[4]
    short_year = len(first) == 4 and len(last.rstrip(".,")) == 2 and first.isdecimal() and first[2:] < last
    return f"{first}-{first[:2] * short_year}{last}"


def normalise_text(text: str) -> str:
    """Return a short text without case, accents, punctuation, articles and extra spaces.

    The result keeps a minus before a digit, the marks inside a number (3.5, 1/2, 10:30), symbols with meaning ("C++",
    "C#", "A-", "n ≠ 5", "2³"), an article as the last word ("vitamin A"), and a text of punctuation alone. Thousands
    commas are removed, and hyphens become spaces. Normalising twice has no further effect.

    >>> normalise_text("  The Café-Bar, U.S.A.! "), normalise_text("Vitamin A"), normalise_text("-1,200.50")
    ('cafe bar usa', 'vitamin a', '-1200.50')
    """
    # Casefolding may compose characters, hence the second NFKD. NFKC keeps marks that are not accents, such as the mark
    # that distinguishes Japanese ka from ga.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", with_marks(text)).casefold())
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
    if character in "#′" or not unicodedata.category(character).startswith("P"):
        return character
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    if character in ".,/:" and before.isdigit() and after.isdigit():
        return character
    if character == "-" and after.isdigit() and not before.isalnum():
        return character
    return "" if character in ".'\u2019" else " "
