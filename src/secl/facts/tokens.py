"""The tokens of a text with their places, and the facts of the text with the probabilities of their tokens.

tokens      Its| capital| is| Tr|uj|illo| and|  ...   ln P of each, and the most probable others in its place
fact                          Trujillo
log_p                         ln P(" Tr") + ln P("uj") + ln P("illo")
value       the same, with P(" Tr") as a share of what begins with a capital letter in its place
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from secl.evidence import FactEvidence
from secl.facts.spans import FactSpan, find_spans
from secl.writing import Token

REPLACEMENT_CHARACTER = "\ufffd"
"""A decoder's text for an incomplete character."""

GAP = 8
"""Maximum number of characters that incomplete tokens stand for."""

COUNTED = ("number", "date")
"""Kinds of values of which two facts may have the same."""

_LAST_WORD = re.compile(r"\W*\w*")
"""The end of a cut text, in which a value can continue, as in "10 mill", "3." or "St. Gal"."""

CONTEXT, LONGEST = 2, 40
"""Number of words before a number, and maximum number of their characters, that are equal if a text states the number
again."""

DIGITS = 3
"""Number of digits of a number that count. Models of different sizes are sure of different later digits."""


OTHERS, LEAST_OTHER = 2, math.log(0.05)
"""Maximum number of other values in place of a fact, and their least ln probability."""


class PlacedToken(NamedTuple):
    """A token with its place in a text, in characters."""

    start: int
    end: int
    token: Token


def place_tokens(tokens: Iterable[Token], text: str) -> tuple[PlacedToken, ...] | None:
    """Return the places of tokens in a text; None if the tokens do not spell the text.

    Tokens of an incomplete character share the place of the character. Spaces before the text, and tokens after its
    end, do not count.

    >>> tokens = [Token(piece, -0.1) for piece in (" Li", "ma", " \ufffd", "\ufffd", "!")]
    >>> [(start, end) for start, end, _ in place_tokens(tokens, "Lima é!")]
    [(0, 2), (2, 4), (4, 6), (4, 6), (6, 7)]
    """
    placed: list[PlacedToken] = []
    waiting: list[Token] = []  # tokens of a character that is not complete yet
    place, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for token in tokens:
        begun = bool(placed or waiting)
        if place >= last or (token.text.isspace() and not begun):
            continue
        piece = token.text if begun else token.text.lstrip()
        if not piece or (REPLACEMENT_CHARACTER in piece and not text.startswith(piece, place)):
            waiting.append(token)
            continue
        start = text.find(piece, place, place + len(piece) + (GAP if waiting else 0))
        if start < 0:
            if not text.startswith(piece[: last - place], place):
                return None
            start = place  # the last token extends beyond the text
        end = min(len(text), start + len(piece))
        placed += [PlacedToken(place, start if start > place else end, each) for each in waiting]
        placed.append(PlacedToken(start, end, token))
        waiting, place = [], end
    if waiting and last - place <= GAP:
        placed += [PlacedToken(place, last, each) for each in waiting]
        place = last
    return tuple(placed) if placed and place >= last else None


