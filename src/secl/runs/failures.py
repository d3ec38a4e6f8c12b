"""Documents without an object, in a table of the run's file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from secl.errors import SeclError
from secl.fields.extraction import ObjectRequest
from secl.runs.folder import RESUME, storage_errors
from secl.runs.store import Store

TABLE = "CREATE TABLE failures (document TEXT PRIMARY KEY, fields INTEGER NOT NULL, reason TEXT NOT NULL, row TEXT);"


@dataclass(frozen=True, slots=True)
class Failure:
    """A document without an object: its id, number of fields, the reason, and the cells of its row by column."""

    document: str
    fields: int
    reason: str
    row: Mapping[str, object]


def add_failure(store: Store, request: ObjectRequest, problem: SeclError) -> None:
    """Store the reason why a document has no object."""
    question = request.question
    values = (question.id, len(request.schema.leaves), str(problem), json.dumps(dict(question.row)))
    with storage_errors(store.folder, RESUME), store.db:
        store.db.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", values)


def failures(store: Store) -> list[Failure]:
    """Return the documents of an extraction that have no object, in order."""
    rows = store.read("SELECT * FROM failures ORDER BY rowid")
    return [Failure(document, fields, reason, json.loads(row)) for document, fields, reason, row in rows]
