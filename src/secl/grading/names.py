"""Mentions: whether an answer names something as its answer, and not only in passing or as a part of another name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from secl.grading.vocabulary import FUNCTION_WORDS, KINDS, OTHER_PLACE, PARTICLES, TITLES
from secl.grading.words import Word, denied, offered, read_words

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
    person = _PERSON.search(question) is not None
    for wanted, first in _ways(reference, person=person):
        for start in range(len(words) - len(wanted) + 1):
            end = start + len(wanted)
            if not all(_same(word, words[start + k], last=start + k == end - 1) for k, word in enumerate(wanted)):
                continue
            if denied(words, start, end) or (not listed and offered(words, start, end)):
                continue
            if _other_name(words, start, end, in_question, person=person, first=first):
                continue
            if not _echo(words, end, in_question, wanted):
                return True
    return False


def _ways(reference: str, *, person: bool) -> Iterator[tuple[Sequence[Word], str | None]]:
    """The words of a reference as people may write it; with a person's last name alone comes the first name."""
    plain = read_words(re.sub(r"(?<=.)\s*\([^)]*\)", "", reference))
    for words in dict.fromkeys((read_words(reference), plain, tuple(word for word in plain if word.text not in KINDS))):
        if words:
            yield words, None
    names = [word for word in plain if word.text not in PARTICLES]
    if person and 2 <= len(names) <= 4 and all(word.capital for word in names):
        last = names[-1]
        if len(last.text) > 2 and not re.fullmatch("[IVX]+|Jr|Sr", last.written):
            yield [last], names[0].text


def _same(wanted: Word, word: Word, *, last: bool) -> bool:
    """Whether two words are equal; the last word of a name may be in the plural, and symbols keep their case."""
    one, other = wanted.text, word.text
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
    words: Sequence[Word], start: int, end: int, in_question: Sequence[str], *, person: bool, first: str | None
) -> bool:
    """Whether the mention is a part of another name; a person may have further last names.

    Args:
        words: of the answer.
        start, end: place of the mention.
        in_question: words of the question, which belong to no name.
        person: whether a person is asked for.
        first: first name of the person whose last name is mentioned; None where all is.
    """
    before = words[start - 1] if start and not words[start - 1].after else None
    if before is not None and before.capital and before.text in OTHER_PLACE and words[start].capital:
        return True
    if first is not None:
        names = _names_before(words, start, FUNCTION_WORDS | TITLES | {*in_question})
        if names and first not in names:
            return True
    behind = words[end] if end < len(words) and not words[end - 1].after else None
    if behind is None or not behind.capital or not words[end - 1].capital or (person and first is None):
        return False
    abbreviation = behind.written.isupper() and len(behind.written) <= 3  # Washington DC
    return behind.text not in FUNCTION_WORDS | KINDS | {*in_question} and not abbreviation


def _names_before(words: Sequence[Word], start: int, usual: Collection[str]) -> list[str]:
    """The names directly before a place: words with a capital letter that are not usual, and particles."""
    names = []
    for word in reversed(words[:start]):
        if word.after or word.text in usual or not (word.capital or word.text in PARTICLES):
            break
        names.append(word.text)
    return [name for name in names if name not in PARTICLES]


def _echo(words: Sequence[Word], end: int, in_question: Sequence[str], wanted: Sequence[Word]) -> bool:
    """Whether the mention only repeats the question: what is asked for stands at the end of a clause or alone."""
    texts = [word.text for word in wanted]
    repeated = any(in_question[place : place + len(texts)] == texts for place in range(len(in_question)))
    if not repeated or "or" in in_question:
        return False
    return end < len(words) and not words[end - 1].after
