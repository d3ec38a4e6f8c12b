"""Records of the values that a model wrote.

Each field becomes a question with the evidence of an open answer. Each element of a list is also a field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from secl.evidence import CandidateEvidence, Evidence, Posterior, Sample, Source, SourceKind
from secl.fields.schema import Leaf
from secl.fields.values import Span, WrittenObject, WrittenValue, same_value, shown, value_of
from secl.grading.rules import distinct
from secl.ledger import Ledger
from secl.model import Rating
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question
from secl.records import Record, Reply

SAMPLES = 5
"""Number of samples of a reply with an uncertain call, and of an object with unknown token probabilities. Without token
probabilities, samples are the only evidence."""

REDRAWN = 2
"""Number of samples of an object with known token probabilities. The samples only show which other values are
possible."""

MIN_TOKEN_P = 0.65
"""A value is certain if each of its tokens has at least this probability."""

OTHER_VALUES = 3
"""Maximum number of values that a field's candidates get from samples: the values that most samples have."""

FIXED_KINDS = ("choice", "number")
"""Kinds of fields whose values have a fixed form, so that few of their tokens can be uncertain."""

Weigh = Callable[[Question, Rating], Record]
"""Makes the record of a field from its question and evidence (`Calibrator.weigh`)."""

Accept = Callable[[], float | None]
"""Returns the lowest confidence of an accepted object (`Calibrator.accept`), which moves when labels arrive."""

FieldCost = tuple[Ledger, float]
"""A field's share of the tokens that went through the network, and of the tokens of a plain answer."""


def is_certain(greedy: WrittenObject, span: Span) -> bool:
    """Return whether each token of a span has at least the probability `MIN_TOKEN_P`."""
    return min(greedy.log_p[token] for token in greedy.tokens(span)) >= math.log(MIN_TOKEN_P)


def weigh_fields(
    leaves: Sequence[Leaf],
    question_of: Callable[[Leaf], Question],
    own: WrittenObject,
    drawn: Sequence[WrittenObject | None],
    cost: FieldCost,
    weigh: Weigh,
) -> dict[str, Record]:
    """Return the records of an object's fields by their names; `cost` is the cost of one field."""
    fields: dict[str, Record] = {}
    for leaf in leaves:
        question = question_of(leaf)
        read = [None if each is None else each.read(leaf) for each in drawn]
        fields[leaf.name] = weigh_value(leaf, question, own.read(leaf), read, cost, weigh)
        for element, asked, here, there in elements_of(leaf, question, own, drawn):
            fields[element.name] = weigh_value(element, asked, here, there, (Ledger(), 0.0), weigh)
    return fields


def weigh_value(
    leaf: Leaf,
    question: Question,
    own: WrittenValue,
    drawn: Sequence[WrittenValue | None],
    cost: FieldCost,
    weigh: Weigh,
) -> Record:
    """Return the record of a value.

    `drawn` has the value of this field in each sample; None for a sample without this field.
    """
    return _with_all_values(leaf, weigh(question, _rating(leaf, question, own, drawn, *cost)))


def _rating(
    leaf: Leaf,
    question: Question,
    own: WrittenValue,
    drawn: Sequence[WrittenValue | None],
    ledger: Ledger,
    plain_tokens: float,
) -> Rating:
    """Return the rating of a value: the value is the reply, and the values of the samples are the evidence."""
    different, numbers = distinct(drawn, lambda one, other: same_value(leaf, question, one.value, other.value), [own])
    kept = [0, *sorted(range(1, len(different)), key=numbers.count, reverse=True)[:OTHER_VALUES]]
    samples = tuple(
        Sample(
            text=None if each is None else shown(each.value),
            candidate=kept.index(number) if number in kept else None,
            log_p=None if each is None or math.isnan(each.log_p) else each.log_p,
            thought=None if each is None else each.thought,
        )
        for each, number in zip(drawn, numbers, strict=True)
    )
    kind: SourceKind = "tools" if leaf.kind == "tool" else "fixed_values" if leaf.kind in FIXED_KINDS else "values"
    # If the model is certain of the value, secl draws no samples; copies of the value serve as samples.
    text = shown(own.value)
    samples = samples or (Sample(text=text, candidate=0, log_p=own.log_p),) * SAMPLES
    evidence = CandidateEvidence(
        candidates=(*(shown(different[number].value) for number in kept), NONE_OF_THESE),
        letters=(),
        likelihoods=(own.alone, *[None] * len(kept)),
        samples=samples,
        source=Source(kind, sampled=len(kept) - 1),
    )
    log_p = min(own.log_p, 0.0)  # nan stays nan
    reply = Reply(
        text=text,
        answer=text,
        bins=(),
        digit_mass=math.nan,
        entropy=own.entropy,
        log_probability=log_p,
        thought=own.thought,
    )
    return Rating(reply=reply, evidence=Evidence(candidates=evidence), ledger=ledger, plain_tokens=plain_tokens)


