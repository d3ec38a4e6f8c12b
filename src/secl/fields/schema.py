"""JSON Schemas as lists of fields: which values an object has, and which object a model may write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, PydanticInvalidForJsonSchema, ValidationError

from secl.display import excerpt
from secl.errors import ParameterError, QuestionError

Node = Mapping[str, Any]
"""A JSON Schema, or a part of one."""

Kind = Literal["text", "number", "choice", "tool", "json"]
"""Kind of a value. A "choice" is one value of an enumeration, or a boolean; a "tool" is the choice of a tool. All other
values, such as lists and dates, are "json"."""

_KINDS: Mapping[object, Kind] = {"string": "text", "number": "number", "integer": "number"}
_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_TYPE_OF = {str: "string", float: "number", int: "integer", bool: "boolean", list: "array", dict: "object"}
_TYPE_OF[type(None)] = "null"
_SCHEMA = "give a pydantic class, a JSON Schema, or a mapping of names to descriptions"
_NULL = {"type": "null"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field of an object.

    Attributes:
        path: keys from the root to the field, for example ("vendor", "name").
        kind: kind of the field's values, which decides how secl compares two values.
        title: type of the values in words, for the prompt.
        description: description from the schema, possibly empty.
        values: all values of an enumeration or a boolean; else empty.
    """

    path: tuple[str, ...]
    kind: Kind
    title: str
    description: str
    values: tuple[object, ...] = ()

    @property
    def name(self) -> str:
        """The field's key in the root object, or the JSON pointer (RFC 6901) of a field in a nested object.

        >>> Leaf(("total",), "number", "number", "").name, Leaf(("vendor", "name"), "text", "text", "").name
        ('total', '/vendor/name')
        """
        if len(self.path) == 1 and not self.path[0].startswith("/"):
            return self.path[0]
        return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in self.path)

    @property
    def described(self) -> str:
        """The field's path and description, as they appear in a question.

        >>> Leaf(("vendor", "name"), "text", "text", "Company that sends it").described
        "'vendor/name' (Company that sends it)"
        """
        return f"{'/'.join(self.path)!r}" + (f" ({self.description})" if self.description else "")


