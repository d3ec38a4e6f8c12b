"""The alternatives that a JSON Schema permits, and the schema of the objects that a model writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from secl.errors import ParameterError
from secl.fields.json_schema import MAPS, NULL, SINGLE, VALUES, Node, listed, object_of

MAX_ALTERNATIVES = 64
"""Maximum number of alternatives of a node."""

_COMPOUND = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependentRequired")
"""Keywords with which a node refers to other nodes that describe the same value."""

_NARROWING = ("not", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames", "unevaluatedItems")
"""Keywords that no grammar has. They only narrow values, so secl checks them in the written object."""


class Alternative(NamedTuple):
    """A node without references and unions; `within` has the references that lead to the node."""

    node: dict[str, Any]
    within: frozenset[str]

    @property
    def is_null(self) -> bool:
        return self.node.get("type") == "null"

    @property
    def properties(self) -> dict[str, Any]:
        """The properties that the object may have, including required ones; {} if the node names no properties."""
        given, other = self.node.get("properties", {}), self.node.get("additionalProperties", {})
        known = {name: part for name, part in given.items() if part is not False}
        return known and known | {name: other for name in self.required if name not in known}

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.node.get("required", ()))


@dataclass
class Reader:
    """Reads a schema, and writes the schema of the objects that a model may write.

    Attributes:
        root: the whole schema, as `modern` returns it; it contains the targets of all references.
        complete: whether a written object has every key; null then stands for an absent value. If False, keys that are
            not required may be missing.
        definitions: the written definitions, by name.
        left_out: keywords that the written schema lacks, each with the path of its field, in order.
    """

    root: Node
    complete: bool = True
    definitions: dict[str, Node] = field(default_factory=dict)
    left_out: dict[tuple[str, str], None] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def objects(self) -> list[Alternative]:
        """Return the objects that the root permits, one for each branch of its unions."""
        found = self.alternatives(self.root, (), frozenset())
        return [each for each in found if each.node.get("type", "object") == "object"]

    def alternatives(
        self, node: Any, path: Sequence[str], within: frozenset[str], level: frozenset[str] = frozenset()
    ) -> list[Alternative]:
        """Return the alternatives of a node. A reference in `within` is recursive, so it stays a reference.

        Args:
            path: keys from the root to the node, for messages.
            level: references that describe the same value as the node.

        Raises:
            ParameterError: a reference leads nowhere, or the node has too many alternatives.
        """
        if isinstance(node, bool):
            return [Alternative({}, within)] if node else []
        if [*node] == ["$ref"]:
            return self._referred(node["$ref"], path, within, level)
        apart = {*_COMPOUND, "then", "else"} | ({"not"} if _negated(node.get("not")) else set())
        plain = {key: value for key, value in node.items() if key not in apart}
        types = plain.get("type")
        found = [Alternative(self._named(plain, path, within), within)]
        if isinstance(types, list) and "null" in types and len(types) > 1:
            rest = [each for each in types if each != "null"]
            others = found[0].node | {"type": rest[0] if len(rest) == 1 else rest}
            found = [Alternative(others, within), Alternative(dict(NULL), within)]
        for union in _unions(node):
            parts = [each for part in union for each in self.alternatives(part, path, within, level)]
            found = [both for one in found for other in parts if (both := _intersect(one, other)) is not None]
            if len(found) > MAX_ALTERNATIVES:
                sentence = (
                    f"{_name(path)} of the schema has more than {MAX_ALTERNATIVES} alternatives; use fewer unions."
                )
                raise ParameterError(sentence)
        return found

    def _referred(
        self, reference: str, path: Sequence[str], within: frozenset[str], level: frozenset[str]
    ) -> list[Alternative]:
        if reference in level:
            raise ParameterError(f"{_name(path)} of the schema refers only to itself ({reference}); give it a type.")
        if reference in within:
            return [Alternative({"$ref": reference}, within)]
        return self.alternatives(self._target(reference, path), path, within | {reference}, level | {reference})

    def _named(self, node: dict[str, Any], path: Sequence[str], within: frozenset[str]) -> dict[str, Any]:
        """Return an object whose keys come from an enumeration as an object with these optional properties."""
        if "propertyNames" not in node or "properties" in node:
            return node
        keys = [*map(listed, (each.node for each in self.alternatives(node["propertyNames"], path, within)))]
        if not keys or not all(keys):
            return node
        rest = {key: value for key, value in node.items() if key not in ("propertyNames", "additionalProperties")}
        value = node.get("additionalProperties", {})
        return {**rest, "type": "object", "properties": {str(name): value for some in keys for name in some}}

    def _target(self, reference: str, path: Sequence[str]) -> Any:
        target: Any = self.root
        for key in reference.removeprefix("#").split("/")[1:]:
            target = target.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping | bool) or not reference.startswith("#"):
            sentence = f"{_name(path)} of the schema refers to {reference!r}, which the schema does not have."
            raise ParameterError(sentence)
        return target

    def nullable(self, node: Any, path: Sequence[str], within: frozenset[str]) -> bool:
        """Return whether a node names null as a value."""
        return any(each.is_null or None in listed(each.node) for each in self.alternatives(node, path, within))

    def written(self) -> Node:
        """Return the schema of the objects that a model may write.

        If the root has several alternatives, the object has the keys of all, and satisfies one of them.
        """
        found = [self._plain(each, ()) for each in self.objects()]
        if len(found) > 1:
            found = [each if "properties" in each else object_of({}) for each in found]
        names = [*dict.fromkeys(name for each in found for name in each.get("properties", {}))]
        if len(found) == 1:
            grammar: Node = {"type": "object", **found[0]}
        elif self.complete:
            filled = [{name: each["properties"].get(name, NULL) for name in names} for each in found]
            merged = {name: _any([each[name] for each in filled]) for name in names}
            grammar = {**object_of(merged), "anyOf": [*map(object_of, filled)]}
        else:
            ordered = (
                {name: each["properties"][name] for name in names if name in each["properties"]} for each in found
            )
            grammar = {"anyOf": [object_of(part, each["required"]) for part, each in zip(ordered, found, strict=True)]}
        return {**grammar, "$defs": self.definitions} if self.definitions else grammar

    def _object(self, found: Alternative, path: tuple[str, ...]) -> Node:
        """Return the written schema of an object with known properties."""
        self._note(found.node, path)
        required, parts = found.required, dict[str, Node]()
        for name, part in found.properties.items():
            place = (*path, name)
            parts[name] = self.form(part, place, found.within)
            if self.complete and name not in required and not self.nullable(part, place, found.within):
                parts[name] = _any([parts[name], NULL])
        described = {"description": found.node["description"]} if path and "description" in found.node else {}
        return {
            **object_of(parts, None if self.complete else [name for name in parts if name in required]),
            **described,
        }

    def form(self, node: Any, path: tuple[str, ...], within: frozenset[str]) -> Node:
        """Return the written schema of a node. All objects with known properties are closed."""
        if not isinstance(node, Mapping):
            return {} if self.alternatives(node, path, within) else {"enum": []}
        known = {key for key in node if key in (*_COMPOUND, *VALUES, *SINGLE, *MAPS[:2], "prefixItems")}
        union = node.get("anyOf", node.get("oneOf"))
        if known == {"$ref"}:
            return self._reference(node["$ref"], path)
        if known == {"allOf"} and len(node["allOf"]) == 1:
            return self.form(node["allOf"][0], path, within)
        if union is not None and len(known) == 1:
            return _any([self.form(part, path, within) for part in union])
        if not known & {*_COMPOUND, "properties", "propertyNames"}:
            return self._plain(Alternative(dict(node), within), path)
        found = [self._plain(each, path) for each in self.alternatives(node, path, within)]
        if not found:
            raise ParameterError(f"{_name(path)} of the schema permits no value.")
        return _any(found)

    def _plain(self, found: Alternative, path: tuple[str, ...]) -> Node:
        node = found.node
        if "$ref" in node:
            return self._reference(node["$ref"], path)
        if found.properties:
            return self._object(found, path)
        self._note(node, path)
        kept = {key: node[key] for key in (*VALUES, "required", "description") if key in node}
        for key in ("items", "additionalProperties"):
            if key in node:
                part = node[key]
                kept[key] = part if isinstance(part, bool) else self.form(part, (*path, "*"), found.within)
        if "prefixItems" in node:
            kept["prefixItems"] = [
                self.form(part, (*path, str(place)), found.within) for place, part in enumerate(node["prefixItems"])
            ]
        if "patternProperties" in node:
            parts = node["patternProperties"].items()
            kept["patternProperties"] = {name: self.form(part, (*path, name), found.within) for name, part in parts}
        return kept

    def _note(self, node: Node, path: Sequence[str]) -> None:
        for key in _NARROWING:
            if node.get(key) not in (None, False):
                self.left_out[key, "/".join(path)] = None

    def _reference(self, reference: str, path: tuple[str, ...]) -> Node:
        """Return a reference to the written definition of a node."""
        if reference not in self._names:
            target, own = self._target(reference, path), frozenset((reference,))
            self.alternatives(target, path, own, own)  # refuses a definition that refers only to itself
            name = reference.rpartition("/")[2].replace("~", "-").removeprefix("#") or "root"
            name = name if name not in self._names.values() else f"{name}-{len(self._names)}"
            self._names[reference] = name
            self.definitions[name] = self.form(target, path, own)
        return {"$ref": f"#/$defs/{self._names[reference]}"}

    def without_absent(self, value: Any, nodes: Sequence[Any]) -> Any:
        """Return a value that satisfies one of `nodes`, without the nulls that stand for absent values."""
        found = [each for node in nodes for each in self.alternatives(node, (), frozenset())]
        if isinstance(value, list):
            items = [each.node.get("items", True) for each in found]
            first = [each.node.get("prefixItems", []) for each in found]
            return [
                self.without_absent(part, [some[n] for some in first if n < len(some)] or items)
                for n, part in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        kept = {}
        for name, part in value.items():
            parts = [each.properties[name] for each in found if name in each.properties]
            known = parts or [each.node.get("additionalProperties", True) for each in found]
            if part is not None or not parts or any(self.nullable(each, (), frozenset()) for each in parts):
                kept[name] = self.without_absent(part, known)
        return kept


def _name(path: Sequence[str]) -> str:
    return f"the field {'/'.join(path)!r}" if path else "the root"


def _unions(node: Node) -> Iterator[Sequence[Any]]:
    """Yield unions of nodes, which all describe the value of `node` as well."""
    if "$ref" in node:
        yield [{"$ref": node["$ref"]}]
    yield from ([part] for part in node.get("allOf", ()))
    yield from (node[key] for key in ("anyOf", "oneOf") if key in node)
    if "if" in node:
        yield [{"allOf": [node["if"], node.get("then", {})]}, {"allOf": [_negated(node["if"]), node.get("else", {})]}]
    if excluded := _negated(node.get("not")):
        yield [excluded]
    for key, part in node.get("dependentSchemas", {}).items():
        yield [{"required": [key], "allOf": [part]}, {"properties": {key: False}}]
    for key, names in node.get("dependentRequired", {}).items():
        yield [{"required": [key, *names]}, {"properties": {key: False}}]


def _intersect(one: Alternative, other: Alternative) -> Alternative | None:
    """Return the alternative of values that satisfy two alternatives; None if there is no such value."""
    a, b = one.node, other.node
    node = {**b, **a}
    types = [each["type"] if isinstance(each["type"], list) else [each["type"]] for each in (a, b) if "type" in each]
    if len(types) == 2:
        common = [each for each in types[0] if each in types[1] or (each == "integer" and "number" in types[1])]
        if not common and "integer" in types[1] and "number" in types[0]:
            common = ["integer"]
        if not common:
            return None
        node["type"] = common[0] if len(common) == 1 else common
    if (values := _common(a, b)) is not None:
        if not values:
            return None
        node = {key: value for key, value in node.items() if key != "const"} | {"enum": values}
    if "properties" in a or "properties" in b:
        ours, theirs = a.get("properties", {}), b.get("properties", {})
        node["properties"] = {**ours, **theirs} | {
            name: _same(ours[name], theirs[name]) for name in ours if name in theirs
        }
    if "required" in a or "required" in b:
        node["required"] = [*dict.fromkeys((*one.required, *other.required))]
        if any(node.get("properties", {}).get(name) is False for name in node["required"]):
            return None
    return Alternative(node, one.within | other.within)


def _common(a: Node, b: Node) -> list[object] | None:
    """Return the values of two enumerations, or of one without those that the other excludes; None if unknown."""
    values = listed(a), listed(b)
    if all(values):
        return [each for each in values[0] if any(_equal(each, value) for value in values[1])]
    for these, excluded in ((values[0], b.get("not")), (values[1], a.get("not"))):
        if these and isinstance(excluded, Mapping) and listed(excluded):
            return [each for each in these if not any(_equal(each, value) for value in listed(excluded))]
    return None


def _equal(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _same(one: Any, other: Any) -> Any:
    """Return the schema of a property that two nodes describe; False if the property has no value."""
    if one == other or other is True:
        return one
    if False in (one is not False, other is not False):
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping) and (values := _common(one, other)) is not None:
        node = {key: value for key, value in {**other, **one}.items() if key not in ("const", "not")}
        return {**node, "enum": values} if values else False
    return {"allOf": [one, other]}


def _negated(condition: Any) -> Any:
    """Return the negation of a condition about one property or required key; else {}, which is always true."""
    if isinstance(condition, Mapping) and [*condition] == ["anyOf"]:
        return {"allOf": parts} if all(parts := [*map(_negated, condition["anyOf"])]) else {}
    if isinstance(condition, Mapping) and not {*condition} - {"type", "properties", "required"}:
        properties, required = condition.get("properties", {}), condition.get("required", ())
        names = {*properties, *required}
        if len(names) == 1:
            (name,) = names
            part = properties.get(name)
            if part is None:
                return {"properties": {name: False}}
            if isinstance(part, Mapping) and listed(part):
                present = {} if name in required else {"required": [name]}
                return {"properties": {name: {"not": part}}} | present
    return {}


def _any(forms: Sequence[Node]) -> Node:
    """Return the union of forms, in one level and without repetitions."""
    parts: list[Node] = []
    for form in forms:
        inner = form["anyOf"] if [*form] == ["anyOf"] else [form]
        parts += [each for each in inner if each not in parts]
    if all("const" in each or "enum" in each for each in parts):
        values = [value for each in parts for value in listed(each)]
        return parts[0] if len(parts) == 1 else {"enum": values}
    return parts[0] if len(parts) == 1 else {"anyOf": parts}
