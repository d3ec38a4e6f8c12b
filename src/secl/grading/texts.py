"""Texts compared by what they say: case, accents, punctuation, articles and ways to write a number do not matter."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from secl.grading.numbers import DASHES, only_number, parse_number
from secl.question import Form

LONGEST = 4000
"""Characters of a text that the everyday rule reads."""

_COMBINING_MARKS = re.compile("[\u0300-\u036f]")


@lru_cache(maxsize=32)
def shortened(text: str) -> str:
    r"""Return a text with one space or line break between its words; of a long one, the beginning and the end.

    >>> shortened(" one  \n two\t three "), len(shortened("four " * LONGEST)) <= LONGEST
    ('one\ntwo three', True)
    """
    text = re.sub(r"\s+", lambda space: "\n" if "\n" in space[0] else " ", text.strip())
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}\n{text[1 - half :]}"


def answer_key(answer: str, form: Form) -> object:
    """A key that is equal for two answers exactly when they count as the same answer.

    >>> answer_key("The Nile.", "short") == answer_key("nile", "short"), answer_key("12.0", "number")
    (True, Fraction(12, 1))
    """
    if form == "choice":
        return answer
    number = parse_number(answer) if form == "number" else None
    return normalise_text(answer) if number is None else number


def same_text(one: str, other: str) -> bool:
    """Whether two short texts are equal once normalised, or are the same number and nothing else.

    >>> same_text("The  Eiffel Tower.", "eiffel tower"), same_text("$1,000", "1000.0"), same_text("3.5", "35")
    (True, True, False)
    """
    if normalise_text(one) == normalise_text(other):
        return True
    first, second = only_number(one), only_number(other)
    return first is not None and first == second


def contains(part: str, text: str) -> bool:
    """Whether a text holds another as whole words, both normalised.

    >>> contains("Goethe", "Faust was written by Johann Wolfgang von Goethe."), contains("56", "1956")
    (True, False)
    """
    return f" {normalise_text(part)} " in f" {normalise_text(text)} "


def normalise_text(text: str) -> str:
    """A short text without what does not change its meaning: case, accents, punctuation, articles, extra spaces.

    Kept are a minus before a digit, the marks inside a number (3.5, 1/2, 10:30) and symbols that carry meaning
    ("C++", "C#"); thousands commas are removed, and hyphens become spaces. The last word stays even if it looks
    like an article ("vitamin A"), and a text of nothing but punctuation stays. Normalising twice changes nothing.

    >>> normalise_text("  The Café-Bar, U.S.A.! "), normalise_text("Vitamin A"), normalise_text("-1,200.50")
    ('cafe bar usa', 'vitamin a', '-1200.50')
    """
    # Casefolding may compose characters, so they are decomposed again. Recomposing (NFKC) keeps marks that are not
    # accents: Japanese ka and ga differ by one.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = unicodedata.normalize("NFKC", _COMBINING_MARKS.sub("", plain))
    plain = DASHES.sub("-", plain)
    bare = _without_punctuation(plain)
    while bare != (barer := _without_punctuation(bare)):  # what was removed may have stood between a mark and a digit
        bare = barer
    words = bare.split()
    without_articles = [word for word in words[:-1] if word not in {"a", "an", "the"}] + words[-1:]
    return " ".join(without_articles) or " ".join(plain.split()) or text.strip()


def _without_punctuation(text: str) -> str:
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    return re.sub(r"[^\w\s]|_", lambda mark: _replacement(text, mark.start()), text)


def _replacement(text: str, position: int) -> str:
    """Return what a character that is no letter, digit or space becomes: itself, nothing, or a space."""
    character = text[position]
    if character == "#" or not unicodedata.category(character).startswith("P"):
        return character
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    if character in ".,/:" and before.isdigit() and after.isdigit():
        return character
    if character == "-" and after.isdigit() and not before.isalnum():
        return character
    return "" if character in ".'\u2019" else " "
