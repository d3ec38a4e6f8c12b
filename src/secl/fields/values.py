"""Values in the text of a JSON object: their spans, their probabilities, and their equality."""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from secl.errors import QuestionError, check_depth
from secl.evidence import Likelihood, Thought
from secl.fields.schema import Leaf
from secl.grading.rules import same_answer
from secl.grading.texts import normalise_text
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question, has_half_character

Span = tuple[int, int]
"""Index of the first character of a value, and of the first character after the value."""

Path = tuple[str, ...]
"""Keys, or numbers of list elements, from the root of an object to a value."""

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"
_CONSTANTS = ("null", "true", "false", NONE_OF_THESE)


@dataclass(frozen=True)
class WrittenObject:
    """A JSON object as a model wrote it.

    Attributes:
        text: the whole object.
        ends: for each token, the number of characters up to the token's end.
        log_p: ln probability of each token. The probability is relative to the tokens that the schema allows; some
            servers give it relative to all tokens.
        entropy: for each token, the entropy of its distribution under the schema, in nats; nan if unknown.
        thought: the model's thought before the object; None if the model wrote the object without a thought.
        alone: for each field name, ln probability of the value when secl asks for this field only.
        gaps: maps the path of a missing value to the span in which the model skipped the key.
    """

    text: str
    ends: tuple[int, ...]
    log_p: tuple[float, ...]
    entropy: tuple[float, ...]
    thought: Thought | None = None
    alone: Mapping[str, float] = field(default_factory=dict)
    gaps: Mapping[Path, Span] = field(default_factory=dict)

    @cached_property
    def value(self) -> dict[str, Any]:
        """The object, parsed from the text. Raises a QuestionError: the object is nested too deeply."""
        try:
            value: dict[str, Any] = check_depth(json.loads(self.text))
        except RecursionError as problem:
            raise QuestionError(f"the model wrote an object of {problem}; describe the fields.") from problem
        return value

    @cached_property
    def places(self) -> Mapping[Path, Span]:
        """The span of each value, or of its gap, by the path of the value."""
        return {**self.gaps, **spans(self.text)}

    def tokens(self, span: Span) -> range:
        """Return the numbers of the tokens that contain a span of the text."""
        return range(bisect_right(self.ends, span[0]), bisect_left(self.ends, span[1]) + 1)

    def reading(self, value: object, tokens: range) -> WrittenValue:
        """Return a value with ln probability and entropy of its tokens; both are 0 if no token is given."""
        log_p = math.fsum(self.log_p[token] for token in tokens)
        return WrittenValue(value, log_p, math.fsum(self.entropy[token] for token in tokens), self.thought)

    def place_of(self, leaf: Leaf) -> Span:
        """Return the span of a field's value or gap; without either, the span of the closest parent in the object."""
        return self.places[self._path(leaf)]

    def _path(self, leaf: Leaf) -> Path:
        """Return the path of the span that `place_of` returns."""
        depths = range(len(leaf.path), -1, -1)
        return next(leaf.path[:depth] for depth in depths if leaf.path[:depth] in self.places)

    def read(self, leaf: Leaf) -> WrittenValue:
        """Return the value of a field."""
        tokens, given = self.tokens(self.place_of(leaf)), self.alone.get(leaf.name)
        read = self.reading(value_of(leaf, self.value), tokens)
        if given is None:
            return read
        return read._replace(alone=Likelihood(given=given, alone=math.nan, tokens=len(tokens)))

    def single(self, leaf: Leaf) -> tuple[str, str, str] | None:
        """Return three texts that form an object with only this field: before the value, the value, and after it.

        If the field is missing, the second text is the closest parent. Return None if this parent is the whole object.
        """
        path = self._path(leaf)
        if not path:
            return None
        start, end = self.places[path]
        value = self.text[start:end]
        # Lines of a long value are indented for their depth in the whole object, so write the value on one line.
        value = json.dumps(json.loads(value), ensure_ascii=_has_half(value)) if "\n" in value else value
        return "".join(f"{{{json.dumps(key, ensure_ascii=_has_half(key))}: " for key in path), value, "}" * len(path)


def token_ends(parts: Iterable[bytes]) -> tuple[int, ...]:
    r"""Return, for each token given as bytes, the number of characters up to the token's end.

    A character belongs to the token with its first byte.

    >>> token_ends([b"a", b"\xc3", b"\xb6b"])
    (1, 2, 3)
    """
    return (*accumulate(sum(byte & 0xC0 != 0x80 for byte in part) for part in parts),)


