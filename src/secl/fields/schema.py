"""JSON Schemas as lists of fields: which values an object has, and which object a model may write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, PydanticInvalidForJsonSchema, ValidationError

from secl.display import excerpt
from secl.errors import ParameterError, QuestionError
from secl.fields.alternatives import Alternative, Reader
from secl.fields.json_schema import NULL, TYPE_OF, Node, check_schema, listed, misfit, modern

Kind = Literal["text", "number", "choice", "tool", "json"]
"""Kind of a value. A "choice" is one value of an enumeration, or a boolean; a "tool" is the choice of a tool. All other
values, such as lists and dates, are "json"."""

_KINDS: Mapping[object, Kind] = {"string": "text", "number": "number", "integer": "number"}
_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_SCHEMA = "give a pydantic class, a JSON Schema, or a mapping of names to descriptions"


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
        grammar: JSON Schema of the object that the model writes; `Reader.written` describes it.
        source: reader of the given schema.
        made_by: the pydantic class of the object; None for a plain mapping.
    """

    leaves: tuple[Leaf, ...]
    grammar: Node
    source: Reader
    made_by: type[BaseModel] | None = None

    @classmethod
    def anything(cls) -> Schema:
        """Return the schema of any object."""
        return cls.of({"type": "object"}, free=True)

    @classmethod
    def of(cls, schema: object, *, free: bool = False, complete: bool = True) -> Schema:
        """Read a pydantic class, a JSON Schema, or a mapping of names to descriptions.

        Args:
            free: whether to accept the JSON Schema of an object without known fields.
            complete: whether a written object has every key; null then stands for an absent value. If False, keys that
                are not required may be missing, as in the arguments of a call.

        Raises:
            ParameterError: the argument has another form, or has no fields.

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
            root = schema
            if all(isinstance(text, str) for text in schema.values()) and schema.get("type") not in _TYPES:
                fields = {name: {"type": ["string", "null"], "description": text} for name, text in schema.items()}
                root = {"type": "object", "properties": fields, "required": [*fields]}
        else:
            raise ParameterError(f"{excerpt(repr(schema), 60)} is not a schema; {_SCHEMA}.")
        root = modern(root)
        check_schema(json.dumps(root))
        reader = Reader(root, complete)
        found = reader.objects()
        leaves = (*_fields(reader, found, ()),)
        if not found or not (leaves or free):
            raise ParameterError(f"the schema describes no object with fields; {_SCHEMA}.")
        return cls(leaves, reader.written(), reader, made_by)

    def leaves_in(self, written: Mapping[str, Any]) -> tuple[Leaf, ...]:
        """Return the fields of a written object.

        If the schema names no fields, each top-level key is a field. An object without keys is itself the only field.

        >>> [leaf.name for leaf in Schema.anything().leaves_in({"total": 12.5})]
        ['total']
        """
        found = (_leaf({"type": TYPE_OF[type(value)]}, (key,), nullable=False) for key, value in written.items())
        return self.leaves or (*found,) or (_leaf({"type": "object"}, (), nullable=False),)

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence for each keyword that constrains no model, so that secl only checks the written object."""
        return tuple(remark_of(key, path) for key, path in self.source.left_out)

    def misfit(self, written: dict[str, Any]) -> str | None:
        """Return why a written object does not satisfy `grammar` or the given schema; None if it satisfies both."""
        return misfit(self.grammar, written) or misfit(self.source.root, self._present(written))

    def validated(self, written: dict[str, Any]) -> Any:
        """Return an instance of the pydantic class, or the dictionary without absent fields.

        Raises:
            QuestionError: the given schema, or a validator of the class, rejects the object.
        """
        value, name, fault = self._present(written), "the schema", None
        try:
            if self.made_by is not None:
                name = self.made_by.__name__
                return self.made_by.model_validate_json(json.dumps(value))
            fault = misfit(self.source.root, value)
        except ValidationError as problem:
            first = problem.errors()[0]
            fault = f"{'/'.join(map(str, first['loc'])) or 'the object'}: {first['msg']}"
        if fault is None:
            return value
        raise QuestionError(
            f"the model's object does not fit {name} ({fault}); relax the {'class' if self.made_by else 'schema'}, or "
            "explain the rule in the description of a field."
        )

    def _present(self, written: dict[str, Any]) -> Any:
        """Return an object without the nulls that stand for absent values."""
        return self.source.without_absent(written, [self.source.root])

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


def remark_of(keyword: str, path: str) -> str:
    """Return the sentence about a keyword of a field that constrains no model."""
    name = f"the field {path!r}" if path else "the object"
    return f"{keyword} of {name} does not constrain the model; secl checks it in the written object."


def _fields(reader: Reader, found: Sequence[Alternative], path: tuple[str, ...]) -> Iterator[Leaf]:
    """Yield the fields of an object, in the order in which the model writes the fields.

    `found` has the alternatives of the object. A field of one of them may be absent in the others.
    """
    for name in dict.fromkeys(name for each in found for name in each.properties):
        within, place = [each for each in found if name in each.properties], (*path, name)
        inner = [one for each in within for one in reader.alternatives(each.properties[name], place, each.within)]
        values = [one.node for one in inner if not one.is_null]
        if not values:
            values = [dict(NULL)] if inner else []
        first = next((one for one in inner if one.properties), None)
        if first is not None and all(node == first.node for node in values):
            yield from _fields(reader, [first], place)
        elif values:
            optional = len(within) < len(found) or any(name not in each.required for each in within)
            nullable = optional or any(one.is_null or None in listed(one.node) for one in inner)
            yield _leaf(_union(values), place, nullable=nullable)


def _union(nodes: Sequence[Node]) -> Node:
    """Return one node for a field's alternatives: an enumeration of all values, or else a node without a type."""
    texts = [text for node in nodes if isinstance(text := node.get("description"), str)]
    described = {"description": texts[0]} if texts else {}
    if all(map(listed, nodes)) and len(nodes) > 1:
        values = {json.dumps(value): value for node in nodes for value in listed(node)}
        return {**described, "enum": [*values.values()]}
    return nodes[0] if all(node == nodes[0] for node in nodes) else described


def _leaf(node: Node, path: tuple[str, ...], *, nullable: bool) -> Leaf:
    values, kind = listed(node), node.get("type")
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
    description = node.get("description", "")
    return Leaf(path, "choice" if values else other, title, description if isinstance(description, str) else "", values)
