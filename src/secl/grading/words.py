"""Words of a text with what stands between them: where a clause ends, and what is denied there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
        listed: whether it stands in a list of three and more.
    """

    text: str
    written: str
    after: str = ""
    article: bool = False
    listed: bool = False

    @property
    def capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.written[:1].isupper()


@lru_cache(maxsize=32)  # every item of a list is looked for in the same answer
def read_words(text: str) -> tuple[Word, ...]:
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
            words[-1] = replace(words[-1], after=words[-1].after + "(")
        if not written:
            if after and words:
                words[-1] = replace(words[-1], after=words[-1].after + after)
            continue
        if written.casefold() in ("a", "an", "the") and not after and (written != "A" or not words):
            article = True
            continue
        initial = after.startswith(".") and len(written) <= 2  # "J. K. Rowling", "St. Louis"
        words.append(Word(normalise_text(written), written, "" if initial and after == "." else after, article))
        article = False
    return tuple(_with_lists(words))


def _with_lists(words: Sequence[Word]) -> Iterator[Word]:
    """Mark the words of lists: three and more short parts between commas, "and" before the last."""
    parts: list[list[Word]] = [[]]
    for number, word in enumerate(words, start=1):
        parts[-1].append(word)
        if word.after.startswith(","):
            parts.append([])
        if number == len(words) or (word.after and word.after[0] != ","):
            # The sentence leads up to the first member, and something may follow the last one.
            inner = [part for part in parts if part][1:]
            short = len(inner) >= 2 and all(len(part) <= 3 and not part[0].article for part in inner)
            listed = short and (len(inner) > 2 or inner[-1][0].text in ("and", "or", "und", "et", "y"))
            yield from (replace(each, listed=listed) for part in parts for each in part)
            parts = [[]]


def denied(words: Sequence[Word], start: int, end: int) -> bool:
    """Whether the words from `start` to `end` are mentioned only to say that it is not they.

    >>> words = read_words("It is not Paris but Lyon")
    >>> denied(words, 3, 4), denied(words, 5, 6)
    (True, False)
    """
    begin = start
    while begin > 0 and not words[begin - 1].after and words[begin - 1].text not in CONJUNCTIONS:
        begin -= 1
    clause = words[begin:start]
    if any(word.text in DENIALS or (word.text == "no" and number > 0) for number, word in enumerate(clause)):
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
    return words[start].listed