class WrittenValue(NamedTuple):
    """A value that a model wrote, with its probability.

    Attributes:
        log_p: ln probability of the value's text.
        entropy: sum of the entropies of the value's tokens, in nats; nan if unknown.
        thought: as in `WrittenObject`.
        alone: likelihood of the value as the reply to a request for only this field; None if unknown.
    """

    value: Any
    log_p: float
    entropy: float
    thought: Thought | None = None
    alone: Likelihood | None = None


def spans(text: str) -> dict[Path, Span]:
    """Return the span of each value of a JSON object by its path, including values in nested objects and lists.

    >>> text = '{"total": 12.5, "vendor": {"tags": ["a"]}}'
    >>> [text[slice(*span)] for span in spans(text).values()]
    ['{"total": 12.5, "vendor": {"tags": ["a"]}}', '12.5', '{"tags": ["a"]}', '["a"]', '"a"']
    """
    found: dict[Path, Span] = {}
    _scan(text, _skip_space(text, 0), (), found)
    return found


def _scan(text: str, start: int, path: Path, found: dict[Path, Span]) -> int:
    """Add the spans of the value at `start` and of all values inside it to `found`, and return the value's end."""
    if text[start] not in "{[":
        _, end = _DECODER.raw_decode(text, start)
        found[path] = (start, end)
        return end
    found[path] = (start, start)  # this path must come before the paths inside; the end follows below
    place, number = _skip_space(text, start + 1), 0
    while text[place] not in "}]":
        key = str(number)
        if text[start] == "{":
            key, place = _DECODER.raw_decode(text, place)
            place = _skip_space(text, _skip_space(text, place) + 1)
        place = _skip_space(text, _scan(text, place, (*path, key), found))
        place = _skip_space(text, place + 1) if text[place] == "," else place
        number += 1
    found[path] = (start, place + 1)
    return place + 1


def _skip_space(text: str, place: int) -> int:
    while text[place] in _SPACE:
        place += 1
    return place


def value_of(leaf: Leaf, written: Mapping[str, Any]) -> Any:
    """Return the value of a field; None for a field of an object that is null, and for a missing key."""
    value: Any = written
    for key in leaf.path:
        value = None if value is None else value.get(key)
    return value


def shown(value: object) -> str:
    """Return a value as a text: a string as it is, anything else as JSON.

    >>> shown("Acme"), shown(None), shown("null"), shown(12.50), shown([1, "a"])
    ('Acme', 'null', '"null"', '12.5', '[1, "a"]')
    """
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=_has_half(value))
    if not value.strip() or has_half_character(value) or value in _CONSTANTS:
        return json.dumps(value)
    return value


def _has_half(value: object) -> bool:
    return has_half_character(json.dumps(value, ensure_ascii=False))


def same_value(leaf: Leaf, question: Question, one: object, other: object) -> bool:
    """Return whether two values of a field mean the same.

    Numbers are compared by value, even if a number is written as a text. Texts follow the rule for answers to open
    questions (`secl.grading.rules`). All other values, such as enumerations, have to be equal.

    >>> leaf, question = Leaf(("total",), "text", "text", ""), Question("total")
    >>> same_value(leaf, question, "1,200.00", "1200"), same_value(leaf, question, "Acme", "acme.")
    (True, True)
    >>> same_value(leaf, question, "Acme", None), same_value(leaf, question, None, None)
    (False, True)
    """
    if leaf.kind == "text" and isinstance(one, str) and isinstance(other, str) and one.strip() and other.strip():
        return same_answer(question, one, other)
    exact = leaf.kind in ("choice", "tool")
    return _plain(one, exact=exact) == _plain(other, exact=exact)


def _plain(value: object, *, exact: bool) -> object:
    """Return a value in a form for comparison, in which true differs from 1, and 1 equals 1.0."""
    if isinstance(value, str):
        return "text", value if exact else normalise_text(value)
    if isinstance(value, list):
        return "list", tuple(_plain(part, exact=exact) for part in value)
    if isinstance(value, dict):
        return "object", frozenset((key, _plain(part, exact=exact)) for key, part in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", Fraction(value) if math.isfinite(value) else value
    return "constant", value
