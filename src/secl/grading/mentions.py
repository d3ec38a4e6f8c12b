"""Mentions: whether an English answer gives a name or words as its answer.

A mention does not count if it is denied ("not Paris but Lyon"), an alternative ("Paris or Lyon"), or part of another
name ("Paris Hilton").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from secl.grading.texts import normalise_text
from secl.grading.units import agree, read_unit


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


FUNCTION_WORDS = word_set(
    "a an the is was are were be been it its he she they in on at of to from by for with and or but as that this "
    "which who has have had does do did can will would also not no so than then there"
)
"""Words without content; a capital letter does not make them names."""

DENIALS = word_set(
    "not never neither nor cannot cant isnt wasnt arent werent doesnt dont didnt wont hasnt unlike except without "
    "than against non nicht kein keine keinen keinem keiner niemals pas jamais nunca jamas nao niet geen inte ikke nie "
    "не нет ни ليس ليست لا לא नहीं"
)
"""Words that deny the rest of their clause, in several languages."""

CONJUNCTIONS = word_set(
    "but instead however rather whereas while although because so sondern aber mais sino pero mas ma maar utan ale но "
    "а بل لكن אלא"
)
"""Conjunctions that begin a clause even if no comma stands before them."""

_VERBS = word_set("is was are were does did do has have had can could will would should")
_SPANISH = word_set("es son fue era eran esta estan hay ha e foi sao")  # "no" before one of these denies
_PARTICLES = word_set("von van der den de da di del della du la le bin ibn al")  # in the names of people
_TITLES = word_set(
    "mr mrs ms dr sir lord lady saint st president king queen pope emperor professor captain astronaut author poet "
    "writer painter composer"
)
_KINDS = word_set("river ocean mount lake desert planet mountain")  # "the Nile River" is "the Nile"
_OTHER_PLACE = word_set("new north south east west northern southern eastern western central papua")
_PERSON = re.compile(
    r"\b(?:who|whom|whose|author|writer|poet|painter|artist|composer|inventor|scientist|president|person)\b",
    re.IGNORECASE,
)
_SPELLINGS = {"aluminum": "aluminium", "cesium": "caesium", "sulphur": "sulfur"}
_NO_POSSESSIVES = ("it's", "that's", "it\u2019s", "that\u2019s")
_SPLIT = re.compile(r"(?<=[\w)])[-/\u2010-\u2015](?=[A-Za-z(])|\s+[-\u2010-\u2015]+\s+|\s+|(?<=[,;:!?(])(?=\D)|(?=\()")
_ENDS = re.compile('[,;:.!?)\\]"\u201d\u2014]+$')


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text.

    Attributes:
        text: the normalised word (`secl.grading.texts.normalise_text`); "sulphur" becomes "sulfur".
        written: the word as written, without punctuation around it.
        after: punctuation that follows the word and ends a clause; "(" if a parenthesis follows.
        article: whether an article precedes the word; `read_words` leaves out articles.
        listed: whether the word is in a clause that lists three or more items.
    """

    text: str
    written: str
    after: str = ""
    article: bool = False
    listed: bool = False

    @property
    def capital(self) -> bool:
        """Whether the word begins with a capital letter."""
        return self.written[:1].isupper()


@lru_cache(maxsize=32)  # secl reads the same answer once for each item of a list
def read_words(sentence: str) -> tuple[Word, ...]:
    """Return the words of a sentence.

    >>> [(word.text, word.after) for word in read_words("It's the U.S.A., not Goethe's Faust.")]
    [('its', ''), ('usa', '.,'), ('not', ''), ('goethe', ''), ('faust', '.')]
    """
    words: list[Word] = []
    article = False
    for part in _SPLIT.split(sentence):
        ends = _ENDS.search(part)
        after = ends[0] if ends else ""
        written = part[: len(part) - len(after)].strip("\"'`\u2018\u2019\u201c\u201d*_.,;:([")
        if written.endswith(("'s", "\u2019s")) and written.casefold() not in _NO_POSSESSIVES:
            written = written[:-2]
        if part.startswith("(") and words:
            words[-1] = replace(words[-1], after=words[-1].after + "(")
        if not written:
            if after and words:
                words[-1] = replace(words[-1], after=words[-1].after + after)
            continue
        if written.casefold() in ("a", "an", "the") and not after and (written != "A" or not words):
            article = True
            continue
        initial = after.startswith(".") and len(written) <= 2  # "J. K. Rowling", "St. Louis"
        text = normalise_text(written)
        text = _SPELLINGS.get(text, text)
        words.append(Word(text, written, "" if initial and after == "." else after, article))
        article = False
    return tuple(_with_lists(words))


def _with_lists(words: Sequence[Word]) -> Iterator[Word]:
    """Yield words; `listed` is true in clauses such as "A, B, and C" or "A, B, C, D", whose items are short."""
    parts: list[list[Word]] = [[]]
    for number, word in enumerate(words, start=1):
        parts[-1].append(word)
        if word.after.startswith(","):
            parts.append([])
        if number == len(words) or (word.after and word.after[0] != ","):
            # Other words may precede the first item, so the text before the first comma may have any length.
            inner = [part for part in parts if part][1:]
            short = len(inner) >= 2 and all(len(part) <= 3 and not part[0].article for part in inner)
            listed = short and (len(inner) > 2 or inner[-1][0].text in ("and", "or"))
            yield from (replace(member, listed=listed) for part in parts for member in part)
            parts = [[]]


