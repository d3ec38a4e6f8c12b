"""JSON objects that satisfy a schema."""

from __future__ import annotations

from typing import Any

from secl.backends.local.constrained import GrammarWriter, Row, Task
from secl.errors import ParameterError, TooLongError, UnfinishedError
from secl.fields.extraction import ObjectRequest
from secl.fields.schema import Node
from secl.fields.values import WrittenObject

WHITESPACE = r"\x20|\x0A\x20{0,32}"
"""Between two parts of an object: nothing, a space, or a line break with its indent; more would never end."""

LEAST_TOKENS = 512
"""Tokens that an object may have, unless its fields need more (`FIELD_TOKENS`)."""

FIELD_TOKENS = 64
"""Tokens that an object may have for each of its fields."""

SHORTEST = 8
"""Tokens of the shortest field with its name: less room for each is none."""


class ObjectWriter(GrammarWriter[ObjectRequest, WrittenObject]):
    """Writes JSON objects of a schema."""

    does = "extract"

    def task(self, request: ObjectRequest) -> Task[ObjectRequest]:
        begun, fields = self._begun(request.schema.grammar), len(request.schema.leaves)
        prompt = self.asker.prompting.answer(request.question)
        room = self.backend.limit - len(prompt)
        if room < SHORTEST * fields:
            raise TooLongError(
                f"the document takes {len(prompt)} tokens with its instructions, which leaves {max(0, room)} of the "
                f"{self.backend.limit} that the model can read for an object of {fields} fields; shorten the document."
            )
        limit = min(room, max(LEAST_TOKENS, FIELD_TOKENS * fields), request.max_tokens or room)
        return Task(request, (*prompt,), begun, limit)

    def _begun(self, grammar: Node) -> Any:
        """Return the matcher of an object before its first token."""
        fault = "the schema cannot constrain a model"
        try:
            compiled = self.matchers.grammar_from_json_schema(
                dict(grammar), overrides={"whitespace_pattern": WHITESPACE}
            )
        except ValueError as problem:
            raise ParameterError(f"{fault}: {' '.join(str(problem).split()).rstrip('.')}.") from problem
        return self.started(compiled, fault)

    def read(self, task: Task[ObjectRequest], row: Row) -> WrittenObject | None:  # noqa: ARG002
        return self.text_of(row) if row.matcher.is_accepting() else None

    def unfinished(self, task: Task[ObjectRequest]) -> UnfinishedError:
        return UnfinishedError(
            f"the model did not close the object within {task.limit} tokens; bound long texts by maxLength in the "
            "schema, ask for fewer fields, or take a larger model."
        )
