"""JSON objects and tool calls of a model in this process, at once or after thoughts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.backend import LocalBackend
from secl.backends.local.calls import CallWriter
from secl.backends.local.constrained import GrammarWriter, R, W
from secl.backends.local.objects import ObjectWriter
from secl.errors import SeclError
from secl.fields.calls import WrittenReply
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.fields.values import WrittenObject

FURTHER = 2
"""Maximum number of further thoughts about a request."""


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
        return _written(self.objects, requests, samples)

    def check_schema(self, schema: Schema) -> None:
        """Check that a schema can constrain the model.

        Raises:
            ParameterError, ModelError: the schema cannot constrain the model; or as for `write_objects`.
        """
        self.objects.grammars.of_schema(schema.grammar)

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
        return _written(self.calls, requests, samples)

    @cached_property
    def calls(self) -> CallWriter:
        """Writes replies with calls of tools."""
        return CallWriter(self.backend, self.asker, self.name)


def _written(
    writer: GrammarWriter[R, W], requests: Sequence[R], samples: Callable[[R, W], int]
) -> list[Objects[W] | SeclError]:
    """Write texts and `samples` samples; a model that thinks samples one text after each further thought.

    A thought settles the model's answer, so draws after the same thought would repeat the text. The first thought is
    greedy. The model draws a second thought for every request. It draws a third thought if the first two led to
    different values.
    """
    if not writer.thinks:
        return writer.write(requests, samples)
    outcomes: dict[int, Objects[W] | SeclError] = {}
    thoughts: dict[int, Draft] = {}
    for n, request in enumerate(requests):
        try:
            thoughts[n] = writer.thought(request)
        except SeclError as problem:
            outcomes[n] = problem
    outcomes |= _behind(writer, requests, thoughts)
    for number in range(1, FURTHER + 1):
        unsettled = {n: known for n, known in outcomes.items() if isinstance(known, Objects) and not _settled(known)}
        further = {n: _further(writer, requests[n], thoughts[n], number) for n in unsettled}
        for n, found in _behind(writer, requests, further).items():
            outcomes[n] = _with_sample(unsettled[n], found, thoughts[n].prompt)
    return [outcomes[n] for n in range(len(requests))]


def _behind(
    writer: GrammarWriter[R, W], requests: Sequence[R], thoughts: dict[int, Draft]
) -> dict[int, Objects[W] | SeclError]:
    """Write thoughts, and the most probable text after each thought; keys are the numbers of the requests."""
    drafts = [*thoughts.values()]
    writer.asker.think(drafts)
    found = writer.write([requests[n] for n in thoughts], lambda *_: 0, drafts)
    return dict(zip(thoughts, found, strict=True))


def _further(writer: GrammarWriter[R, W], request: R, first: Draft, number: int) -> Draft:
    """Return an unwritten draft of a drawn thought; the network reads the prompt of the first thought only once."""
    begun = None if first.begun is None else first.begun.beginning(len(first.prompt))
    again = replace(first, written=[], thought=None, begun=begun)
    return writer.asker.drawn(again, request.question, f"thought {number}")


def _settled(written: Objects[W]) -> bool:
    """Return whether a further thought led to the same values as the first."""
    return any(each is not None and each.value == written.greedy.value for each in written.samples)


def _with_sample(known: Objects[W], found: Objects[W] | SeclError, prompt: Sequence[int]) -> Objects[W]:
    """Return texts with a further sample; its cost excludes the prompt of the thoughts, which counts already."""
    if isinstance(found, SeclError):
        return replace(known, samples=(*known.samples, None))
    sampling = known.ledger.sampling + found.ledger.answering - len(prompt)
    return replace(known, samples=(*known.samples, found.greedy), ledger=replace(known.ledger, sampling=sampling))
