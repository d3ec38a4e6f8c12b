"""Mentions: whether an answer names something as its answer, and not only in passing or as a part of another name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from secl.grading.vocabulary import DROPPED_KINDS, FUNCTION_WORDS, KINDS, OTHER_PLACE, PARTICLES, TITLES
from secl.grading.words import Word, denied, offered, read_words

_YEAR_AND_MONTH = re.compile(r"\d{4}/\d{1,2}")
_PLACE = frozenset(("in", "at", "on", "from", "by", "to", "near"))
_PERSON = re.compile(
    r"\b(?:who|whom|whose|author|writer|poet|painter|artist|composer|inventor|scientist|president|person)\b",
    re.IGNORECASE,
)


def mentioned(question: str, reference: str, answer: str, *, listed: bool = False) -> bool:
    """Whether an answer mentions a reference, a name or a few words, as what it answers; `listed` as one of several.

    >>> mentioned("Who was first?", "Neil Armstrong", "The first man was Armstrong.")
    True
    >>> mentioned("Who was first?", "Neil Armstrong", "Louis Armstrong"), mentioned("Where?", "Paris", "Paris Hilton")
    (False, False)
    """
    in_question = [word.text for word in read_words(question)]
    words = read_words(answer)
    for wanted, surname in _variants(question, reference):
        for start, end in _places(wanted, words, gaps=len(wanted) > 1 and _PERSON.search(question) is not None):
            if denied(words, start, end) or (not listed and offered(words, start, end)):
                continue
            person = _PERSON.search(question) is not None
            if _other_name(words, start, end, in_question, person=person, surname=surname) or _echo(
                words, end, in_question, wanted
            ):
                continue
            return True
    return False


def _variants(question: str, reference: str) -> Iterator[tuple[list[Word], bool]]:
    """The words of a reference as people may write it, and whether that is a last name alone."""
    plain = re.sub(r"\s*\([^)]*\)", "", reference) if not reference.startswith("(") else reference
    for text in dict.fromkeys((reference, plain)):
        if words := read_words(text):
            yield words, False
    words = read_words(plain)
    if len(words) > 1 and words[0].text in _PLACE:
        yield words[1:], False
    fewer = [word for word in words if word.text not in DROPPED_KINDS]
    if 0 < len(fewer) < len(words):
        yield fewer, False
    names = [word for word in words if word.text not in PARTICLES]
    if not 2 <= len(names) <= 4 or not all(word.capital for word in names) or not _PERSON.search(question):
        return
    last = names[-1]
    if len(names) > 2:
        yield [names[0], last], False
    if len(last.text) > 2 and not re.fullmatch("[IVX]+|Jr|Sr", last.written):
        yield [last], True


def _places(wanted: Sequence[Word], words: Sequence[Word], *, gaps: bool) -> Iterator[tuple[int, int]]:
    """Where an answer has the wanted words next to each other; with `gaps` middle names may stand between."""
    for start in range(len(words)):
        end = start
        for number, word in enumerate(wanted):
            while (
                gaps
                and 0 < end - start < len(wanted) + 2
                and end < len(words)
                and not _same(word, words[end], last=number == len(wanted) - 1)
                and (words[end].capital or words[end].text in PARTICLES)
                and not words[end - 1].after
            ):
                end += 1
            if end >= len(words) or not _same(word, words[end], last=number == len(wanted) - 1):
                break
            end += 1
        else:
            yield start, end


def _same(wanted: Word, word: Word, *, last: bool) -> bool:
    """Whether two words are equal; the last word of a name may be in the plural, and symbols keep their case."""
    one, other = wanted.text, word.text
    if _YEAR_AND_MONTH.fullmatch(one) and other.startswith(f"{one}/"):
        return True  # a day of that month
    if one == other:
        if len(one) > 2 or not any(map(str.isupper, wanted.written)):
            return True
        return wanted.written.replace(".", "") == word.written.replace(".", "")
    if not last or min(len(one), len(other)) < 4 or not one.isalpha():
        return False
    pairs = ((one, other), (other, one))
    if any(short.endswith("y") and short[:-1] + "ies" == long for short, long in pairs):
        return True
    return any(short + end == long for short, long in pairs for end in ("s", "es"))


def _other_name(
    words: Sequence[Word], start: int, end: int, in_question: Sequence[str], *, person: bool, surname: bool
) -> bool:
    """Whether the mention is a part of another name; a person may have further last names."""
    before = words[start - 1] if start and not words[start - 1].after else None
    behind = words[end] if end < len(words) and not words[end - 1].after else None
    if before is not None and before.capital:
        if before.text in OTHER_PLACE and words[start].capital:
            return True
        usual = FUNCTION_WORDS | TITLES | {*in_question}
        if surname and before.text not in usual:
            return True
    if behind is None or not behind.capital or not words[end - 1].capital or (person and not surname):
        return False
    abbreviation = behind.written.isupper() and len(behind.written) <= 3  # Washington DC
    return behind.text not in FUNCTION_WORDS | KINDS | {*in_question} and not abbreviation


def _echo(words: Sequence[Word], end: int, in_question: Sequence[str], wanted: Sequence[Word]) -> bool:
    """Whether the mention only repeats the question: what is asked for stands at the end of a clause or alone."""
    texts = [word.text for word in wanted]
    repeated = any(in_question[place : place + len(texts)] == texts for place in range(len(in_question)))
    if not repeated or "or" in in_question:
        return False
    return end < len(words) and not words[end - 1].after