def read_facts(
    text: str, tokens: Sequence[PlacedToken] | None, *, known: str = "", passage: str = "", complete: bool = True
) -> tuple[FactEvidence, ...]:
    """Return the values in a text that can be right or wrong, each once, with the probability of its tokens.

    Args:
        tokens: the tokens of the text; None if their probabilities are unknown.
        known: the question; a value that stands in it is no fact.
        passage: the passage that the text is about; "" for none.
        complete: whether the text ended before the token limit. If not, a value before its last word is perhaps cut.
    """
    facts: list[FactEvidence] = []
    stated: set[str] = set()
    passage = _plain(passage)
    for span in find_spans(text, known=known):
        if not complete and _LAST_WORD.fullmatch(text, span.end):
            break
        value = text[span.start : span.end]
        # What a text states again is nearly certain after what it has stated before, right or wrong. A number is the
        # same statement only after the same words.
        before = text[max(0, span.start - LONGEST) : span.start].split()[-CONTEXT:] if span.kind in COUNTED else []
        words = _plain(" ".join([*before, value]))
        if words in stated:
            continue
        stated.add(words)
        own = [each for each in tokens or () if each.start < span.end and each.end > span.start]
        stands = re.search(rf"(?<!\w){re.escape(_plain(value))}(?!\w)", passage) is not None
        facts.append(
            FactEvidence(
                start=span.start,
                end=span.end,
                kind=span.kind,
                log_p=min(math.fsum(each.token.log_p for each in own), 0.0) if own else math.nan,
                value=_log_p_of_value(span, value, own) if own else math.nan,
                tokens=len(own),
                in_passage=stands if passage else None,
                others=_beginnings_of_others(own[0].token, _beginning(value)) if own else (),
            )
        )
    return tuple(facts)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _log_p_of_value(span: FactSpan, value: str, own: Sequence[PlacedToken]) -> float:
    """Return ln of the probability of a value among values of its kind.

    "The capital is located" is no other capital, so the first token's probability is divided by the probability of the
    known tokens that begin like the value. In a number, digits after the first `DIGITS` do not count.
    """
    log_p = -_log_p_of_kind(own[0].token, _beginning(value))
    seen = ""
    for each in own:
        part = value[max(0, each.start - span.start) : each.end - span.start]
        late = span.kind == "number" and sum(letter.isdigit() for letter in seen.lstrip("0.,")) >= DIGITS
        if not (late and _NUMBER.fullmatch(part)):
            log_p += each.token.log_p
        seen += part
    return min(log_p, 0.0)


def _log_p_of_kind(token: Token, beginning: str) -> float:
    """Return ln of the probability of the known tokens in place of a token that begin in this way, with the token.

    Unknown tokens count if the token is not among the most probable ones, as in a text of another model.
    """
    if not token.top:
        return 0.0
    others = [(text, math.exp(log_p)) for text, log_p in token.top if text != token.text]
    unknown = 0.0 if len(others) < len(token.top) else 1 - math.fsum(p for _, p in others)
    alike = math.fsum(p for text, p in others if _beginning(text) == beginning)
    return math.log(min(1.0, max(unknown, math.exp(token.log_p)) + alike))


def _beginnings_of_others(token: Token, beginning: str) -> tuple[tuple[str, float], ...]:
    """Return the most probable other tokens that begin a value of the same kind, each with its share of the kind."""
    whole = _log_p_of_kind(token, beginning)
    alike = [(text, log_p - whole) for text, log_p in token.top if text != token.text and _beginning(text) == beginning]
    return tuple(each for each in alike[:OTHERS] if each[1] >= LEAST_OTHER)


def complete_other(text: str, fact: FactEvidence, beginning: str, continuation: str) -> str | None:
    """Return the value that stands in place of a fact if the text goes on like this; None without such a value.

    >>> fact = FactEvidence(start=14, end=22, kind="name", log_p=-2.0, value=-1.0, tokens=3)
    >>> complete_other("The capital is Trujillo.", fact, " L", "ima, and the currency")
    'Lima'
    """
    other = text[: fact.start].rstrip() + (" " if beginning[:1].isspace() else "") + beginning.lstrip() + continuation
    first = len(other) - len(beginning.lstrip()) - len(continuation)
    for span in find_spans(other):
        if span.start <= first < span.end and span.end < len(other):
            value = other[span.start : span.end]
            return None if _plain(value) == _plain(text[fact.start : fact.end]) else value
    return None


_NUMBER = re.compile(r"[\d.,]+")


def _beginning(text: str) -> str:
    """Return how a text begins: with "1" (a digit, or the sign of a number), "A" (a capital), "a", or otherwise."""
    first = text.lstrip()[:1]
    if first.isdigit() or first in ("+", "-", "\u2212", "$", "€", "£", "¥"):
        return "1"
    return "A" if first.isupper() else "a" if first.islower() else "other"
