"""The table of an extraction: a row for each document, with value and confidence of each field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from secl.evaluation.json_values import defined
from secl.fields.values import shown
from secl.fields.weighing import whole_accepted, whole_confidence
from secl.grading.rules import reported_correct
from secl.question import Question
from secl.records import Record

LEAST_CERTAIN = 3
"""Number of fields that a row names for checking."""


def document_of(question: Question) -> str:
    """Return the id of a field's document."""
    return question.id.removesuffix(f"/{question.domain}")


def by_document(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the fields of each document by the document's id."""
    documents: dict[str, list[Record]] = {}
    for record in records:
        documents.setdefault(document_of(record.question), []).append(record)
    return documents


def expected_errors(records: Iterable[Record]) -> float:
    """Return the expected number of wrong answers among unlabelled ones."""
    return math.fsum(1 - record.expected_grade for record in records if record.label is None)


def object_results(fields: Sequence[Record]) -> Mapping[str, object]:
    """Return values and confidences of a document by column."""
    values = {record.question.domain: record for record in fields}
    results: dict[str, object] = {}
    for name, record in values.items():
        results |= {name: value_in(record), f"{name}_confidence": defined(record.confidence)}
    grades = [reported_correct(record) for record in fields]
    unsure = sorted((record for record in fields if record.label is None), key=lambda record: record.expected_grade)
    return results | {
        "confidence": defined(whole_confidence(fields)),
        "accepted": whole_accepted(fields, fields[0].accept),
        "correct": False if False in grades else None if None in grades else True,
        "expected_errors": expected_errors(fields),
        "least_certain": [record.question.domain for record in unsure[:LEAST_CERTAIN]],
    }


def value_in(record: Record) -> object:
    """Return the value of a field: a text, a number, a boolean or None; a list or an object becomes a JSON text.

    A field's text has quotes (`shown`) if it would read like another value without them.
    """
    text = record.text or ""
    with suppress(ValueError):
        value = json.loads(text)
        special = value is None or isinstance(value, str | bool)
        if (special and shown(value) == text) or record.question.form == "number":
            return value
    return text
