"""From written objects to confidences: each field is a question with the evidence of an open answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from secl.display import Shown
from secl.errors import QuestionError
from secl.evidence import CandidateEvidence, Evidence, Sample
from secl.fields.schema import Leaf, Node, Schema
from secl.fields.values import Span, WrittenObject, same_value, shown, span_of, spans, value_of
from secl.model import Rating
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question
from secl.records import Ledger, Record, Reply

SAMPLES = 5
"""Objects that are drawn beside the most probable one where some value is uncertain."""

CERTAIN = 0.95
"""A value is certain if each of its tokens has at least this probability."""

OTHERS = 3
"""Most other values of a field among its candidates, the most frequent ones, as for open answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What a model wrote for a document.

    Attributes:
        greedy: the object of the most probable tokens; it is returned.
        samples: objects drawn at temperature 1; None for one that the model did not close.
        ledger: tokens that went through the network for all of them.
        plain_tokens: those of the greedy object and its prompt.
    """

    greedy: WrittenObject
    samples: tuple[WrittenObject | None, ...]
    ledger: Ledger
    plain_tokens: float


@runtime_checkable
class WritesObjects(Protocol):
    """A model that writes JSON objects which satisfy a schema."""

    def write_objects(
        self, question: Question, grammar: Node, fields: int, samples: Callable[[WrittenObject], int]
    ) -> Objects:
        """Write the most probable object, and as many samples as `samples` wants beside it.

        Args:
            question: asks for the object; of the form "text", with the document as its context.
            grammar: JSON Schema that every object satisfies.
            fields: number of fields, for the limit of tokens.
            samples: gives the number of samples by the most probable object.
        """
        ...


@dataclass(frozen=True, repr=False)
class Extraction(Shown):
    """The fields of a document with their confidences.

    Attributes:
        value: the validated object: an instance of the pydantic class, or a dictionary.
        confidence: probability in [0, 1] that all fields are correct.
        fields: the record of each field, by its name or its JSON pointer; `Record.text` is the value as a text, and
            `Record.confidence` the probability that it is correct.
        accept: lowest confidence of an accepted object; None for no threshold.
    """

    value: Any
    confidence: float
    fields: Mapping[str, Record]
    accept: float | None = None

    @property
    def accepted(self) -> bool | None:
        """Whether the confidence reaches `accept`; None without a threshold."""
        return None if self.accept is None else self.confidence >= self.accept

    def _facts(self) -> Mapping[str, object]:
        fields = {name: f"{record.text} ({record.confidence:.2f})" for name, record in self.fields.items()}
        return {"confidence": self.confidence, **fields}


def extract(
    model: WritesObjects,
    document: object,
    schema: Schema,
    weigh: Callable[[Question, Rating], Record],
    *,
    context: str = "",
    instruction: str = "",
    accept: float | None = None,
) -> Extraction:
    """Return the fields of a document.

    Args:
        model: writes the objects.
        weigh: makes the record of a field from its question and evidence.
        context: a passage that the model reads before the document.
        instruction: rules for the values, beside the descriptions in the schema.
        accept: as in `Extraction`.

    Raises:
        QuestionError: the document is empty or too long, or the object fails the class's own validation.
        ModelError: the model did not close the object.
    """
    if not isinstance(document, str) or not document.strip():
        given = "empty" if isinstance(document, str) else f"of type {type(document).__name__}"
        raise QuestionError(f"the document is {given}; give its text.")
    digest = hashlib.sha256(document.encode("utf-8", "replace")).hexdigest()[:12]
    passage = f"{context}\n\n{document}" if context else document
    asked = Question(_request(schema, instruction), id=digest, form="text", context=passage)
    written = model.write_objects(asked, schema.grammar, len(schema.leaves), lambda greedy: _wanted(schema, greedy))
    value = schema.validated(written.greedy.value)
    own = _opened(written.greedy)
    drawn = [None if sample is None else _opened(sample) for sample in written.samples]
    fields = {
        leaf.name: _field(leaf, _question(leaf, digest, passage), own, drawn, written, len(schema.leaves), weigh)
        for leaf in schema.leaves
    }
    return Extraction(value, whole_confidence([*fields.values()]), MappingProxyType(fields), accept)


_Opened = tuple[WrittenObject, dict[str, Any], dict[tuple[str, ...], Span]]
"""An object, its value, and where its values stand."""


def _opened(written: WrittenObject) -> _Opened:
    return written, written.value, spans(written.text)


def _request(schema: Schema, instruction: str) -> str:
    """Return the instructions for the object."""
    rules = f"{instruction.strip()}\n" if instruction.strip() else ""
    return (
        f"Extract these fields from the text above:\n{schema.listing()}\n\n{rules}"
        "Reply with one JSON object that has exactly these keys, in this order. Write null where the text gives no "
        "value and the field may be null."
    )


def _question(leaf: Leaf, digest: str, passage: str) -> Question:
    described = f" ({leaf.description})" if leaf.description else ""
    return Question(
        f"What is the value of {'/'.join(leaf.path)!r}{described}?",
        domain=leaf.name,
        id=f"{digest}/{leaf.name}",
        form="number" if leaf.kind == "number" else "short",
        context=passage,
    )


def _wanted(schema: Schema, greedy: WrittenObject) -> int:
    """Return the number of samples: none if every value is certain."""
    found = spans(greedy.text)
    tokens = (token for leaf in schema.leaves for token in greedy.tokens(span_of(leaf, found)))
    return 0 if min(greedy.log_p[token] for token in tokens) >= math.log(CERTAIN) else SAMPLES


def _field(
    leaf: Leaf,
    question: Question,
    own: _Opened,
    drawn: Sequence[_Opened | None],
    written: Objects,
    count: int,
    weigh: Callable[[Question, Rating], Record],
) -> Record:
    """Return the record of one field of `count`, which share what the objects cost."""
    reply, evidence = _evidence(leaf, question, own, drawn)
    ledger = Ledger(answering=written.ledger.answering / count, sampling=written.ledger.sampling / count)
    plain = written.plain_tokens / count
    record = weigh(
        question, Rating(reply=reply, evidence=Evidence(candidates=evidence), ledger=ledger, plain_tokens=plain)
    )
    return _with_all_values(leaf, record)


def _evidence(
    leaf: Leaf, question: Question, greedy: _Opened, sampled: Sequence[_Opened | None]
) -> tuple[Reply, CandidateEvidence]:
    """Return a field's value as a reply, and what it is compared with."""
    own, log_p, entropy = _read(leaf, greedy)
    drawn = [None if each is None else _read(leaf, each) for each in sampled]
    different: list[object] = [own]
    numbers: list[int | None] = []
    for each in drawn:
        number = None
        if each is not None:
            known = (n for n, value in enumerate(different) if same_value(leaf, question, value, each[0]))
            number = next(known, len(different))
            different += [each[0]] * (number == len(different))
        numbers.append(number)
    kept = [0, *sorted(range(1, len(different)), key=numbers.count, reverse=True)[:OTHERS]]
    samples = tuple(
        Sample(
            text=None if each is None else shown(each[0]),
            candidate=kept.index(number) if number in kept else None,
            log_p=None if each is None else each[1],
        )
        for each, number in zip(drawn, numbers, strict=True)
    )
    # Samples of a certain value would repeat it.
    samples = samples or (Sample(text=shown(own), candidate=0, log_p=log_p),) * SAMPLES
    evidence = CandidateEvidence(
        candidates=(*(shown(different[number]) for number in kept), NONE_OF_THESE),
        letters=(),
        likelihoods=(None,) * (len(kept) + 1),
        samples=samples,
        source=f"sampled:{len(kept) - 1}" if drawn else "certain",
    )
    text = shown(own)
    reply = Reply(
        text=text, answer=text, bins=(), digit_mass=math.nan, entropy=entropy, log_probability=min(0.0, log_p)
    )
    return reply, evidence


def _read(leaf: Leaf, opened: _Opened) -> tuple[Any, float, float]:
    """Return a field's value, the ln probability of its text, and the mean entropy of its tokens in nats."""
    written, value, found = opened
    tokens = written.tokens(span_of(leaf, found))
    log_p = math.fsum(written.log_p[token] for token in tokens)
    return value_of(leaf, value), log_p, math.fsum(written.entropy[token] for token in tokens) / len(tokens)


def _with_all_values(leaf: Leaf, record: Record) -> Record:
    """Return a record whose candidates are all values of an enumeration; unseen ones share what no candidate has."""
    posterior = record.posterior
    if posterior is None:
        return record
    unseen = [text for value in leaf.values if (text := shown(value)) not in posterior.candidates]
    if not unseen:
        return record
    share = posterior.probabilities[-1] / len(unseen)
    complete = replace(
        posterior,
        candidates=(*posterior.candidates[:-1], *unseen),
        probabilities=(*posterior.probabilities[:-1], *[share] * len(unseen)),
        none_last=False,
    )
    return replace(record, posterior=complete)


def whole_confidence(fields: Sequence[Record]) -> float:
    """Return the probability that all fields are correct: the product, as if their errors were independent."""
    return math.prod(record.confidence for record in fields)
