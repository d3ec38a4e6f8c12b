"""JSON Schemas as people and clients write them, reduced to the few keywords that grammars and servers share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from secl.display import excerpt
from secl.errors import ParameterError, needs

Node = Mapping[str, Any]
"""A JSON Schema, or a part of one."""

NULL: Node = {"type": "null"}
TYPE_OF = {
    str: "string", float: "number", int: "integer", bool: "boolean", list: "array", dict: "object", type(None): "null",
}  # fmt: skip
"""JSON Schema's names of the types of parsed values."""

MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE = (
    "items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
"""Keywords whose values are a mapping of schemas, a list of schemas, or a schema."""

VALUES = (
    "type", "enum", "const", "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
"""Keywords that a grammar keeps as they are."""

STRICT_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
"""Formats that OpenAI's strict mode accepts."""

_UNPORTABLE = re.compile(r"\(\?[=!<]|\\[bB1-9]")
"""Parts of patterns that most engines lack: looking around, word boundaries, and references to groups."""


def mapped(node: Node, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a node with all schemas inside it changed."""
    changed = dict(node)
    for key, part in node.items():
        if key in MAPS and isinstance(part, Mapping):
            changed[key] = {name: change(each) for name, each in part.items()}
        elif key in LISTS and isinstance(part, list):
            changed[key] = [change(each) for each in part]
        elif key in SINGLE:
            changed[key] = change(part)
    return changed


def modern(node: Any) -> Any:
    """Return a schema with the keywords of older drafts and of OpenAPI replaced by those of draft 2020-12.

    >>> modern({"type": "integer", "minimum": 0, "exclusiveMinimum": True})
    {'type': 'integer', 'exclusiveMinimum': 0}
    """
    if isinstance(node, list):
        return [*map(modern, node)]
    if not isinstance(node, Mapping):
        return node
    new = mapped({key: part for key, part in node.items() if part is not None or key == "const"}, modern)
    if isinstance(new.get("items"), list):
        new["prefixItems"] = new.pop("items")
        if "additionalItems" in new:
            new["items"] = new.pop("additionalItems")
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(new.get(exclusive), bool) and new.pop(exclusive) and bound in new:
            new[exclusive] = new.pop(bound)
    return {"anyOf": [new, NULL]} if new.pop("nullable", False) is True else new


def listed(node: Node) -> tuple[object, ...]:
    """Return the values of an enumeration, a constant or a boolean; else an empty tuple."""
    values = node.get("enum")
    if isinstance(values, list):
        return tuple(values)
    return (node["const"],) if "const" in node else (True, False) if node.get("type") == "boolean" else ()


def object_of(properties: Node, required: Sequence[str] | None = None) -> Node:
    """Return the schema of an object without other properties; by default, all properties are required."""
    names = [*properties] if required is None else [*required]
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def strict_form(grammar: Node) -> tuple[Node, bool]:
    """Return a written schema for servers, and whether it obeys the rules of OpenAI's strict mode.

    The schema lacks formats and patterns that servers reject, and the branches of the root, which must be an object.
    """
    root = _portable({key: part for key, part in grammar.items() if key != "anyOf"})
    return root, _is_strict(root)


def _portable(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    new = mapped(node, _portable)
    if new.get("format", STRICT_FORMATS[0]) not in STRICT_FORMATS:
        del new["format"]
    if _UNPORTABLE.search(str(new.get("pattern", ""))):
        del new["pattern"]
    if "type" not in new and (values := listed(new)):
        types = sorted({TYPE_OF.get(type(value), "object") for value in values})
        new["type"] = types[0] if len(types) == 1 else types
    return new


def _is_strict(node: Any) -> bool:
    """Return whether each value has a type, each object is closed, and each list has one schema for its items."""
    kind = node.get("type") if isinstance(node, Mapping) else None
    kinds = kind if isinstance(kind, list) else [kind]
    if kind is None and not {"$ref", "anyOf"} & {*(node if isinstance(node, Mapping) else ())}:
        return False
    closed = "properties" in node and node.get("additionalProperties") is False and "patternProperties" not in node
    if ("object" in kinds and not closed) or ("array" in kinds and ("items" not in node or "prefixItems" in node)):
        return False
    inside: list[bool] = []
    mapped(node, lambda part: inside.append(part is False or _is_strict(part)))
    return all(inside)


@cache
def _validator() -> Any:
    """Return jsonschema's validator with exact multiples, and without patterns that Python cannot read."""
    try:
        from jsonschema import Draft202012Validator, ValidationError, validators
    except ImportError as missing:
        raise ParameterError(needs("a JSON Schema", "jsonschema", "fields")) from missing

    def multiple(_: Any, step: Any, number: Any, __: Any) -> Iterator[Any]:
        if (
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and Fraction(str(number)) % Fraction(str(step))
        ):
            yield ValidationError(f"{number!r} is not a multiple of {step!r}")

    def pattern(_: Any, wanted: str, text: Any, __: Any) -> Iterator[Any]:
        try:
            if isinstance(text, str) and not re.search(wanted, text):
                yield ValidationError(f"{text!r} does not match {wanted!r}")
        except re.error:
            return

    return validators.extend(Draft202012Validator, {"multipleOf": multiple, "pattern": pattern})


@lru_cache(256)
def check_schema(schema: str) -> None:
    """Raise a ParameterError if a schema, given as JSON, is not valid; the sentence names the place."""
    validator = _validator()
    from jsonschema.exceptions import SchemaError

    try:
        validator.check_schema(json.loads(schema))
    except SchemaError as problem:
        place = problem.json_path.removeprefix("$.")
        raise ParameterError(f"the schema is not valid ({place}: {excerpt(problem.message, 200)}).") from problem


def misfit(schema: Node, value: object) -> str | None:
    """Return where and why a value does not satisfy a schema; None if it does.

    >>> misfit({"properties": {"total": {"type": "number"}}}, {"total": "x"})
    "total: 'x' is not of type 'number'"
    """
    validator = _validator()
    from jsonschema.exceptions import best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:  # an empty registry, because jsonschema would else fetch references from the network
        problem = best_match(validator(schema, registry=Registry()).iter_errors(value))
    except (Unresolvable, RecursionError) as unusable:
        raise ParameterError(
            f"secl cannot follow the references of the schema ({unusable}); remove them."
        ) from unusable
    if problem is None:
        return None
    return f"{'/'.join(map(str, problem.absolute_path)) or 'the object'}: {excerpt(problem.message, 100)}"
