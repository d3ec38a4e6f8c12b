"""Runs that extract fields from documents. Every field of a document is a question with its own record."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from secl.calibrator import Calibrator
from secl.data.benchmarks import arrange
from secl.data.columns import plain
from secl.data.question_files import QuestionFile, cell_of, read_document, read_documents, usable
from secl.data.question_values import truth
from secl.data.tables import Row, parse_json, short_texts, text_of
from secl.errors import DataError, ParameterError, SeclError, UnavailableError
from secl.evaluation.json_values import defined
from secl.fields.extraction import (
    REQUESTS_AT_ONCE,
    ObjectRequest,
    WritesObjects,
    field_question,
    remarks_on,
    request_of,
    weigh_objects,
)
from secl.fields.schema import Leaf, Schema
from secl.fields.values import shown
from secl.fields.weighing import reaches, whole_confidence
from secl.grading.numbers import decimal_mark, write_number
from secl.grading.rules import reference_number, reported_correct
from secl.model import Model, Rating
from secl.question import Question
from secl.records import Record, noun_of
from secl.runs.folder import RESUME, storage_errors
from secl.runs.settings import RunSettings
from secl.runs.store import Store

FAILURES = "CREATE TABLE failures (document TEXT PRIMARY KEY, fields INTEGER NOT NULL, reason TEXT NOT NULL, row TEXT);"
"""SQL for the table in a run's file that lists the documents for which the model wrote no valid object."""

ABSENT = shown(None)
"""Reference of a field whose value is not in the document."""


