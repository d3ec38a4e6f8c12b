"""Fields of the three kinds of documents in `benchmarks.documents`, as text and as schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secl.fields.schema import Schema

FIELDS: Mapping[str, str] = {
    "invoice": """
number text: number of the invoice
vendor text: company that sends it
issued date: date of the invoice, YYYY-MM-DD
due date?: last day to pay, YYYY-MM-DD
net number: sum of the items before tax and shipping
total number: amount still to be paid
kind invoice|reminder|credit note: kind of document
early boolean: whether there is a discount for early payment""",
    "staff": """
name text: present full name of the employee
former text?: former last name of the employee
start date: day from which the change counts, YYYY-MM-DD
city text: city where the employee lives from then on
salary number: new monthly salary
reason marriage|divorce|promotion|move: main reason of the letter
boss text: full name of the new supervisor
reply boolean: whether the employee has to answer""",
    "meeting": """
next date?: date of the next meeting, YYYY-MM-DD
chair text: full name of who chaired this meeting
present texts: last names of all who were there
budget number: sum of the amounts that were approved
minutes integer: length of the meeting in minutes
room text?: room of the next meeting
topic budget|hiring|schedule|safety: main topic
unanimous boolean: whether all votes were unanimous""",
}
"""Name, type and description of each field; "?" stands for values that may be null."""

TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "text?": {"type": ["string", "null"]},
    "date": {"type": "string", "maxLength": 10},
    "date?": {"type": ["string", "null"], "maxLength": 10},
    "texts": {"type": "array", "items": {"type": "string"}, "maxItems": 6},
}


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of documents."""
    properties = {}
    for line in FIELDS[kind].strip().splitlines():
        named, _, description = line.partition(": ")
        name, values = named.split(" ", 1)
        own = {"enum": values.split("|")} if "|" in values else TYPES.get(values, {"type": values})
        properties[name] = {**own, "description": description}
    return {"type": "object", "properties": properties, "required": [*properties]}


SCHEMA = {kind: Schema.of(schema_of(kind)) for kind in FIELDS}
"""The schema of each kind."""
