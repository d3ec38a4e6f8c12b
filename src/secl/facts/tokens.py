"""The tokens of a text with their places, and the facts of the text with the probabilities of their tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from secl.evidence import FactEvidence
from secl.facts.spans import find_spans

REPLACEMENT_CHARACTER = "\ufffd"
"""A decoder's text for an incomplete character."""

GAP = 8
"""Maximum number of characters that incomplete tokens stand for."""


COUNTED = ("number", "date")
"""Kinds of values of which two facts may have the same."""

CONTEXT, LONGEST = 2, 40
"""Number of words before a number, and maximum number of their characters, that are equal if a text states the number
again."""


class PlacedToken(NamedTuple):
    """A token with its place in a text, in characters, and its ln probability."""

    start: int
    end: int
    log_p: float


def place_tokens(pieces: Iterable[tuple[str, float]], text: str) -> tuple[PlacedToken, ...] | None:
    """Return the places of tokens in a text; None if the tokens do not spell the text.

    Tokens of an incomplete character share the place of the character. Spaces before the text, and tokens after its
    end, do not count.

    Args:
        pieces: text and ln probability of each token.

    >>> pieces = [" Li", "ma", " \ufffd", "\ufffd", "!"]
    >>> [(token.start, token.end) for token in place_tokens([(piece, -0.1) for piece in pieces], "Lima é!")]
    [(0, 2), (2, 4), (4, 6), (4, 6), (6, 7)]
    """
    placed: list[PlacedToken] = []
    waiting: list[float] = []  # tokens of a character that is not complete yet
    place, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for whole, log_p in pieces:
        begun = bool(placed or waiting)
        if place >= last or (whole and not whole.strip() and not begun):
            continue
        piece = whole if begun else whole.lstrip()
        if not piece or (REPLACEMENT_CHARACTER in piece and not text.startswith(piece, place)):
            waiting.append(log_p)
            continue
        start = text.find(piece, place, place + len(piece) + (GAP if waiting else 0))
        if start < 0:
            if not text.startswith(piece[: last - place], place):
                return None
            start = place  # the last token extends beyond the text
        end = min(len(text), start + len(piece))
        placed += [PlacedToken(place, start if start > place else end, each) for each in waiting]
        placed.append(PlacedToken(start, end, log_p))
        waiting, place = [], end
    if waiting and last - place <= GAP:
        placed += [PlacedToken(place, last, each) for each in waiting]
        place = last
    return tuple(placed) if placed and place >= last else None


def read_facts(
    text: str, tokens: Sequence[PlacedToken] | None, known: str = "", passage: str = ""
) -> tuple[FactEvidence, ...]:
    """Return the values in a text that can be right or wrong, each once, with the probability of its tokens.

    Args:
        tokens: the tokens of the text; None if their probabilities are unknown.
        known: the question; a value that stands in it is no fact.
        passage: the passage that the text is about; "" for none.
    """
    passage = _plain(passage)
    facts: list[FactEvidence] = []
    stated: set[str] = set()
    for span in find_spans(text, known=known):
        # What a text states again is nearly certain after what it has stated before, right or wrong. A number is the
        # same statement only after the same words.
        before = text[max(0, span.start - LONGEST) : span.start].split()[-CONTEXT:] if span.kind in COUNTED else []
        words = " ".join([*before, text[span.start : span.end]]).casefold()
        if words in stated:
            continue
        stated.add(words)
        own = [each.log_p for each in tokens or () if each.start < span.end and each.end > span.start]
        log_p = min(math.fsum(own), 0.0) if own else math.nan
        stands = re.search(rf"(?<!\w){re.escape(_plain(text[span.start : span.end]))}(?!\w)", passage) is not None
        facts.append(
            FactEvidence(
                start=span.start,
                end=span.end,
                kind=span.kind,
                log_p=log_p,
                tokens=len(own),
                in_passage=stands if passage else None,
            )
        )
    return tuple(facts)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
