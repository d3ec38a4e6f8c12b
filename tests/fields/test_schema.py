"""Schemas: which fields they have, which object a model writes; and what is refused of schemas, tools and requests."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from secl.errors import ParameterError, QuestionError
from secl.fields.extraction import request_of
from secl.fields.json_schema import object_of
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest, tools_of


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
    written = {"x": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}}
    assert Schema.of(root).grammar == {
        **object_of({"d": {"$ref": "#/$defs/D"}}),
        "$defs": {"T": {"type": "boolean", "description": "yes"}, "D": object_of(written)},
    }


NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
UNION = {"anyOf": [{"properties": {name: {"type": "string"}}} for name in "abc"]}


@pytest.mark.parametrize(
    ("read", "given", "said"),
    [
        (Schema.of, (7,), "7 is not a schema; give a pydantic class"),
        (Schema.of, ({},), "no object with fields"),
        (Schema.of, ({"type": "object"},), "no object with fields"),
        (Schema.of, ({"type": "array", "items": {"type": "object"}},), "no object with fields"),
        (Schema.of, ({"properties": {"a": 7}},), r"the schema is not valid \(properties.a: 7 is not of type"),
        (Schema.of, ({"properties": {"a": {"$ref": "#/$defs/B"}}},), "'a' of the schema refers to '#/\\$defs/B'"),
        (Schema.of, ({"properties": {"a": {"$ref": "b.json"}}},), "to 'b.json', which the schema does not have"),
        (
            Schema.of,
            ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},),
            "the root .* refers only to itself",
        ),
        (
            Schema.of,
            ({"properties": {"a": {"enum": []}}, "allOf": []},),
            r"not valid \(allOf: \[\] should be non-empty",
        ),
        (Schema.of, ({"allOf": [UNION] * 4},), "the root of the schema has more than 64 alternatives"),
        (tools_of, ([],), "tools is empty; give at least one tool."),
        (tools_of, ("weather",), "tools is 'weather'; give a list"),
        (tools_of, ([NOW, NOW],), "two tools have the name 'now'"),
        (tools_of, ([7],), "7 is not a tool; give Python functions, pydantic classes, or"),
        (tools_of, ([{"name": "two words"}],), "a tool has the name 'two words'; give it 1 to 64 letters"),
        (tools_of, ([{"name": "a", "parameters": 3}],), "the parameters of the tool 'a' are not a JSON Schema"),
        (tools_of, ([{"name": "a", "parameters": {"properties": {"b": 7}}}],), "tool 'a': the schema is not valid"),
        (tools_of, ([{"name": "a", "parameters": {"type": "array"}}],), "the tool 'a': the schema describes no object"),
        (tools_of, ([NOW], "later"), "choice is 'later'; give auto, required, none, or the name of a tool"),
        (CallRequest.of, (7, [NOW]), "7 is not a request; give a text with or without"),
        (CallRequest.of, ([], [NOW]), r"\[\] is not a request"),
        (CallRequest.of, ([("user", "x"), ("assistant", "y")], [NOW]), "must end with a user's message or a tool's"),
        (
            CallRequest.of,
            ([{"role": "assistant", "tool_calls": [{"function": {"name": 3}}]}], [NOW]),
            "a turn of the conversation is",
        ),
        (CallRequest.of, (" ", [NOW]), "has no text"),
        (request_of, (" ", Schema.anything()), "the document is empty; give its text"),
        (request_of, (b"An invoice.", Schema.anything()), "the document is of type bytes; give its text"),
    ],
)
def test_each_mistake_is_refused_in_a_sentence(read: Callable[..., object], given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ParameterError if read in (Schema.of, tools_of) else QuestionError, match=said):
        read(*given)
