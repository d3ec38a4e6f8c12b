"""llguidance with the tokenizer of a model: compiles grammars, and tells which tokens a grammar allows next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secl.backends.chat_templates import Tokenizer
from secl.errors import ModelError, ParameterError, needs
from secl.fields.schema import Node

WHITESPACE = r"\x20|\x0A\x20{0,32}"
"""Optional space between two parts of an object: a space, or a line break with its indent. Without this limit, a
model might write spaces without end."""


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

    def of_schema(self, schema: Node) -> Any:
        """Return the matcher of a JSON object before its first token.

        Raises:
            ParameterError: llguidance rejects the schema.
        """
        fault = "secl cannot make a grammar from the schema"
        try:
            grammar = self._matcher.grammar_from_json_schema(dict(schema), overrides={"whitespace_pattern": WHITESPACE})
        except ValueError as problem:
            raise ParameterError(f"{fault}: {' '.join(str(problem).split()).rstrip('.')}.") from problem
        return self.started(grammar, fault)

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
