"""Schemas: which fields they have, which object a model writes, and what is refused."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from secl.errors import ParameterError, QuestionError
from secl.fields.schema import Schema


class Vendor(BaseModel):
    name: str
    city: str | None = None


class Invoice(BaseModel):
    number: str = Field(description="Number of the\ninvoice")
    total: float
    issued: str = Field(json_schema_extra={"format": "date"})
    kind: Literal["invoice", "credit note"] = "invoice"
    vendor: Vendor | None = None
    paid: bool | None = None
    lines: list[str] = []

    @field_validator("total")
    @classmethod
    def _positive(cls, total: float) -> float:
        if total < 0:
            raise ValueError("a total is positive")
        return total


class Chain(BaseModel):
    link: int
    following: Chain | None = None


WRITTEN = {"number": "7", "total": 2, "issued": "2026-01-02", "kind": None, "vendor": None, "paid": None, "lines": None}


def test_fields_of_a_class_have_kinds_values_and_names() -> None:
    leaves = {leaf.name: leaf for leaf in Schema.of(Invoice).leaves}
    assert {name: leaf.kind for name, leaf in leaves.items()} == {
        "number": "text",
        "total": "number",
        "issued": "json",
        "kind": "choice",
        "/vendor/name": "text",
        "/vendor/city": "text",
        "paid": "choice",
        "lines": "json",
    }
    assert leaves["kind"].values == ("invoice", "credit note", None)
    assert leaves["paid"].values == (True, False, None)
    assert Schema.of(Invoice).listing().splitlines()[:6] == [
        '- "number" (text): Number of the invoice',
        '- "total" (number)',
        '- "issued" (date as text)',
        '- "kind" (one of "invoice" or "credit note" or null)',
        '- "vendor" (object):',
        '  - "name" (text)',
    ]


def test_null_stands_for_a_missing_key_and_a_default_takes_its_place() -> None:
    schema = Schema.of(Invoice)
    assert schema.grammar["required"] == [*WRITTEN]
    assert schema.grammar["additionalProperties"] is False
    assert schema.validated(WRITTEN) == Invoice(number="7", total=2, issued="2026-01-02")
    plain = Schema.of({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}})
    assert plain.validated({"a": None, "b": None}) == {"b": None}
    nested = Schema.of({"type": "object", "properties": {"o": {"properties": {"a": {"type": "string"}}}}})
    assert (nested.validated({"o": None}), nested.validated({"o": {"a": None}})) == ({}, {"o": {}})


def test_names_with_slashes_are_escaped_in_pointers() -> None:
    inner = {"type": "object", "properties": {"b/c": {}, "~": {}}}
    schema = Schema.of({"type": "object", "properties": {"/a": inner, "b/c": {}, "/d": {}}})
    assert [leaf.name for leaf in schema.leaves] == ["/~1a/b~1c", "/~1a/~0", "b/c", "/~1d"]


def test_references_are_followed_into_objects_and_left_in_values() -> None:
    definitions = {"D": {"properties": {"x": {"$ref": "#/$defs/T"}}}, "T": {"type": "boolean", "description": "yes"}}
    root = {"properties": {"d": {"allOf": [{"$ref": "#/$defs/D"}]}}, "required": ["d"], "$defs": definitions}
    (leaf,) = Schema.of(root).leaves
    assert (leaf.path, leaf.kind, leaf.description) == (("d", "x"), "choice", "yes")
    assert Schema.of(root).grammar["$defs"] == definitions


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (7, "7 is not a schema; give a pydantic class"),
        ({}, "no object with fields"),
        ({"type": "object"}, "no object with fields"),
        ({"type": "array", "items": {"type": "object"}}, "no object with fields"),
        ({"properties": {"a": 7}}, "the field 'a' of the schema is 7, not a JSON Schema"),
        ({"properties": {"a": {"$ref": "#/$defs/B"}}}, "the field 'a' of the schema refers to '#/\\$defs/B'"),
        ({"properties": {"a": {"$ref": "b.json"}}}, "refers to 'b.json', which the schema does not have"),
        (Chain, "the field 'following' of the schema is recursive"),
    ],
)
def test_a_schema_without_fields_or_an_end_is_refused_in_a_sentence(schema: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        Schema.of(schema)


def test_an_object_that_the_class_rejects_names_the_field_and_the_rule() -> None:
    with pytest.raises(QuestionError, match="does not fit Invoice: total: Value error, a total is positive; relax"):
        Schema.of(Invoice).validated({**WRITTEN, "total": -1})
