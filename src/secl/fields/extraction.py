"""JSON objects whose fields have confidences: requests, the texts that a model writes, samples, and extractions.

Whole samples would repeat all keys and all certain values. The model therefore draws each uncertain value after the
text that precedes the value in the most probable object. `composed` then puts the drawn values into the object.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from secl.conversation import Message
from secl.display import Shown
from secl.errors import QuestionError, SeclError, UnfinishedError
from secl.evidence import Thought
from secl.fields.schema import Leaf, Schema
from secl.fields.values import Span, WrittenObject
from secl.fields.weighing import (
    REDRAWN,
    SAMPLES,
    Accept,
    FieldCost,
    Weigh,
    is_certain,
    reaches,
    weigh_fields,
    whole_confidence,
)
from secl.ledger import Ledger
from secl.question import Question
from secl.records import Record

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


LEAST_TOKENS = 512
"""The default token limit of an object is at least this number."""

FIELD_TOKENS = 64
"""The default token limit of an object is at least this number times the number of fields."""

ONE_FIELD = "Reply with one JSON object that has only this key"

REQUESTS_AT_ONCE = 8
"""Number of requests whose objects the model writes in one batch."""


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """A question that asks for a JSON object which satisfies a schema.

    Attributes:
        question: any question of the form "text", possibly with system text and history. The question's id should be
            unique.
        max_tokens: maximum number of tokens of the object; None for as many as the fields may need.
        one: beginning of the question that asks for a single field; the line of the field follows.
    """

    question: Question
    schema: Schema
    max_tokens: int | None = None
    one: str = ""

    def about(self, leaf: Leaf) -> Question:
        """Return the question that asks for an object with only this field."""
        return replace(self.question, text=f"{self.one}{self.schema.listing([leaf])}")

    @property
    def most_tokens(self) -> int:
        """Maximum number of tokens of the object."""
        return token_limit(len(self.schema.leaves), self.max_tokens)

    def unfinished(self, limit: int, tokens: tuple[int, int]) -> UnfinishedError:
        """Return the error of an object that the model did not close within `limit` tokens; `tokens` were spent."""
        return UnfinishedError(
            f"the model did not close the object within {limit} tokens; "
            f"{'' if self.max_tokens is None else 'raise max_tokens, '}bound long texts by maxLength in the schema, "
            "ask for fewer fields, or take a larger model.",
            tokens,
        )

    @classmethod
    def of_chat(
        cls, question: Question, schema: Schema, max_tokens: int | None = None, since: Sequence[Message] = ()
    ) -> ObjectRequest:
        """Return the request for an object as the next turn of a conversation; its prompt lists the fields last.

        `since`: turns after the question: calls that the model made, and their results.
        """
        said = repr((question.system, question.history, question.text, since))
        asked, history = question.text, question.history
        if since:
            asked, history = "Reply with one JSON object.", (*history, Message("user", asked), *since)
        text = asked
        if schema.leaves:
            text += (
                f"\n\nReply with one JSON object that has exactly these keys, in this order:\n{schema.listing()}\n"
                "Write null where a field may be null and has no value."
            )
        one = f"{asked}\n\n{ONE_FIELD}:\n"
        return cls(replace(question, text=text, history=history, id=id_of(said)), schema, max_tokens, one)


def token_limit(fields: int, wanted: int | None) -> int:
    """Return the token limit of an object with this number of fields; `wanted` may lower the limit."""
    most = max(LEAST_TOKENS, FIELD_TOKENS * fields)
    return most if wanted is None else min(most, wanted)


def id_of(text: str) -> str:
    """Return the id of a question from its content: 12 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


