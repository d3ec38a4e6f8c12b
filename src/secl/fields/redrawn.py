"""Samples of an object that differ only in its uncertain values.

Whole samples would repeat all keys and all certain values. The model therefore draws each uncertain value after the
text that precedes the value in the most probable object. `composed` then puts the drawn values into the object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from secl.fields.schema import Schema
from secl.fields.values import Span, WrittenObject
from secl.fields.weighing import is_certain

_DECODER = json.JSONDecoder()
_BEFORE = re.compile(r'"\s*:\s*$')
_BEHIND_KEY = re.compile(r"\s*:\s*")


@dataclass(frozen=True)
class UncertainValue:
    """A value of an object that the model draws again.

    Attributes:
        span: span of the value in the object's text.
        first: number of the value's first token.
        key_end: index of the quotation mark that closes the value's key.
    """

    span: Span
    first: int
    key_end: int

    def value_in(self, text: str) -> Span | None:
        """Return the span of the value after the same key in a redrawn text; None if the value is unfinished."""
        behind = _BEHIND_KEY.match(text, self.key_end + 1)
        start = len(text) if behind is None else behind.end()
        try:
            _, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        # A number, true, false and null are finished only if a delimiter follows.
        return (start, end) if text[start] in '"[{' or text[end : end + 1] in {*",}] \t\r\n"} - {""} else None


def uncertain_places(schema: Schema, greedy: WrittenObject) -> list[Span]:
    """Return the spans of an object's uncertain values: values with a token of a probability below `CERTAIN`.

    A value whose tokens have unknown probabilities (nan) is uncertain. If all probabilities are known, fields with two
    possible values, such as booleans, need no samples: the other value has the remaining probability.
    """
    known = not any(map(math.isnan, greedy.log_p))
    leaves = [leaf for leaf in schema.leaves_in(greedy.value) if not (known and len(leaf.values) == 2)]
    return [span for span in map(greedy.place_of, leaves) if not is_certain(greedy, span)]


def uncertain_values(greedy: WrittenObject, places: Sequence[Span]) -> list[UncertainValue]:
    """Return the values at these spans; an empty list if no key precedes a span, as for the whole object."""
    found = []
    for span in dict.fromkeys(places):
        first = greedy.tokens(span)[0]
        before = _BEFORE.search(greedy.text[: span[0]])
        if before is None or first == 0:
            return []
        found.append(UncertainValue(span, first, before.start()))
    return found


def composed(greedy: WrittenObject, drawn: Mapping[UncertainValue, WrittenObject]) -> WrittenObject | None:
    """Return the greedy object with its uncertain values replaced by drawn values; None if one is unfinished."""
    tokens = _tokens(greedy)
    own = [(end - start, log_p, entropy) for start, end, log_p, entropy in tokens]
    text, parts, at, token = "", list[tuple[int, float, float]](), 0, 0  # parts: length, ln P and entropy of each token
    for value, other in sorted(drawn.items(), key=lambda item: item[0].span):
        span = value.value_in(other.text)
        if span is None:
            return None
        replaced = greedy.tokens(value.span)
        parts += own[token : replaced[0]]
        new = [
            (max(0, min(end, span[1]) - max(start, span[0])), log_p, entropy)
            for n, (start, end, log_p, entropy) in enumerate(_tokens(other))
            if n in other.tokens(span)
        ]
        # If replaced tokens also have characters outside the value, the first and the last new token get these.
        new[0] = (new[0][0] + value.span[0] - tokens[replaced[0]][0], *new[0][1:])
        new[-1] = (new[-1][0] + tokens[replaced[-1]][1] - value.span[1], *new[-1][1:])
        parts += new
        text += greedy.text[at : value.span[0]] + other.text[slice(*span)]
        at, token = value.span[1], replaced[-1] + 1
    parts += own[token:]
    lengths, log_p, entropy = zip(*parts, strict=True)
    return WrittenObject(text + greedy.text[at:], (*accumulate(lengths),), log_p, entropy)


def _tokens(written: WrittenObject) -> list[tuple[int, int, float, float]]:
    """Return start, end, ln P and entropy of each token."""
    return [*zip([0, *written.ends[:-1]], written.ends, written.log_p, written.entropy, strict=True)]
