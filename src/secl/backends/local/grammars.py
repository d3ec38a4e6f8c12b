"""llguidance with the tokenizer of a model: compiles grammars, and tells which tokens a grammar allows next."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secl.backends.chat_templates import Tokenizer
from secl.errors import ModelError, ParameterError, needs
from secl.fields.json_schema import Node, mapped
from secl.fields.schema import Schema, remark_of

WHITESPACE = r"\x20|\x0A\x20{0,32}"
"""Optional space between two parts of an object: a space, or a line break with its indent. Without this limit, a
model might write spaces without end."""


SPACED = {"x-guidance": {"whitespace_pattern": WHITESPACE}}
"""Keyword of a schema that limits the space in objects."""

NARROWING = (
    "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "minProperties", "maxProperties", "patternProperties",
)  # fmt: skip
"""Keywords that only narrow values. A grammar may lack them, because secl also checks the written object."""


def usable(schema: Schema) -> tuple[Node, tuple[str, ...]]:
    """Return the part of a schema that llguidance accepts, and a sentence for each keyword that is left out.

    Raises:
        ParameterError: llguidance rejects the schema even without these keywords; the message names the field.
    """
    grammar, left_out = _accepted(json.dumps(schema.grammar))
    return grammar, schema.remarks + tuple(remark_of(*each) for each in left_out)


@lru_cache(256)
def _accepted(given: str) -> tuple[Node, tuple[tuple[str, str], ...]]:
    """Return what `usable` returns, with keyword and field instead of sentences, for a schema as JSON."""
    schema, left_out = json.loads(given), dict[tuple[str, str], None]()
    if _fault(schema) is None:
        return schema, ()
    grammar = _loosen(schema, (), left_out)
    if (reason := _fault(grammar)) is not None:
        definitions = {"$defs": grammar.get("$defs", {})}
        fields = grammar.get("properties", {}).items()
        names = [name for name, part in fields if _fault({**part, **definitions}) is not None]
        where = f"the field {names[0]!r} of the schema" if names else "the schema"
        raise ParameterError(f"secl cannot make a grammar from {where}: {' '.join(reason.split()).rstrip('.')}.")
    return grammar, tuple(left_out)


def _loosen(node: Any, path: tuple[str, ...], left_out: dict[tuple[str, str], None]) -> Any:
    """Return a node without the keywords that llguidance rejects, and add these keywords to `left_out`."""
    if not isinstance(node, Mapping):
        return node
    new = {key: value for key, value in node.items() if key not in NARROWING}
    bare = {"type": node["type"]} if "type" in node else {}
    for key in NARROWING:
        if key not in node:
            continue
        if _fault(bare | {key: node[key]}) is None:
            bare[key] = new[key] = node[key]
        else:
            left_out[key, "/".join(path)] = None
            if key == "patternProperties":
                new.pop("additionalProperties", None)
    parts = new.get("properties", {})
    inside = {name: _loosen(part, (*path, name), left_out) for name, part in parts.items()}
    new = mapped({**new, "properties": {}} if inside else new, lambda part: _loosen(part, path, left_out))
    return {**new, "properties": inside} if inside else new


def _fault(node: Node) -> str | None:
    """Return why llguidance rejects a schema; None if it accepts the schema."""
    from llguidance import LLMatcher

    try:
        return LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(dict(node))) or None
    except ValueError as problem:
        return str(problem)


class Grammars:
    """Compiles grammars for one tokenizer.

    Args:
        end_ids: ids of the tokens that end a text.
        name: name of the model, for messages.
        method: name of the public method that needs llguidance.

    Raises:
        ParameterError: llguidance is not installed.
        ModelError: llguidance cannot read the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer, end_ids: Collection[int], name: str, method: str) -> None:
        try:
            import llguidance
        except ImportError:
            raise ParameterError(needs(method, "llguidance", "fields")) from None
        self._matcher = llguidance.LLMatcher
        try:
            described = tokenizer.backend_tokenizer.to_str()  # type: ignore[attr-defined]
            self.tokenizer = llguidance.LLTokenizer(described, eos_token=sorted(end_ids))
        except (AttributeError, ValueError) as problem:
            raise ModelError(
                f"llguidance cannot read the tokenizer of the model {name!r} ({problem}); take a model whose folder "
                "has a tokenizer.json."
            ) from problem

    def of_schema(self, schema: Schema) -> Any:
        """Return the matcher of a JSON object before its first token.

        Raises:
            ParameterError: llguidance rejects the schema.
        """
        grammar = self._matcher.grammar_from_json_schema({**usable(schema)[0], **SPACED})
        return self.started(grammar, "secl cannot make a grammar from the schema")

    def remarks(self, schema: Schema) -> tuple[str, ...]:
        """Return a sentence for each keyword that cannot constrain the model; see `usable`."""
        return usable(schema)[1]

    def started(self, grammar: str, fault: str) -> Any:
        """Return a new matcher of a grammar, which has read no token.

        Raises:
            ParameterError: llguidance rejects the grammar; the message begins with `fault`.
        """
        matcher = self._matcher(self.tokenizer, grammar, log_level=0)
        reason = matcher.get_error()
        if reason:
            raise ParameterError(f"{fault}: {' '.join(reason.split()).rstrip('.')}.")
        return matcher

    def texts(self, tokens: Sequence[int]) -> list[bytes]:
        return [self.tokenizer.decode_bytes([token]) for token in tokens]


def allowed_tokens(matcher: Any, width: int | None = None) -> NDArray[np.bool_]:
    """Return whether a grammar allows each token next; `width` sets the length of the result."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little").astype(bool)
    return bits if width is None else np.pad(bits[:width], (0, max(0, width - len(bits))))