@dataclass(frozen=True)
class Schema:
    """The fields of an object.

    Attributes:
        leaves: all fields, in the order in which the model writes the fields; empty if the schema names no fields.
        grammar: JSON Schema of the object that the model writes. Every key is required. null stands for an absent
            field.
        absent: paths of optional values for which the schema does not allow null. Here, null means a missing key.
        made_by: the pydantic class of the object; None for a plain mapping.
    """

    leaves: tuple[Leaf, ...]
    grammar: Node
    absent: frozenset[tuple[str, ...]] = frozenset()
    made_by: type[BaseModel] | None = None

    @classmethod
    def anything(cls, grammar: Node = MappingProxyType({"type": "object"})) -> Schema:
        """Return a schema that names no fields; `grammar` must be the JSON Schema of an object."""
        return cls((), grammar)

    @classmethod
    def of(cls, schema: object) -> Schema:
        """Read a pydantic class, a JSON Schema, or a mapping of names to descriptions.

        Raises:
            ParameterError: the argument has another form, is recursive, or has no fields.

        >>> schema = Schema.of({"number": "Number of the invoice", "total": "Amount to be paid"})
        >>> [leaf.name for leaf in schema.leaves]
        ['number', 'total']
        """
        made_by = schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
        if made_by is not None:
            try:
                root: Node = made_by.model_json_schema()
            except PydanticInvalidForJsonSchema as problem:
                raise ParameterError(
                    f"the class {made_by.__name__} has no JSON Schema: {problem.message}."
                ) from problem
        elif isinstance(schema, Mapping) and all(isinstance(name, str) for name in schema):
            root = _described(schema) if _is_descriptions(schema) else schema
        else:
            raise ParameterError(f"{excerpt(repr(schema), 60)} is not a schema; {_SCHEMA}.")
        walk = _Walk(root)
        grammar = walk.node(root, (), ())
        if not walk.leaves:
            raise ParameterError(f"the schema describes no object with fields; {_SCHEMA}.")
        definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
        return cls(tuple(walk.leaves), {**grammar, **definitions}, frozenset(walk.absent), made_by)

    def leaves_in(self, written: Mapping[str, Any]) -> tuple[Leaf, ...]:
        """Return the fields of a written object.

        If the schema names no fields, each top-level key is a field. An object without keys is itself the only field.

        >>> [leaf.name for leaf in Schema.anything().leaves_in({"total": 12.5})]
        ['total']
        """
        found = (_leaf({"type": _TYPE_OF[type(value)]}, (key,), nullable=False) for key, value in written.items())
        return self.leaves or (*found,) or (_leaf({"type": "object"}, (), nullable=False),)

    def validated(self, written: dict[str, Any]) -> Any:
        """Return an instance of the pydantic class, or the dictionary without absent fields.

        Raises:
            QuestionError: a validator of the class rejects the object.
        """
        value = self._pruned(written, ())
        if self.made_by is None:
            return value
        try:
            return self.made_by.model_validate_json(json.dumps(value))
        except ValidationError as problem:
            first = problem.errors()[0]
            place = "/".join(map(str, first["loc"]))
            raise QuestionError(
                f"the model's object does not fit {self.made_by.__name__} ({place or 'the object'}: {first['msg']}); "
                "relax the class, or explain the rule in the description of a field."
            ) from problem

    def _pruned(self, written: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        kept = {name: value for name, value in written.items() if value is not None or (*path, name) not in self.absent}
        nested = {leaf.path[: len(path) + 1] for leaf in self.leaves if len(leaf.path) > len(path) + 1}
        return {
            name: self._pruned(value, (*path, name)) if isinstance(value, dict) and (*path, name) in nested else value
            for name, value in kept.items()
        }

    def listing(self, leaves: Sequence[Leaf] | None = None) -> str:
        """Return some fields, by default all, as lines of a prompt. Nested fields are indented below their object.

        >>> print(Schema.of({"total": "Amount to be paid"}).listing())
        - "total" (text or null): Amount to be paid
        """
        lines: list[str] = []
        before: tuple[str, ...] = ()
        for leaf in self.leaves if leaves is None else leaves:
            *above, name = leaf.path
            for depth, key in enumerate(above):
                if tuple(above[: depth + 1]) != before[: depth + 1]:
                    lines.append(f"{'  ' * depth}- {json.dumps(key, ensure_ascii=False)} (object):")
            before = tuple(above)
            said = f": {' '.join(leaf.description.split())}" if leaf.description else ""
            lines.append(f"{'  ' * len(above)}- {json.dumps(name, ensure_ascii=False)} ({leaf.title}){said}")
        return "\n".join(lines)


def _is_descriptions(schema: Mapping[str, object]) -> bool:
    """Return whether a mapping maps names to descriptions, and is not a JSON Schema."""
    return all(isinstance(text, str) for text in schema.values()) and schema.get("type") not in _TYPES


def _described(descriptions: Mapping[str, object]) -> Node:
    properties = {name: {"type": ["string", "null"], "description": text} for name, text in descriptions.items()}
    return {"type": "object", "properties": properties, "required": [*properties]}


@dataclass
class _Walk:
    """Collects the fields of a schema.

    Attributes:
        root: the whole schema, which contains the targets of all references.
        leaves, absent: as in `Schema`.
    """

    root: Node
    leaves: list[Leaf] = field(default_factory=list)
    absent: set[tuple[str, ...]] = field(default_factory=set)

    def node(self, node: object, path: tuple[str, ...], within: tuple[str, ...], *, required: bool = True) -> Node:
        """Add the fields of a node, and return its grammar; `within` has the references that lead to the node."""
        own, within = self._resolved(node, path, within)
        inner, nullable = _without_null(own)
        inner, within = self._resolved(inner, path, within)
        if not required and not nullable:
            self.absent.add(path)
            nullable = True
        properties = inner.get("properties")
        if not (isinstance(properties, Mapping) and properties):
            if not path:
                raise ParameterError(f"the schema describes no object with fields; {_SCHEMA}.")
            grammar: Node = {"anyOf": [own, _NULL]} if path in self.absent else own
            self.leaves.append(replace(_leaf(inner, path, nullable=nullable), description=_description(own, inner)))
            return grammar
        listed = inner.get("required", ())
        required_names = listed if isinstance(listed, Sequence) else ()
        parts = {
            name: self.node(part, (*path, name), within, required=name in required_names)
            for name, part in properties.items()
        }
        closed: Node = {"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False}
        return {"anyOf": [closed, _NULL]} if nullable and path else closed

    def _resolved(self, node: object, path: tuple[str, ...], within: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        """Return a node with its references resolved, and `within` with these references appended."""
        name = f"the field {'/'.join(path)!r}" if path else "the root"
        while True:
            if not isinstance(node, Mapping):
                raise ParameterError(f"{name} of the schema is {excerpt(repr(node), 40)}, not a JSON Schema.")
            parts = node.get("allOf")
            reference = node.get("$ref")
            if isinstance(parts, Sequence) and len(parts) == 1 and isinstance(parts[0], Mapping):
                node = {**parts[0], **{key: value for key, value in node.items() if key != "allOf"}}
            elif reference is None:
                return node, within
            elif reference in within:
                raise ParameterError(f"{name} of the schema is recursive ({reference}); limit its depth.")
            else:
                within = (*within, str(reference))
                node = {**self._target(str(reference), name), **{k: v for k, v in node.items() if k != "$ref"}}

    def _target(self, reference: str, name: str) -> Node:
        target: Any = self.root
        for key in reference.removeprefix("#").split("/")[1:]:
            target = target.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping) or not reference.startswith("#"):
            raise ParameterError(f"{name} of the schema refers to {reference!r}, which the schema does not have.")
        return target


def _without_null(node: Node) -> tuple[Node, bool]:
    """Return a node without null, and whether the node allowed null."""
    for key in ("anyOf", "oneOf"):
        parts = node.get(key)
        if isinstance(parts, Sequence) and _NULL in parts:
            others = [part for part in parts if part != _NULL]
            rest = {name: value for name, value in node.items() if name != key}
            return ({**others[0], **rest} if len(others) == 1 else {**rest, key: others}), True
    types = node.get("type")
    if isinstance(types, list) and "null" in types:
        others = [name for name in types if name != "null"]
        return {**node, "type": others[0] if len(others) == 1 else others}, True
    return node, None in _listed(node)


def _listed(node: Node) -> tuple[object, ...]:
    """Return the values of an enumeration, a constant or a boolean; else an empty tuple."""
    values = node.get("enum")
    if isinstance(values, list):
        return tuple(values)
    return (node["const"],) if "const" in node else (True, False) if node.get("type") == "boolean" else ()


def _leaf(node: Node, path: tuple[str, ...], *, nullable: bool) -> Leaf:
    values, kind = _listed(node), node.get("type")
    known = isinstance(kind, str)
    if values:
        shown = " or ".join(json.dumps(value, ensure_ascii=False) for value in values)
        title = "true or false" if kind == "boolean" else f"one of {shown}"
    elif known and kind in _KINDS:
        form = node.get("format")
        title = f"{form} as text" if isinstance(form, str) else {"string": "text"}.get(str(kind), str(kind))
    else:
        title = {"array": "list", "object": "object"}.get(str(kind), "value")
    if nullable and None not in values:
        title, values = f"{title} or null", (*values, None) if values else ()
    other: Kind = "json" if not known or "format" in node else _KINDS.get(kind, "json")
    return Leaf(path, "choice" if values else other, title, "", values)


def _description(own: Node, inner: Node) -> str:
    texts = (node.get("description") for node in (own, inner))
    return next((text for text in texts if isinstance(text, str)), "")
