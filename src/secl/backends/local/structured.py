"""JSON objects and tool calls of a model in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from secl.backends.local.asking.asker import Asker
from secl.backends.local.backend import LocalBackend
from secl.backends.local.calls import CallWriter
from secl.backends.local.objects import ObjectWriter
from secl.backends.local.reasoned import write_reasoned
from secl.errors import SeclError
from secl.fields.calls import WrittenReply
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.fields.values import WrittenObject


class StructuredWriting:
    """The part of `secl.backends.local.model.LocalModel` that writes under a grammar."""

    name: str
    backend: LocalBackend
    asker: Asker

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write JSON objects with the frozen weights; see `secl.fields.extraction.WritesObjects`.

        Raises:
            ParameterError: servers answer for this model, or llguidance is missing.
            ModelError: llguidance cannot read the model's tokenizer.
        """
        if self.objects.thinks:
            return write_reasoned(self.objects, requests)
        return self.objects.write(requests, samples)

    def check_schema(self, schema: Schema) -> None:
        """Check that a schema can constrain the model.

        Raises:
            ParameterError, ModelError: the schema cannot constrain the model; or as for `write_objects`.
        """
        self.objects.begun(schema.grammar)

    @cached_property
    def objects(self) -> ObjectWriter:
        """Writes JSON objects."""
        return ObjectWriter(self.backend, self.asker, self.name)

    def write_calls(
        self, requests: Sequence[CallRequest], samples: Callable[[CallRequest, WrittenReply], int]
    ) -> list[Objects[WrittenReply] | SeclError]:
        """Write replies with calls of tools with the frozen weights; see `secl.fields.calls.WritesCalls`.

        Raises:
            ParameterError, ModelError: as for `write_objects`.
        """
        if self.calls.thinks:
            return write_reasoned(self.calls, requests)
        return self.calls.write(requests, samples)

    @cached_property
    def calls(self) -> CallWriter:
        """Writes replies with calls of tools."""
        return CallWriter(self.backend, self.asker, self.name)