def denied(words: Sequence[Word], start: int, end: int) -> bool:
    """Return whether a text denies its words from `start` to `end`."""
    begin = start
    while begin > 0 and not words[begin - 1].after and words[begin - 1].text not in CONJUNCTIONS:
        begin -= 1
    clause = words[begin:start]
    if any(
        word.text in DENIALS or (word.text == "no" and (number > 0 or words[begin + 1].text in _SPANISH))
        for number, word in enumerate(clause)
    ):
        return True
    if words[end - 1].after:
        return False
    behind = [word.text for word in words[end : end + 2]]
    return bool(behind) and (
        (behind[0].endswith("nt") and behind[0] in DENIALS)
        or (len(behind) == 2 and behind[0] in _VERBS and behind[1] in ("not", "never"))
    )


def _is_alternative(words: Sequence[Word], start: int, end: int) -> bool:
    """Return whether the words from `start` to `end` are an alternative ("Paris or Lyon") or part of a list."""
    if end < len(words) and not words[end - 1].after and words[end].text == "or":
        return True
    if start > 1 and words[start - 1].text == "or" and not words[start - 2].after:
        return True
    return words[start].listed


def mentioned(question: str, reference: str, answer: str, *, listed: bool = False) -> bool:
    """Return whether an answer gives a reference (a name or words); `listed` accepts alternatives and list items."""
    in_question = [word.text for word in read_words(question)]
    words = read_words(answer)
    person = _PERSON.search(question) is not None
    for wanted, first in _ways(reference, person=person):
        for start in range(len(words) - len(wanted) + 1):
            end = start + len(wanted)
            if (
                all(_same(word, words[start + k], last=start + k == end - 1) for k, word in enumerate(wanted))
                and not denied(words, start, end)
                and (listed or not _is_alternative(words, start, end))
                and not _other_name(words, start, end, in_question, person=person, first=first)
                and not _echo(words, end, in_question, wanted)
            ):
                return True
    return False


def _ways(reference: str, *, person: bool) -> Iterator[tuple[Sequence[Word], str | None]]:
    """Yield each spelling of a reference as (words, None); for a person, also yield ([last name], first name)."""
    plain = read_words(re.sub(r"(?<=.)\s*\([^)]*\)", "", reference))
    for words in dict.fromkeys(
        (read_words(reference), plain, tuple(word for word in plain if word.text not in _KINDS))
    ):
        if words:
            yield words, None
    names = [word for word in plain if word.text not in _PARTICLES]
    if person and 2 <= len(names) <= 4 and all(word.capital for word in names):
        last = names[-1]
        if len(last.text) > 2 and not re.fullmatch("[IVX]+|Jr|Sr", last.written):
            yield [last], names[0].text


def _same(wanted: Word, word: Word, *, last: bool) -> bool:
    """Return whether two words are equal; the last word may be in the plural. In symbols (Fe, mW), case counts."""
    one, other = wanted.text, word.text
    if one == other:
        if not agree(read_unit(wanted.written), read_unit(word.written)):
            return False
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
    """Return whether a mention is part of another name, such as "Paris" in "Paris Hilton".

    More names may follow the full name of a `person`. `first` is the first name if the mention is only a last name.
    """
    before = words[start - 1] if start and not words[start - 1].after else None
    if before is not None and before.capital and before.text in _OTHER_PLACE and words[start].capital:
        return True
    if first is not None:
        names = _names_before(words, start, FUNCTION_WORDS | _TITLES | {*in_question})
        if names and first not in names:
            return True
    behind = words[end] if end < len(words) and not words[end - 1].after else None
    if behind is None or not behind.capital or not words[end - 1].capital or (person and first is None):
        return False
    abbreviation = behind.written.isupper() and len(behind.written) <= 3  # Washington DC
    return behind.text not in FUNCTION_WORDS | _KINDS | {*in_question} and not abbreviation


def _names_before(words: Sequence[Word], start: int, usual: Collection[str]) -> list[str]:
    """Return the capitalised words directly before `start`, up to a word in `usual`; particles are left out."""
    names = []
    for word in reversed(words[:start]):
        if word.after or word.text in usual or not (word.capital or word.text in _PARTICLES):
            break
        names.append(word.text)
    return [name for name in names if name not in _PARTICLES]


def _echo(words: Sequence[Word], end: int, in_question: Sequence[str], wanted: Sequence[Word]) -> bool:
    """Return whether a mention repeats words of the question in the middle of a clause."""
    texts = [word.text for word in wanted]
    repeated = any(in_question[place : place + len(texts)] == texts for place in range(len(in_question)))
    if not repeated or "or" in in_question:
        return False
    return end < len(words) and not words[end - 1].after
