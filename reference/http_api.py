"""The page of the HTTP API, from the server's own description (`/openapi.json`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reference.tables import code, prose, table
from secl.calibrator import Calibrator
from secl.server.http.process import create_app
from secl.server.online.service import Service, create_state, serving_settings
from secl.testing import ScriptedModel

Schema = dict[str, Any]

INTRODUCTION = """# HTTP reference

A server describes the same routes at `/openapi.json`. [The server](../server.md#http) explains the fields and the
differences from OpenAI's API. Errors have OpenAI's form ([ErrorReply](#errorreply)):

| code | reason |
|---|---|
| 400 | The request is not valid or not supported. |
| 401, 403 | The key is missing, or lacks the role. |
| 404 | The route or the record does not exist. |
| 413 | The body or a text is too large. |
| 429 | Too many requests wait. |
| 500, 502 | The model, or the server in front of which secl runs, failed to answer. |
| 503 | The server cannot answer at present. |
"""


def page() -> str:
    """Return the page in Markdown."""
    described = description()
    routes = [
        _route(method, path, route) for path, methods in described["paths"].items() for method, route in methods.items()
    ]
    schemas = [_schema(name, schema) for name, schema in sorted(described["components"]["schemas"].items())]
    parts = [INTRODUCTION, "## Routes", *routes, "## Bodies and replies", *schemas]
    return "\n\n".join(parts) + "\n"


def description() -> Schema:
    """Return the OpenAPI description of a server, without a model or a thread."""
    model, settings = ScriptedModel(), serving_settings()
    with TemporaryDirectory() as folder, create_state(Path(folder) / "state", settings, "full", model) as state:
        return create_app(
            Service(Calibrator(model, method="secl"), Calibrator(ScriptedModel(), method="secl"), state)
        ).openapi()


def _route(method: str, path: str, route: Schema) -> str:
    parts = [f"### `{method.upper()} {path}`", prose(route.get("description") or route.get("summary", ""))]
    if "parameters" in route:
        rows = [
            (code(each["name"]), _type(each["schema"]), _default(each["schema"]), each.get("description", ""))
            for each in route["parameters"]
        ]
        parts.append(table(("parameter", "type", "default", "meaning"), rows))
    body = _json(route.get("requestBody", {}))
    if body:
        parts.append(f"Body: {_type(body)}.")
    reply = _json(route.get("responses", {}).get("200", {}))
    if reply:
        parts.append(f"Reply: {_type(reply)}.")
    return "\n\n".join(parts)


def _json(message: Schema) -> Schema:
    """Return the schema of a JSON body or reply; empty without one."""
    schema: Schema = message.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _schema(name: str, schema: Schema) -> str:
    parts = [f"### {name}", prose(schema.get("description", ""))]
    needed = schema.get("required", ())
    rows = [
        (code(key), _type(field), "required" if key in needed else _default(field), field.get("description", ""))
        for key, field in schema.get("properties", {}).items()
    ]
    if any(row[-1] for row in rows):
        parts.append(table(("field", "type", "default", "meaning"), rows))
    elif rows:
        parts.append(table(("field", "type", "default"), [row[:-1] for row in rows]))
    return "\n\n".join(part for part in parts if part)


def _type(schema: Schema) -> str:
    """Return the type of a value in words; a named schema becomes a link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{_anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(code(str(each)) for each in schema.get("enum", [schema.get("const")]))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        words = f"list of {_type(schema.get('items', {}))}"
    else:
        words = {"object": "object", "integer": "whole number", "null": "null", "boolean": "true or false"}.get(
            kind, kind
        )
    return " ".join([words, *_bounds(schema)])


def _bounds(schema: Schema) -> Iterator[str]:
    """Yield the limits of a value in words."""
    words = {
        "minimum": "from {}",
        "exclusiveMinimum": "above {}",
        "maximum": "up to {}",
        "exclusiveMaximum": "below {}",
        "minLength": "of at least {} characters",
        "maxLength": "of up to {} characters",
        "maxItems": "of up to {}",
    }
    for key, sentence in words.items():
        if key in schema:
            yield sentence.format(f"{schema[key]:.15g}")


def _default(schema: Schema) -> str:
    return code("null" if schema["default"] is None else str(schema["default"])) if "default" in schema else ""


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", name.lower())
