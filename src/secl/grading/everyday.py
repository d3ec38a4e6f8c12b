"""The everyday rule ("auto"): whether a sentence gives the right answer, as a person who reads it would say.

The first of these that fits the reference decides:

    the texts are equal (`same_text`)
    yes or no       the answer begins with the same word, or is a statement that says so
    an amount       the answer states it and no other (`secl.grading.amounts`)
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
from secl.grading.texts import normalise_text, same_text
from secl.grading.vocabulary import CONJUNCTIONS, DENIALS, FUNCTION_WORDS, MONTHS
from secl.grading.words import Word, denied, read_words

_POLARITY = {"yes": True, "true": True, "correct": True, "no": False, "false": False, "incorrect": False}
_DOUBT = re.compile(
    r"\b(?:not|n't|cannot|can't|don't)\s+(?:know|sure|certain|say|answer|tell)\b|\b(?:depends|maybe|perhaps|possibly|unclear|unknown)\b",
    re.IGNORECASE,
)
_MONTH = rf"({'|'.join(MONTHS)}|{'|'.join(month[:3] for month in MONTHS)}|sept)\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(\d{4}))?(?!\d)"
_DAY_FIRST = re.compile(rf"\b(?:the\s+)?{_DAY}(?:\s+day)?(?:\s+of)?\s+{_MONTH}\b{_YEAR}", re.IGNORECASE)
_MONTH_ALONE = re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?(\d{{4}})(?!\d)", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}\b{_YEAR}", re.IGNORECASE)

LONGEST = 4000
"""Characters of an answer that are read."""

_LONG = 3
"""Words that name something, from which on a reference is taken for a text and not for a name."""


def says(question: str, references: Sequence[str], answer: str) -> bool:
    """Whether an answer gives any of the references. What the question mentions itself is no news, and of a long text
    the beginning and the end are read.

    >>> says("What is 7 times 8?", ["56"], "7 * 8 = 56"), says("What is 7 times 8?", ["56"], "56 or 57")
    (True, False)
    >>> says("Who wrote Faust?", ["Goethe"], "Faust was written by Johann Wolfgang von Goethe.")
    True
    >>> says("Which city is it?", ["Paris"], "It is not Paris but Lyon.")
    False
    """
    if len(answer) > LONGEST:
        answer = f"{answer[: LONGEST // 2]}\n{answer[-LONGEST // 2 :]}"
    return any(_says(question, reference, answer) for reference in references)


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
    asked_text, reference, answer = (_spell_dates(text) for text in (question, reference, answer))
    if mentioned(asked_text, reference, answer):
        return True
    items = _items(reference)
    if items:
        return all(mentioned(asked_text, item, answer, listed=True) for item in items)
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
    members = [item.strip() for item in re.split(r"\s*[,;]\s*(?:and\s+)?|\s+(?:and|&)\s+", reference) if item.strip()]
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


def _spell_dates(text: str) -> str:
    """A text with its dates as YEAR/MONTH/DAY, as far as they go.

    >>> _spell_dates("On the 4th of July, 1776"), _spell_dates("July 4, 1776."), _spell_dates("1776-07-04")
    ('On 1776/7/4', '1776/7/4.', '1776/7/4')
    >>> _spell_dates("May 5"), _spell_dates("in May 1776")
    ('5/5', 'in 1776/5')
    """
    text = re.sub(r"\b(\d{4})-(\d{2})-(\d{2})\b", lambda match: _date(match[1], match[2], match[3]), text)
    text = _DAY_FIRST.sub(lambda match: _date(match[3], str(_month(match[2])), match[1]), text)
    text = _MONTH_FIRST.sub(lambda match: _date(match[3], str(_month(match[1])), match[2]), text)
    return _MONTH_ALONE.sub(lambda match: _date(match[2], str(_month(match[1]))), text)


def _month(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name.lower()[:3]))


def _date(*parts: str | None) -> str:
    return "/".join(str(int(part)) for part in parts if part)
