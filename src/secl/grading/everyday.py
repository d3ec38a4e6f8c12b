"""The everyday rule ("auto"): whether a sentence gives the right answer, as a person who reads it would say.

The first of these that fits the reference decides:

    the texts are equal (`same_text`)
    yes or no       the answer begins with the same word, or is a statement that says so
    an amount       the answer states it and no other (`secl.grading.amounts`)
    a date          the answer has its day, month and year, as far as it goes, in any order
    several items   all of them are mentioned, in any order
    a name, words   the answer mentions it as whole words: not denied ("not Paris but Lyon"), not among others to choose
                    from ("Paris or Lyon"), not within another name ("Paris Hilton"); of a person the last name will do
    a long text     the answer has at least four fifths of its words, and denies what it denies

It reads no meaning: a wrong sentence that mentions the right answer can pass, and another wording of it can fail.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from secl.grading.amounts import states, whole_amount
from secl.grading.names import mentioned
from secl.grading.texts import normalise_text, same_text, shortened
from secl.grading.vocabulary import CONJUNCTIONS, DENIALS, FUNCTION_WORDS, MONTHS
from secl.grading.words import Word, denied, read_words

_POLARITY = {"yes": True, "true": True, "correct": True, "no": False, "false": False, "incorrect": False}
_DOUBT = re.compile(
    r"\b(?:not|n't|cannot|can't|don't)\s+(?:know|sure|certain|say|answer|tell)\b|\b(?:depends|maybe|perhaps|possibly|unclear|unknown)\b",
    re.IGNORECASE,
)
_MONTHS = {name: f"#{n}" for n, month in enumerate(MONTHS, 1) for name in (month, month[:3])} | {"sept": "#9"}
_ISO_DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(\d{2})\b")
_IN_DATES = frozenset(("st", "nd", "rd", "th", "of", "the", "on", "in", "day"))

_LONG = 3
"""Words that name something, from which on a reference is taken for a text and not for a name."""


def says(question: str, references: Sequence[str], answer: str) -> bool:
    """Whether an answer gives any of the references; words of the question do not count. Long texts are `shortened`.

    >>> says("What is 7 times 8?", ["56"], "7 * 8 = 56"), says("What is 7 times 8?", ["56"], "56 or 57")
    (True, False)
    >>> says("Who wrote Faust?", ["Goethe"], "Faust was written by Johann Wolfgang von Goethe.")
    True
    >>> says("Which city is it?", ["Paris"], "It is not Paris but Lyon.")
    False
    """
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
    if _is_date(date):
        return {*date} - _IN_DATES <= {*_date_words(answer)}
    if mentioned(question, reference, answer):
        return True
    items = _items(reference)
    if items:
        return all(mentioned(question, item, answer, listed=True) for item in dict.fromkeys(items))
    return _covers(reference, answer)


def _polarity(answer: str) -> bool | None:
    """What an answer says to a question of yes or no; None if it says that it does not know."""
    words = read_words(answer)
    for place, word in enumerate(words):
        begins = not place or words[place - 1].after or words[place - 1].text in CONJUNCTIONS
        if word.text in _POLARITY and (begins or word.text != "no"):
            before = words[:place]
            return _POLARITY[word.text] != any(each.text in ("not", "isnt") for each in before)
    if not words or _DOUBT.search(answer):
        return None
    return not any(denied(words, place, place + 1) for place in range(len(words)))


def _unspaced(text: str) -> bool:
    """Whether a text is of a script that puts no spaces between words."""
    return any(
        unicodedata.name(letter, "").startswith(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER"))
        for letter in text
    )


def _items(reference: str) -> list[str]:
    """The members of a reference that lists several things, each of three words at most; else nothing.

    >>> _items("red, yellow and blue"), _items("Washington, D.C."), _items("Johann Wolfgang von Goethe")
    (['red', 'yellow', 'blue'], [], [])
    """
    members = [item.strip() for item in re.split(r"[,;]\s*(?:and\s+)?|\s(?:and|&)\s", reference) if item.strip()]
    joined = re.search(r"\s(?:and|&)\s|;", reference) is not None
    if len(members) < (2 if joined else 3) or any(len(member.split()) > 3 for member in members):
        return []
    return members


def _covers(reference: str, answer: str) -> bool:
    """Whether an answer has four fifths of the words of a text, and a denial exactly where the text has one."""
    words, others = read_words(reference), read_words(answer)
    content = {word.text for word in words} - FUNCTION_WORDS
    if len(content) < _LONG or all(word.capital for word in words if word.text not in FUNCTION_WORDS):
        return False
    shared = content & {word.text for word in others}
    return 5 * len(shared) >= 4 * len(content) and _denies(words) is _denies(others)


def _denies(words: Sequence[Word]) -> bool:
    return any(word.text in DENIALS - {"than", "without", "except", "unlike"} or word.text == "no" for word in words)


def _date_words(text: str) -> list[str]:
    """The words and numbers of a text, a month as "#" and its number.

    >>> _date_words("On the 4th of July, 1776"), _date_words("1776-07-04")
    (['on', 'the', '4', 'th', 'of', '#7', '1776'], ['1776', '#7', '4'])
    """
    spelled = _ISO_DATE.sub(lambda match: f"{match[1]} {MONTHS[int(match[2]) - 1]} {match[3]}", text.lower())
    words = re.findall(r"[^\W\d_]+|\d+", spelled)
    return [str(int(word)) if word.isdecimal() else _MONTHS.get(word, word) for word in words]


def _is_date(words: Sequence[str]) -> bool:
    """Whether words are a month with a day, a year or both."""
    kinds = {word[0] if word[0] == "#" else word.isdecimal() for word in words if word not in _IN_DATES}
    return kinds == {"#", True}