def _with_all_values(leaf: Leaf, record: Record) -> Record:
    """Return a record with all values of an enumeration as candidates.

    Values that the model did not write share the remaining probability.
    """
    posterior = record.posterior
    if posterior is None:
        return record
    unseen = [text for value in leaf.values if (text := shown(value)) not in posterior.candidates]
    return replace(record, posterior=_add_unseen(posterior, unseen)) if unseen else record


def with_unseen(posterior: Posterior, stored: Posterior) -> Posterior:
    """Return a posterior extended by the values of the enumeration that only a `stored` posterior has."""
    return posterior if stored.none_last else _add_unseen(posterior, stored.candidates[len(posterior.candidates) - 1 :])


def _add_unseen(posterior: Posterior, unseen: Sequence[str]) -> Posterior:
    """Return a posterior in which `unseen` candidates replace "none of these" and share its probability."""
    share = posterior.probabilities[-1] / len(unseen)
    return replace(
        posterior,
        candidates=(*posterior.candidates[:-1], *unseen),
        probabilities=(*posterior.probabilities[:-1], *[share] * len(unseen)),
        none_last=False,
    )


def whole_confidence(fields: Sequence[Record]) -> float:
    """Return the probability that all fields are correct: the product, which assumes independent errors."""
    return math.prod(record.confidence for record in fields)


def reaches(confidence: float, accept: float | None) -> bool | None:
    """Return whether a confidence reaches a threshold; None without a threshold."""
    return None if accept is None else confidence >= accept


def elements_of(
    leaf: Leaf, question: Question, own: WrittenObject, drawn: Sequence[WrittenObject | None]
) -> Iterator[tuple[Leaf, Question, WrittenValue, list[WrittenValue | None]]]:
    """Yield the elements of a list as fields: elements of the returned list, then elements that occur only in samples.

    Elements of two lists match if they are equal, regardless of their places. Equal elements in one list each match a
    different element of the other list. secl treats an element as null in a list that lacks the element. Elements that
    occur only in samples are therefore null in the returned list. Their pointers lie beyond the end of this list, for
    example "/tags/3" in a list of three elements.

    Args:
        leaf, question: of the whole list.
        own, drawn: the returned object and the samples; None for a sample that the model did not close.

    Yields:
        for each element its field, its question, and its readings in the returned object and in each sample.
    """
    objects = [own, *drawn]
    known: list[tuple[object, dict[int, int]]] = []  # distinct elements, with {number of the object: index in its list}
    for number, each in enumerate(objects):
        listed = None if each is None else value_of(leaf, each.value)
        for place, value in enumerate(listed if isinstance(listed, list) else []):
            if value is None:
                continue
            partners = (at for other, at in known if number not in at and _same(question, other, value))
            at = next(partners, None)
            if at is None:
                known.append((value, at := {}))
            at[number] = place
    for index, (value, at) in enumerate(known):
        which = "What is one value" if 0 in at else "What further value is there"
        text = f"{which} of {leaf.described}?"
        asked = replace(question, text=text, domain=f"{leaf.name}/*", id=f"{question.id}/{index}")
        read = [None if each is None else _read(each, leaf, at.get(number)) for number, each in enumerate(objects)]
        assert read[0] is not None  # noqa: S101
        yield _leaf(value, (*leaf.path, str(index))), asked, read[0], read[1:]


def _leaf(value: object, path: tuple[str, ...] = ()) -> Leaf:
    return Leaf(path, "text" if isinstance(value, str) else "json", "", "")


def _same(question: Question, one: object, other: object) -> bool:
    return same_value(_leaf(one), question, one, other)


def _read(each: WrittenObject, leaf: Leaf, place: int | None) -> WrittenValue:
    """Return the list element at an index; for None, return null with the probability of the list's last token."""
    if place is not None:
        path = (*leaf.path, str(place))
        return each.reading(value_of(leaf, each.value)[place], each.tokens(each.places[path]))
    _, end = each.place_of(leaf)
    return each.reading(None, each.tokens((end - 1, end)))