R = TypeVar("R")
W = TypeVar("W")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects(Generic[W]):
    """A model's texts for a request: JSON objects, or replies with calls of tools.

    Attributes:
        greedy: the greedily written object, which secl returns to the user.
        samples: objects drawn at temperature 1; a model that thinks writes each sample after a new thought. None for an
            object that the model did not close.
        ledger: tokens that went through the network for all objects.
        plain_tokens: number of tokens of the greedy object and its prompt.
        tokens: number of tokens of the prompt, and of the greedy object; (0, 0) if unknown.
    """

    greedy: W
    samples: tuple[W | None, ...]
    ledger: Ledger
    plain_tokens: float
    tokens: tuple[int, int] = (0, 0)

    def shared(self, count: int) -> FieldCost:
        """Return the cost of one field if `count` fields share the cost of the object equally."""
        shares = {purpose: tokens / count for purpose, tokens in asdict(self.ledger).items()}
        return Ledger(**shares), self.plain_tokens / count


@runtime_checkable
class WritesObjects(Protocol):
    """A model that writes JSON objects which satisfy a schema."""

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write the most probable object for each request, and its samples.

        Args:
            requests: up to `REQUESTS_AT_ONCE` requests, which share passes.
            samples: returns the number of samples for a request and its most probable object. Models that think ignore
                `samples`: they write one or two samples, each after a new thought.

        Returns:
            an object or an error for each request. Sharing a batch changes an object only through rounding.
        """
        ...


@dataclass(frozen=True, repr=False)
class Extraction(Shown):
    """The fields of an object with their confidences.

    Attributes:
        value: the validated object: an instance of the pydantic class, or a dictionary.
        text: the object as the model wrote it.
        confidence: probability in [0, 1] that all fields are correct.
        fields: the record of each field, by its name or its JSON pointer. `Record.text` is the value as a text.
            `Record.confidence` is the probability that the value is correct. The elements of a list, such as "/tags/0",
            follow the list: first the elements in the object, then the elements that only samples have. The text of an
            element that only samples have is "null".
        candidates: the distinct objects that the model wrote, the most probable first. Each has the probability that
            all its values are correct.
        tokens: number of tokens of the prompt, and of the object.
        accept: lowest accepted confidence of an object; None without a threshold. Fields have thresholds of their own.
        thought: the model's thought before the object; None if the model wrote the object without a thought.
    """

    value: Any
    text: str
    confidence: float
    fields: Mapping[str, Record]
    candidates: tuple[tuple[str, float], ...]
    tokens: tuple[int, int]
    accept: float | None = None
    thought: Thought | None = None

    @property
    def accepted(self) -> bool | None:
        """Whether `confidence` reaches `accept`; None without a threshold."""
        return reaches(self.confidence, self.accept)

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, in the order of the fields."""
        return tuple(self.fields.values())

    def _facts(self) -> Mapping[str, object]:
        fields = {name: f"{record.text} ({record.confidence:.2f})" for name, record in self.fields.items()}
        return {"confidence": self.confidence, **fields}


def remarks_on(model: object, schema: Schema) -> tuple[str, ...]:
    """Return a sentence for each keyword of a schema that does not constrain a model.

    Raises:
        ParameterError: the schema cannot constrain the model.
    """
    check = getattr(model, "check_schema", None)
    return check(schema) if check else schema.remarks


def request_of(document: object, schema: Schema, *, context: str = "", instruction: str = "") -> ObjectRequest:
    """Return the request for the fields of a document.

    Args:
        document: the document's text.
        context: a passage that the model reads before the document.
        instruction: rules for the values, in addition to the descriptions in the schema.

    Raises:
        QuestionError: the document is empty, or is not a text.
    """
    if not isinstance(document, str) or not document.strip():
        given = "empty" if isinstance(document, str) else f"of type {type(document).__name__}"
        raise QuestionError(f"the document is {given}; give its text.")
    rules = f"{instruction.strip()}\n" if instruction.strip() else ""
    text = (
        f"Extract these fields from the text above:\n{schema.listing()}\n\n{rules}"
        "Reply with one JSON object that has exactly these keys, in this order. Write null where the text gives no "
        "value and the field may be null."
    )
    passage = f"{context}\n\n{document}" if context else document
    question = Question(text, id=id_of(document), form="text", context=passage)
    return ObjectRequest(question, schema, one=f"{rules}Extract one field from the text above. {ONE_FIELD}:\n")