@dataclass(frozen=True, slots=True)
class DocumentFile(QuestionFile):
    """The fields of all documents as questions, in the order of the documents, with a request for each document."""

    requests: tuple[ObjectRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A document for which the model wrote no valid object: id, number of fields, reason, and cells of its row."""

    document: str
    fields: int
    reason: str
    row: Mapping[str, object]


def add_failure(store: Store, request: ObjectRequest, problem: SeclError) -> None:
    """Store the reason why a document has no object."""
    question = request.question
    values = (question.id, len(request.schema.leaves), str(problem), json.dumps(dict(question.row)))
    with storage_errors(store.folder, RESUME), store.db:
        store.write("failures", *values)


def failures(store: Store) -> list[Failure]:
    """Return the documents of an extraction that have no object, in order."""
    rows = store.read("SELECT * FROM failures ORDER BY rowid")
    try:
        return [Failure(document, fields, reason, json.loads(row)) for document, fields, reason, row in rows]
    except (ValueError, TypeError) as problem:
        raise store.damaged(problem) from problem


def read_schema(path: Path) -> Schema:
    """Return the schema in a JSON file.

    Raises:
        DataError: the file cannot be read, holds no JSON, or holds no schema of an object with fields.
    """
    text = text_of(path)
    try:
        schema = parse_json(text)
    except DataError as problem:
        raise DataError(f"{path} {problem}") from problem
    try:
        return Schema.of(schema)
    except ParameterError as problem:
        raise DataError(f"{path}: {problem}") from problem


def read_document_stream(settings: RunSettings) -> DocumentFile:
    """Return the fields of the documents that the settings name.

    If a column of the documents' table has the name of a field, the column holds the references of this field.

    Raises:
        DataError: the schema, a document or a reference cannot be used.
    """
    extract, stream = settings.extract, settings.stream
    schema, path = read_schema(Path(extract.schema_file or "")), Path(stream.questions or "")
    skipped: list[tuple[str, str]] = []
    numbers = itertools.count(1)

    def read(row: Row) -> tuple[str, tuple[ObjectRequest, list[Question]]]:
        number = next(numbers)
        text, cells = read_document(row, extract.text)
        request = request_of(text, schema, instruction=extract.instruction)
        own = (str(value) for column, value in cells.items() if plain(column) in ("id", "file") and value)
        name = next(own, f"{path.stem}-{number:04d}")
        kept = tuple((column, cell_of(value)) for column, value in cells.items())
        request = replace(request, question=replace(request.question, id=name, row=kept))
        fields = [_field(leaf, request, cells, columns, extract.text) for leaf in schema.leaves]
        return name, (request, fields)

    rows = read_documents(path, extract.text)
    columns = short_texts(rows)
    found = usable(rows, read, skipped, kind="document", skip_bad=stream.skip_bad)
    most = min((each for each in (stream.per_domain, stream.limit) if each is not None), default=None)
    pairs = list(itertools.islice(found, most if stream.order == "forward" else None))
    if not pairs:
        raise DataError(f"{path} holds no document that can be used: {' '.join(skipped[0])}")
    place_of = {request.question.id: place for place, (request, _) in enumerate(pairs)}
    arranged = arrange([request.question for request, _ in pairs], stream.order, settings.seed)[:most]
    pairs = [pairs[place_of[question.id]] for question in arranged]
    questions = tuple(field for _, fields in pairs for field in fields)
    return DocumentFile(questions, skipped=tuple(skipped), requests=tuple(request for request, _ in pairs))


def _field(
    leaf: Leaf, request: ObjectRequest, row: Mapping[str, object], columns: Mapping[str, str], text: str
) -> Question:
    """Return a field as a question, with its reference from the column that has the field's name.

    `columns` has the short texts of each column. They show, or else the document shows, which mark is decimal.

    Raises:
        DataError: the reference of a number is not one number, or the reference of a boolean is not a truth value.
    """
    names = {plain(name) for name in (leaf.name, ".".join(leaf.path), "/".join(leaf.path))}
    column = next((name for name in row if plain(name) in names and name != text and row[name] is not None), None)
    question = field_question(leaf, request)
    if column is None:
        return question
    value = row[column]
    if any(each is True for each in leaf.values) and value != ABSENT:
        try:
            value = truth({"": value}, "")
        except DataError as problem:
            raise DataError(
                f"has {str(value)[:40]!r} in the column of the boolean {leaf.name!r}; write true or false, {ABSENT} if "
                "the document lacks the value, or leave the cell empty if the value is unknown."
            ) from problem
    if leaf.kind == "json" and isinstance(value, str):
        value = _listed(value)
    reference = shown(value) if not isinstance(value, str) else value
    if leaf.kind == "number" and reference != ABSENT:
        written = columns.get(column, "")
        number = reference_number(reference, written if decimal_mark(written) else f"{request.question.context}")
        if number is None:
            raise DataError(
                f"has {reference[:40]!r} in the column of the number {leaf.name!r}; give one number, {ABSENT} for a "
                "document without this number, or an empty cell for an unknown number."
            )
        reference = write_number(number.value)
    grader = "exact" if reference == ABSENT or leaf.kind in ("choice", "json") else ""
    return replace(question, reference=reference, grader=grader)


def _listed(text: str) -> object:
    """Return the list or object in a cell, from JSON or "a | b"; any other text stays unchanged."""
    try:
        return parse_json(text)
    except DataError:
        return [part.strip() for part in text.split("|")] if "|" in text else text


def writer_of(model: Model, requests: Sequence[ObjectRequest]) -> WritesObjects:
    """Return the model, and warn of keywords of the schema that do not constrain the model.

    Raises:
        ParameterError: the model writes no JSON objects, or rejects the schema.
    """
    if not isinstance(model, WritesObjects):
        raise ParameterError(f"the model {model.name!r} writes no JSON objects; take a local model or a server.")
    for remark in remarks_on(model, requests[0].schema):
        warnings.warn(remark, stacklevel=1)  # one place, so that Python shows each sentence once
    return model


def extract_fields(
    calibrator: Calibrator, asked: DocumentFile, done: Sequence[Record], store: Store
) -> Iterator[Record]:
    """Extract the fields of documents, and yield their records in order.

    Args:
        asked: the fields of all documents.
        done: records of the fields that a resumed run already has. If the run stopped inside a window of documents,
            the model writes the whole window again, because a batch of another size may round differently.
        store: the open run. This function adds the documents for which the model wrote no valid object.

    Raises:
        ParameterError: the model cannot write objects of this schema.
        UnavailableError: a server cannot be reached.
    """
    requests = asked.requests
    model = writer_of(calibrator.model, requests)
    calibrator.replay(done)
    size = len(requests[0].schema.leaves)
    field_of, known = {field.id: field for field in asked.questions}, {record.question.id: record for record in done}
    complete = {document for document, records in by_document(done).items() if len(records) == size}
    settled = complete | {failure.document for failure in failures(store)}
    first = next((n for n, each in enumerate(requests) if each.question.id not in settled), len(requests))
    first -= first % REQUESTS_AT_ONCE

    def weigh(question: Question, rating: Rating) -> Record:
        if question.id in known:
            return known[question.id]
        # Elements of a list are not questions of the stream, so they must not change the calibrator's state.
        field = field_of.get(question.id)
        return calibrator.weigh(field or question, rating, counts=field is not None)

    for request, found in zip(requests[first:], weigh_objects(model, requests[first:], weigh), strict=False):
        if isinstance(found, ParameterError | UnavailableError):
            raise found
        if isinstance(found, SeclError):
            add_failure(store, request, found)
            continue
        fields = (found.fields[leaf.name] for leaf in request.schema.leaves)
        yield from (record for record in fields if record.question.id not in known)


ENDLESS = (math.inf, -math.inf)
"""Numbers beyond the largest float, which JSON does not have."""

LEAST_CERTAIN = 3
"""Maximum number of names in the column "least_certain" of a document."""


def document_of(question: Question) -> str:
    """Return the id of a field's document."""
    return question.id.removesuffix(f"/{question.domain}")


def by_document(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of each document's fields by the document's id."""
    documents: dict[str, list[Record]] = {}
    for record in records:
        documents.setdefault(document_of(record.question), []).append(record)
    return documents


def expected_errors(records: Iterable[Record]) -> float:
    """Return the expected number of wrong answers among answers without a label or a reference."""
    return math.fsum(1 - record.confidences.expected_grade for record in records if reported_correct(record) is None)


def object_results(fields: Sequence[Record], accept: float | None) -> Mapping[str, object]:
    """Return the results of a document by column: of each field, and of the whole object.

    The columns of a field have its value and its confidence, and with a threshold whether secl accepts the value.
    `accept` is the lowest accepted confidence of an object; None without a threshold for objects.
    """
    results: dict[str, object] = {}
    for record in fields:
        name = record.question.domain
        results |= {name: value_in(record), f"{name}_confidence": defined(record.confidence)}
        if record.accepted is not None:
            results[f"{name}_accepted"] = record.accepted
    whole = whole_confidence(fields)
    return results | {
        "confidence": defined(whole),
        "accept": accept,
        "accepted": reaches(whole, accept),
        **parts_results(fields),
    }


def parts_results(parts: Sequence[Record]) -> dict[str, object]:
    """Return the results of fields of an object, or of facts of a text, by column; `correct` is about all of them."""
    grades = [reported_correct(record) for record in parts]
    ungraded = (record for record, grade in zip(parts, grades, strict=True) if grade is None)
    unsure = sorted(ungraded, key=lambda record: record.confidences.expected_grade)[:LEAST_CERTAIN]
    of_text = noun_of(parts) == "fact"
    known = not any(math.isnan(record.confidence) for record in unsure)
    return {
        "correct": False if False in grades else None if None in grades or not grades else True,
        **({"facts": len(parts)} if of_text or not parts else {}),
        "expected_errors": expected_errors(parts) if parts and (known or not of_text) else None,
        "least_certain": [record.text if of_text else record.question.domain for record in unsure] or None,
    }


def value_in(record: Record) -> object:
    """Return the value of a field: a text, a number, a boolean or None. A list or an object becomes a JSON text.

    `shown` quotes a text such as "null", which would look like another value. The returned text has no quotes. A number
    beyond the largest float stays a text.
    """
    text = record.text or ""
    with suppress(ValueError):
        value = json.loads(text)
        special = value is None or isinstance(value, str | bool)
        if (special and shown(value) == text) or (record.question.form == "number" and value not in ENDLESS):
            return value
    return text
