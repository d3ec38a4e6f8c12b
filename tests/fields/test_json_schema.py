"""Schemas as people and clients write them: fields, the schema of a written object, and the check of the whole."""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import pathlib
import random
import re
import uuid
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import pydantic
import pytest
from pydantic import BaseModel, Field, StringConstraints, WithJsonSchema, create_model
from typing_extensions import TypedDict

from secl.backends.local.constrained import usable
from secl.errors import ParameterError, QuestionError
from secl.fields.json_schema import mapped, misfit, object_of, strict_form
from secl.fields.schema import Schema
from secl.fields.tools import Tool

TRUTH, TEXT, WHOLE, NULL = {"type": "boolean"}, {"type": "string"}, {"type": "integer"}, {"type": "null"}


def has(properties: Any, required: Any = None, **more: Any) -> dict[str, Any]:
    """The schema of an object, open as clients write it."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else required,
    } | more


KINDS = {"kind": {"enum": ["a", "b", "c"]}}
CAT, DOG = has({"kind": {"const": "cat"}, "lives": WHOLE}), has({"kind": {"const": "dog"}, "name": TEXT})

# The schema of a root, its fields, arguments that satisfy the schema, and arguments that the written schema refuses.
ROOTS: dict[str, tuple[dict[str, Any], list[str], list[Any], list[Any]]] = {
    "oneOf": ({"oneOf": [has({"a": TRUTH}), has({"b": TRUTH})]}, ["a", "b"], [{"a": True}, {"b": False}], [{}]),
    "anyOf beside a type": (
        {"type": "object", "anyOf": [has({"a": TRUTH}), has({"b": TRUTH})]},
        ["a", "b"],
        [{"a": True}],
        [{"a": True, "c": 1}],
    ),
    "closed branches": (
        {"anyOf": [has({"a": TRUTH}, additionalProperties=False), has({"b": TEXT}, additionalProperties=False)]},
        ["a", "b"],
        [{"a": True}, {"b": "x"}],
        [{"a": True, "b": "x"}],
    ),
    "allOf": (
        {"allOf": [has({"a": TRUTH}), has({"b": TEXT}, [])]},
        ["a", "b"],
        [{"a": True}, {"a": True, "b": "x"}],
        [{"b": "x"}],
    ),
    "$ref": ({"$ref": "#/$defs/A", "$defs": {"A": has({"a": TRUTH})}}, ["a"], [{"a": True}], [{}]),
    "$ref beside properties": (
        {"$ref": "#/definitions/A", "properties": {"c": WHOLE}, "definitions": {"A": has({"a": TRUTH})}},
        ["c", "a"],
        [{"c": 1, "a": True}, {"a": True}],
        [{"c": 1}],
    ),
    "branches that only require": (
        {"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ["a", "b"],
        [{"a": "x"}, {"b": "x"}, {"a": "x", "b": "y"}],
        [{}],
    ),
    "branches that exclude": (
        {
            "properties": {"a": TEXT, "b": TEXT},
            "oneOf": [
                {"required": ["a"], "not": {"required": ["b"]}},
                {"required": ["b"], "not": {"anyOf": [{"required": ["a"]}]}},
            ],
        },
        ["a", "b"],
        [{"a": "x"}, {"b": "x"}],
        [{"a": "x", "b": "y"}],
    ),
    "kinds": (
        {"oneOf": [CAT, DOG], "discriminator": {"propertyName": "kind"}},
        ["kind", "lives", "name"],
        [{"kind": "cat", "lives": 9}, {"kind": "dog", "name": "Rex"}],
        [{"kind": "dog", "lives": 9}],
    ),
    "if, then, else": (
        has(KINDS)
        | {
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": has({"x": WHOLE}),
            "else": has({"y": TEXT}),
        },
        ["kind", "x", "y"],
        [{"kind": "a", "x": 1}, {"kind": "b", "y": "z"}],
        [{"kind": "a"}, {"kind": "a", "y": "z"}, {"kind": "c", "x": 1}],
    ),
    "a condition on an optional key": (
        has(KINDS, []) | {"if": {"properties": {"kind": {"const": "a"}}}, "then": has({"x": WHOLE})},
        ["kind", "x"],
        [{"x": 1}, {"kind": "b"}, {"kind": "a", "x": 1}],
        [{}, {"kind": "a"}],
    ),
    "a chain of conditions": (
        has(KINDS)
        | {
            "allOf": [
                {"if": {"properties": {"kind": {"const": kind}}}, "then": has({f"of_{kind}": WHOLE})} for kind in "abc"
            ]
        },
        ["kind", "of_a", "of_b", "of_c"],
        [{"kind": "a", "of_a": 1}, {"kind": "c", "of_c": 1}],
        [{"kind": "a", "of_b": 1}],
    ),
    "a key that needs another": (
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "dependentRequired": {"a": ["b"]}},
        ["a", "b"],
        [{}, {"b": "x"}, {"a": "x", "b": "y"}],
        [{"a": "x"}],
    ),
    "a key that needs a schema": (
        {"type": "object", "properties": {"a": TEXT}, "dependentSchemas": {"a": has({"b": TEXT})}},
        ["a", "b"],
        [{}, {"a": "x", "b": "y"}],
        [{"a": "x"}],
    ),
    "recursion": (
        {
            "$ref": "#/$defs/N",
            "$defs": {"N": has({"v": WHOLE, "next": {"anyOf": [{"$ref": "#/$defs/N"}, NULL]}})},
        },
        ["v", "next"],
        [{"v": 1, "next": {"v": 2, "next": None}}],
        [{"v": 1, "next": {"v": 2}}],
    ),
    "recursion to the root": (
        has({"v": WHOLE, "all": {"type": "array", "items": {"$ref": "#"}}}),
        ["v", "all"],
        [{"v": 1, "all": [{"v": 2, "all": []}]}],
        [{"v": 1, "all": [{"v": 2}]}],
    ),
    "older drafts": (
        has(
            {
                "n": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                "t": {"type": "array", "items": [TEXT, WHOLE]},
            }
        ),
        ["n", "t"],
        [{"n": 0.5, "t": ["x", 1]}],
        [{"n": 0, "t": ["x", 1]}],
    ),
    "OpenAPI": (has({"n": {"type": "string", "nullable": True}}), ["n"], [{"n": None}], [{"n": 5}]),
    "null for keywords": (has({"a": TRUTH}, description=None, anyOf=None), ["a"], [{"a": True}], [{}]),
    "a free key": (has({"a": TRUTH}, ["a", "z"]), ["a", "z"], [{"a": True, "z": [1]}], [{"a": 5, "z": 1}]),
    "a forbidden key": (has({"a": TRUTH, "b": False}, ["a"]), ["a"], [{"a": True}], [{"a": True, "b": 1}]),
    "a union in a field": (
        has({"m": {"oneOf": [CAT, DOG]}}),
        ["m"],
        [{"m": {"kind": "cat", "lives": 9}}],
        [{"m": {"kind": "cat", "name": "Rex"}}],
    ),
    "an object in a field": (
        has({"m": {"allOf": [has({"a": TRUTH}), has({"b": TRUTH})]}}),
        ["/m/a", "/m/b"],
        [{"m": {"a": True, "b": False}}],
        [{"m": {"a": True}}],
    ),
    "named keys": (
        has({"m": {"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": WHOLE}}),
        ["/m/x", "/m/y"],
        [{"m": {"x": 1}}, {"m": {}}],
        [{"m": {"z": 1}}],
    ),
    "unused definitions": (has({"a": TRUTH}) | {"$defs": {"U": has({"q": TEXT})}}, ["a"], [{"a": True}], [{}]),
}


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(("root", "fields", "right", "wrong"), ROOTS.values(), ids=ROOTS)
def test_properties_behind_references_and_unions_are_fields_and_an_object_satisfies_a_branch(
    root: dict[str, Any], fields: list[str], right: list[Any], wrong: list[Any], complete: bool
) -> None:
    schema = Schema.of(root, free=True, complete=complete)
    assert [leaf.name for leaf in schema.leaves] == fields
    assert usable(schema) == (schema.grammar, ())
    for value in right:
        written = _full(schema, value) if complete else value
        assert misfit(schema.grammar, written) is None, value
        assert schema.misfit(written) is None
        assert schema.validated(written) == value
    for value in wrong:
        assert misfit(schema.grammar, _full(schema, value) if complete else value) is not None, value
    assert Tool.of({"name": "t", "parameters": root}).schema.leaves == Schema.of(root, complete=False).leaves


def _full(schema: Schema, value: Any) -> Any:
    """Return an object with null for each missing field."""
    full = dict(value)
    for leaf in schema.leaves:
        *above, name = leaf.path
        place = full
        for key in above:
            place = place[key] if place[key] is not value.get(key) else place.setdefault(key, {})
            place = full[key] = dict(place)
        place.setdefault(name, None)
    return {leaf.path[0]: full[leaf.path[0]] for leaf in schema.leaves} | full


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Item(BaseModel):
    name: str
    count: int = 1


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Chain(BaseModel):
    value: int
    following: Chain | None = None


class Typed(TypedDict):
    a: int
    b: NotRequired[str]


class Named(NamedTuple):
    x: int
    y: float = 0.0


class Open(BaseModel, extra="allow"):
    a: int


class Closed(BaseModel, extra="forbid"):
    a: int


Ones = Annotated[list[int], WithJsonSchema({"type": "array", "items": WHOLE, "contains": {"const": 1}})]
Digits = Annotated[str, WithJsonSchema({"type": "string", "pattern": r"^(?=.*\d).+$"})]

# The type of a field, a value as the model writes it, and the keyword that does not constrain the model.
TYPES: dict[str, tuple[Any, Any, str | None]] = {
    "set": (set[str], ["x", "y"], "uniqueItems"),
    "frozenset": (frozenset[int], [1], "uniqueItems"),
    "set of literals": (set[Literal["a", "b"]], ["a"], "uniqueItems"),
    "frozenset of an enum": (frozenset[Color], ["red"], "uniqueItems"),
    "dict by literals": (dict[Literal["a", "b"], int], {"a": 1, "b": None}, None),
    "dict by an enum": (dict[Color, int], {"red": None, "blue": 2}, None),
    "dict by dates": (dict[datetime.date, float], {"2026-01-02": 0.5}, "propertyNames"),
    "dict by UUIDs": (dict[uuid.UUID, int], {str(uuid.UUID(int=7)): 1}, "propertyNames"),
    "dict by patterns": (dict[Annotated[str, StringConstraints(pattern="^x-")], int], {"x-a": 1}, None),
    "dict of objects": (dict[str, Item], {"a": {"name": "x", "count": None}}, None),
    "few keys": (Annotated[dict[str, int], Field(min_length=1, max_length=2)], {"a": 1}, None),
    "Path": (pathlib.Path, "/a", "format"),
    "bytes": (bytes, "x", "format"),
    "SecretStr": (pydantic.SecretStr, "x", "format"),
    "SecretBytes": (pydantic.SecretBytes, "x", "format"),
    "UUID4": (pydantic.UUID4, str(uuid.UUID(int=7, version=4)), "format"),
    "NewPath": (pydantic.NewPath, "/tmp/no-such-file", "format"),
    "any IP address": (pydantic.IPvAnyAddress, "127.0.0.1", "format"),
    "network": (ipaddress.IPv4Network, "10.0.0.0/8", "format"),
    "interface": (ipaddress.IPv6Interface, "::1/128", "format"),
    "Base64Bytes": (pydantic.Base64Bytes, "eA==", "format"),
    "Base64Str": (pydantic.Base64Str, "eA==", "format"),
    "pattern": (re.Pattern[str], "a+", "format"),
    "Fraction": (Fraction, "1/3", "format"),
    "database": (pydantic.PostgresDsn, "postgres://a@b/c", "format"),
    "lookahead": (Digits, "a1", "pattern"),
    "word boundary": (Annotated[str, Field(pattern=r"\bfoo\b")], "a foo", "pattern"),
    "not": (Annotated[str, WithJsonSchema({"type": "string", "not": {"pattern": "x"}})], "y", "not"),
    "contains": (Ones, [1], "contains"),
    "64 bits": (Annotated[int, Field(ge=-(2**63), le=2**64 - 1)], 5, "minimum"),
    "Decimal": (decimal.Decimal, "1.50", None),
    "date": (datetime.date, "2026-01-02", None),
    "aware time": (pydantic.AwareDatetime, "2026-01-02T03:04:05Z", None),
    "duration": (datetime.timedelta, "PT5S", None),
    "address": (pydantic.HttpUrl, "https://a.example/", None),
    "IPv4": (ipaddress.IPv4Address, "127.0.0.1", None),
    "tuple": (tuple[int, str], [1, "x"], None),
    "tuple of any length": (tuple[int, ...], [1, 2], None),
    "union": (int | str | None, None, None),
    "union of classes": (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat", "lives": 9}, None),
    "list of a union": (list[Cat | Dog], [{"kind": "dog", "name": "Rex"}], None),
    "list of objects": (list[Item], [{"name": "x", "count": None}], None),
    "object or null": (Item | None, {"name": "x", "count": None}, None),
    "enum": (Color, "red", None),
    "integers": (Level, 2, None),
    "mixed literal": (Literal["a", 1, None, True], 1, None),
    "recursion in a list": (Tree, {"value": 1, "children": [{"value": 2, "children": None}]}, None),
    "recursion in a field": (Chain, {"value": 1, "following": {"value": 2, "following": None}}, None),
    "TypedDict": (Typed, {"a": 1, "b": None}, None),
    "NamedTuple": (Named, [1, 0.5], None),
    "open class": (Open, {"a": 1}, None),
    "closed class": (Closed, {"a": 1}, None),
    "multiple": (Annotated[float, Field(multiple_of=0.01)], 0.29, None),
    "JSON as text": (pydantic.Json[list[int]], "[1]", None),
    "anything": (Any, {"x": 1}, None),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "keyword"), TYPES.values(), ids=TYPES)
def test_pydantic_s_types_are_written_and_a_keyword_that_constrains_nothing_is_named(
    kind: Any, value: Any, keyword: str | None
) -> None:
    schema = Schema.of(create_model("Given", v=(kind, ...)))
    _, remarks = usable(schema)
    assert [each.partition(" ")[0] for each in remarks] == ([] if keyword is None else [keyword])
    assert all("of the field 'v' does not constrain the model" in each for each in remarks)
    if keyword != "not":
        assert misfit(schema.grammar, {"v": value}) is None
    assert schema.validated({"v": value}).v is not Ellipsis


@pytest.mark.parametrize(
    ("node", "wrong", "said"),
    [
        ({"type": "array", "items": TEXT, "uniqueItems": True}, ["x", "x"], "v: .* has non-unique elements"),
        (
            {"type": "object", "propertyNames": {"pattern": "^x"}, "additionalProperties": True},
            {"a": 1},
            "v: 'a' does not",
        ),
        ({"type": "string", "pattern": r"^(?!a)"}, "abc", "v: 'abc' does not match"),
        ({"type": "string", "not": {"const": "x"}}, "x", "v: .* should not be valid"),
        ({"type": "array", "contains": {"const": 1}, "minContains": 2}, [1], "v: Too few items match"),
        ({"oneOf": [{"type": "number"}, WHOLE]}, 1, "v: 1 is valid under each of"),
        ({"type": "array", "prefixItems": [TEXT], "unevaluatedItems": False}, ["x", "y"], "v: Unevaluated items"),
    ],
)
def test_what_no_grammar_can_narrow_is_checked_in_the_whole_value(node: Any, wrong: Any, said: str) -> None:
    schema = Schema.of(has({"v": node}))
    usable(schema)
    assert misfit(schema.grammar, {"v": wrong}) is None or "pattern" in node
    assert re.search(said, schema.misfit({"v": wrong}) or "")
    with pytest.raises(
        QuestionError, match=f"the model's object does not fit the schema \\({said}.*relax the schema, or"
    ):
        schema.validated({"v": wrong})


ODD: list[Any] = [
    None,
    7,
    "x",
    [],
    {},
    True,
    False,
    {"type": "any"},
    {"$ref": "#"},
    {"$ref": "#/x"},
    ["a"],
    {"enum": [1]},
]
KEYWORDS = (
    *("type", "properties", "required", "anyOf", "oneOf", "allOf", "if", "then", "else", "not", "items", "enum"),
    *("const", "additionalProperties", "patternProperties", "propertyNames", "dependentSchemas", "$defs", "pattern"),
    *("format", "minimum", "multipleOf", "nullable", "exclusiveMinimum", "contains", "prefixItems", "description"),
)


def _damaged(node: Any, chance: random.Random) -> Any:
    """Return a part of a schema with a few values replaced and a few keywords added."""
    if isinstance(node, dict):
        node = {key: _damaged(part, chance) for key, part in node.items()}
        return node | ({chance.choice(KEYWORDS): chance.choice(ODD)} if chance.random() < 0.08 else {})
    if isinstance(node, list):
        return [_damaged(part, chance) for part in node]
    return chance.choice(ODD) if chance.random() < 0.03 else node


def test_a_damaged_schema_is_read_or_refused_in_a_sentence() -> None:
    read, sentences = 0, list[str]()
    for number in range(800):
        chance = random.Random(number)
        root = _damaged(chance.choice([root for root, *_ in ROOTS.values()]), chance)
        try:
            schema = Tool.of({"name": "t", "parameters": root}).schema if number % 2 else Schema.of(root, free=True)
            usable(schema)
            strict_form(schema.grammar)
            schema.misfit({"a": None, "m": {"a": [1, None]}, "l": [{"a": None}]})
            read += 1
        except ParameterError as refusal:
            sentences.append(str(refusal))
    assert 200 < read < 600
    assert [sentence for sentence in sentences if not sentence.endswith(".")] == []


def test_multiples_are_exact_and_a_pattern_that_only_the_grammar_reads_is_left_to_it() -> None:
    assert misfit({"multipleOf": 0.01}, 19.99) is None
    assert misfit({"multipleOf": 0.01}, 19.999) == "the object: 19.999 is not a multiple of 0.01"
    assert misfit({"pattern": r"^\p{Lu}$"}, "x") is None


def test_no_reference_of_a_schema_is_fetched_from_the_network() -> None:
    with pytest.raises(ParameterError, match=r"cannot follow the references of the schema \(.*http://127.0.0.1:9/x"):
        misfit({"$ref": "http://127.0.0.1:9/x"}, 1)


def _nodes(node: Any) -> list[Any]:
    found = [node]
    mapped(node, lambda part: found.extend(_nodes(part)) if isinstance(part, dict) else None)
    return found


@pytest.mark.parametrize("kind", [kind for kind, *_ in TYPES.values()], ids=TYPES)
def test_servers_get_what_openai_s_strict_mode_accepts_or_a_schema_that_is_not_called_strict(kind: Any) -> None:
    given = create_model("Given", v=(kind, ...), w=(list[Item], []), x=(Item | None, None))
    sent, strict = strict_form(Schema.of(given).grammar)
    for node in _nodes(sent):
        if "properties" in node:
            assert (node["required"], node["additionalProperties"]) == ([*node["properties"]], False)
        assert not {"default", "title", "oneOf", "allOf", "not", "uniqueItems", "propertyNames", "contains"} & {*node}
        assert not strict or {"type", "$ref", "anyOf"} & {*node}
    assert "anyOf" not in sent
    assert [*sent.get("$defs", {})] == [name for name in sent.get("$defs", {}) if f"#/$defs/{name}" in str(sent)]
    if not strict:
        assert any(
            not {"type", "$ref", "anyOf"} & {*node}
            or (node.get("type") == "object" and "properties" not in node)
            or "prefixItems" in node
            for node in _nodes(sent)
        )


def test_unions_at_the_root_become_one_closed_object_for_servers() -> None:
    schema = Schema.of({"oneOf": [CAT, DOG]})
    sent, strict = strict_form(schema.grammar)
    assert strict
    assert sent == object_of(
        {
            "kind": {"enum": ["cat", "dog"], "type": "string"},
            "lives": {"anyOf": [WHOLE, NULL]},
            "name": {"anyOf": [NULL, TEXT]},
        }
    )
    both = {"kind": "cat", "lives": 9, "name": "Rex"}
    assert misfit(sent, both) is None
    assert schema.misfit(both) is not None
    assert schema.validated({"kind": "cat", "lives": 9, "name": None}) == {"kind": "cat", "lives": 9}


@pytest.mark.parametrize("read", [Schema.of, lambda root: Tool.of({"name": "t", "parameters": root}).schema])
def test_a_field_that_no_grammar_can_have_is_named(read: Callable[[Any], Schema]) -> None:
    with pytest.raises(ParameterError, match="cannot make a grammar from the field 'b' of the schema: Unsatisfiable"):
        usable(read(has({"a": {"type": "string", "format": "path"}, "b": {"enum": []}})))