def weigh_objects(
    model: WritesObjects, requests: Sequence[ObjectRequest], weigh: Weigh, accept: Accept = lambda: None
) -> Iterator[Extraction | SeclError]:
    """Write the objects of requests, and yield each object with its confidences, or its error, as soon as possible.

    Args:
        weigh: makes the record of a field (`Weigh`). secl calls `weigh` when the caller takes an object, so labels that
            arrive in between change the confidences of the next object.
        accept: returns the lowest confidence of an accepted object; None for no threshold.
    """
    return in_windows(
        requests,
        lambda window: model.write_objects(window, samples_wanted),
        lambda request, written: _weighed(request, written, weigh, accept),
    )


def in_windows(
    requests: Sequence[R],
    write: Callable[[Sequence[R]], list[Objects[W] | SeclError]],
    weighed: Callable[[R, Objects[W]], T],
) -> Iterator[T | SeclError]:
    """Write texts for `REQUESTS_AT_ONCE` requests at a time; yield what `weighed` returns for each, or an error."""
    for first in range(0, len(requests), REQUESTS_AT_ONCE):
        window = requests[first : first + REQUESTS_AT_ONCE]
        for request, written in zip(window, write(window), strict=True):
            try:
                yield written if isinstance(written, SeclError) else weighed(request, written)
            except SeclError as problem:
                yield problem


def _weighed(request: ObjectRequest, written: Objects[WrittenObject], weigh: Weigh, accept: Accept) -> Extraction:
    """Return an object with its confidences.

    Raises:
        QuestionError: a validator of the pydantic class rejects the object.
    """
    value = request.schema.validated(written.greedy.value)
    leaves = request.schema.leaves_in(written.greedy.value)
    question_of, cost = partial(field_question, request=request), written.shared(len(leaves))
    fields = weigh_fields(leaves, question_of, written.greedy, written.samples, cost, weigh)
    whole = {leaf.name: fields[leaf.name] for leaf in leaves}
    return Extraction(
        value,
        written.greedy.text,
        whole_confidence([*whole.values()]),
        MappingProxyType(fields),
        _objects(written, whole),
        written.tokens,
        accept(),
        written.greedy.thought,
    )


def _objects(written: Objects[WrittenObject], fields: Mapping[str, Record]) -> tuple[tuple[str, float], ...]:
    """Return the distinct objects, the most probable first, each with the product of its values' probabilities."""
    found: dict[tuple[int | None, ...], tuple[str, float]] = {}
    for number, sample in enumerate([written.greedy, *written.samples]):
        if sample is not None:
            # Candidate 0 is the greedy value. A value outside the candidates gets the last candidate's probability:
            # "None of these" or, in an enumeration, one of the unseen values, which are equally likely.
            rows = [record.evidence.candidates for record in fields.values()]
            chosen = tuple(0 if not number or row is None else row.samples[number - 1].candidate for row in rows)
            parts = zip(fields.values(), chosen, strict=True)
            shares = (_probability(record, -1 if place is None else place) for record, place in parts)
            found.setdefault(chosen, (sample.text, math.prod(shares)))
    return tuple(sorted(found.values(), key=lambda candidate: -candidate[1]))


def _probability(record: Record, candidate: int) -> float:
    """Return the probability of a candidate; for the greedy value (0), return the confidence with labels."""
    return (
        record.confidence if candidate == 0 or record.posterior is None else record.posterior.probabilities[candidate]
    )


def field_question(leaf: Leaf, request: ObjectRequest) -> Question:
    """Return a field of an object as a question."""
    asked = request.question
    return replace(
        asked,
        text=f"What is the value of {leaf.described}?",
        domain=leaf.name,
        id=f"{asked.id}/{leaf.name}",
        form="number" if leaf.kind == "number" else "short",
        context=asked.context or asked.text,
    )


def samples_wanted(request: ObjectRequest, greedy: WrittenObject) -> int:
    """Return the number of samples to draw in addition to an object: 0 if the object has no `uncertain_places`."""
    count = SAMPLES if any(map(math.isnan, greedy.log_p)) else REDRAWN
    return count if uncertain_places(request.schema, greedy) else 0
