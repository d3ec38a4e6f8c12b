"""Words of a text with what stands between them: where a clause ends, and what is denied there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from secl.grading.texts import normalise_text
from secl.grading.vocabulary import CONJUNCTIONS, DENIALS, VERBS

_NO_POSSESSIVES = ("it's", "that's", "it\u2019s", "that\u2019s")
_SPLIT = re.compile(r"(?<=[\w)])[-/\u2010-\u2015](?=[A-Za-z(])|\s+[-\u2010-\u2015]+\s+|\s+|(?<=[,;:!?(])(?=\D)|(?=\()")
_ENDS = re.compile('[,;:.!?)\\]"\u201d\u2014]+$')


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text.

    Attributes:
        text: as normalised (`secl.grading.texts.normalise_text`).
        written: as written, without punctuation around it.
        after: punctuation behind it that ends a clause; "(" where a parenthesis opens there.
        article: whether an article, which is no word of its own, stands before it.
    """

    text: str
    written: str
    after: str = ""
    article: bool = False

    @property
    def capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.written[:1].isupper()


def read_words(text: str) -> list[Word]:
    """The words of a text.

    >>> [(word.text, word.after) for word in read_words("It's the U.S.A., not Goethe's Faust.")]
    [('its', ''), ('usa', '.,'), ('not', ''), ('goethe', ''), ('faust', '.')]
    """
    words: list[Word] = []
    article = False
    for part in _SPLIT.split(text):
        ends = _ENDS.search(part)
        after = ends[0] if ends else ""
        written = part[: len(part) - len(after)].strip("\"'`\u2018\u2019\u201c\u201d*_.,;:([")
        if written.endswith(("'s", "\u2019s")) and written.casefold() not in _NO_POSSESSIVES:
            written = written[:-2]
        if part.startswith("(") and words:
            words[-1] = _ended(words[-1], "(")
        if not written:
            if after and words:
                words[-1] = _ended(words[-1], after)
            continue
        if written.casefold() in ("a", "an", "the") and not after and (written != "A" or not words):
            article = True
            continue
        initial = after.startswith(".") and len(written) <= 2  # "J. K. Rowling", "St. Louis"
        words.append(Word(normalise_text(written), written, "" if initial and after == "." else after, article))
        article = False
    return words


def _ended(word: Word, mark: str) -> Word:
    return Word(word.text, word.written, word.after + mark, word.article)


def clause_before(words: Sequence[Word], start: int) -> list[Word]:
    """The words of the clause of a place that stand before it."""
    begin = start
    while begin > 0 and not words[begin - 1].after and words[begin - 1].text not in CONJUNCTIONS:
        begin -= 1
    return list(words[begin:start])


def denied(words: Sequence[Word], start: int, end: int) -> bool:
    """Whether the words from `start` to `end` are mentioned only to say that it is not they.

    >>> words = read_words("It is not Paris but Lyon")
    >>> denied(words, 3, 4), denied(words, 5, 6)
    (True, False)
    """
    before = clause_before(words, start)
    if any(word.text in DENIALS or (word.text == "no" and number > 0) for number, word in enumerate(before)):
        return True
    if words[end - 1].after:
        return False
    behind = [word.text for word in words[end : end + 2]]
    return bool(behind) and (
        (behind[0].endswith("nt") and behind[0] in DENIALS)
        or (len(behind) == 2 and behind[0] in VERBS and behind[1] in ("not", "never"))
    )


def offered(words: Sequence[Word], start: int, end: int) -> bool:
    """Whether the words from `start` to `end` are one of several that are offered: "Paris or Lyon", or a list.

    >>> words = read_words("Mercury, Venus, and Mars")
    >>> offered(words, 0, 1), offered(read_words("Paris, France"), 0, 1), offered(read_words("Paris or Lyon"), 0, 1)
    (True, False, True)
    """
    alternatives = ("or", "oder", "ou")
    if end < len(words) and not words[end - 1].after and words[end].text in alternatives:
        return True
    if start > 1 and words[start - 1].text in alternatives and not words[start - 2].after:
        return True
    return _in_list(words, start)


def _in_list(words: Sequence[Word], place: int) -> bool:
    """Whether a place stands in a list of three and more: short parts between commas, "and" before the last."""
    parts: list[list[int]] = [[]]
    for number, word in enumerate(words):
        parts[-1].append(number)
        if word.after:
            if word.after[0] != ",":
                if place <= number:
                    break
                parts = [[]]
            else:
                parts.append([])
    parts = [part for part in parts if part]
    # The sentence leads up to the first member, and something may follow the last one.
    inner = parts[1:]
    if len(inner) < 2 or any(len(part) > 3 or words[part[0]].article for part in inner):
        return False
    joined = words[inner[-1][0]].text in ("and", "or", "und", "et", "y")
    return joined or len(inner) > 2
