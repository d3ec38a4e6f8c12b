"""Writing of JSON objects, and the thoughts before objects and tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from secl.backends.base import Bundle, Continuation
from secl.backends.generation import Generation
from secl.backends.local.constrained import SPACED, After, GrammarRow, GrammarWriter, R, Task, W, usable
from secl.backends.local.fast.batch import Batch, KeptRow, go_on
from secl.backends.token_ids import distinct_tokens
from secl.errors import SeclError, TooLongError, UnfinishedError
from secl.evidence import Thought
from secl.fields.extraction import ObjectRequest, Objects, UncertainValue, composed, uncertain_places, uncertain_values
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.fields.weighing import FIXED_KINDS, is_certain
from secl.ledger import Ledger

SHORTEST = 8
"""Minimum number of tokens of a field with its name; secl refuses a document that leaves less room for each field."""

FURTHER_THOUGHTS = 2
"""Maximum number of thoughts about a request, besides the first."""

ObjectTask = Task[ObjectRequest, WrittenObject]


@dataclass
class ValueRow(GrammarRow):
    """A row that begins like the greedy object and ends after one value."""

    value: UncertainValue = field(kw_only=True)
    text: Callable[[GrammarRow], WrittenObject] = field(kw_only=True)

    def ended(self) -> bool:
        return super().ended() or self.value.value_in(self.text(self).text) is not None


class ObjectWriter(GrammarWriter[ObjectRequest, WrittenObject]):
    """Writes JSON objects of a schema."""

    method = "extract"
    keeps = True

    def remarks(self, schema: Schema) -> tuple[str, ...]:
        """Return a sentence for each keyword that cannot constrain the model; see `usable`."""
        return usable(schema)[1]

    def thought(self, request: ObjectRequest) -> Generation:
        self.driver.prompting.check_length(request.question, self.backend.limit)
        return self.driver.prompting.thought(request.question, self.backend.limit)

    def task(self, request: ObjectRequest, thought: Thought | None = None) -> ObjectTask:
        grammar = self._matcher.grammar_from_json_schema({**usable(request.schema)[0], **SPACED})
        begun, fields = self.started(grammar, "schema"), len(request.schema.leaves)
        prompt = self.driver.prompting.answer(request.question, None if thought is None else thought.text)
        room = self.backend.limit - len(prompt)
        if room < SHORTEST * fields:
            raise TooLongError(
                f"the text takes {len(prompt)} tokens with its instructions, so only {max(0, room)} of the model's "
                f"{self.backend.limit} tokens remain for the object (number of fields: {fields}); shorten the text, or "
                "ask for fewer fields."
            )
        return ObjectTask(request, (*prompt,), begun, min(room, request.most_tokens))

    def read(self, task: ObjectTask, row: GrammarRow) -> WrittenObject | None:  # noqa: ARG002
        return self.text_of(row) if row.matcher.is_accepting() else None

    def draw(self, after: After, tasks: Sequence[ObjectTask]) -> None:
        """Sample each uncertain value again; sample whole objects if single values cannot be sampled."""
        wanted: list[tuple[ObjectTask, UncertainValue, int]] = []
        whole = []
        for task in tasks:
            values: Sequence[UncertainValue] = ()
            if task.text is not None and task.count and task.best.kept is not None:
                values = uncertain_values(task.text, uncertain_places(task.request.schema, task.text))
            wanted += [(task, value, number) for value in values for number in range(task.count)]
            if not values:
                whole.append(task)
        super().draw(after, whole)

        def row_of(each: tuple[ObjectTask, UncertainValue, int]) -> GrammarRow:
            task, value, number = each
            row, best = self.sample(task, f"object {number}/{value.first}"), task.best
            row.matcher.consume_tokens(best.written[: value.first])
            parts = best.written[: value.first], best.log_p[: value.first], best.entropy[: value.first]
            return ValueRow(row.matcher, row.limit, row.stream, *parts, value=value, text=self.text_of)

        def begin(some: Sequence[tuple[ObjectTask, UncertainValue, int]]) -> Batch:
            return go_on(self.backend.model, [_find_entry(task, value) for task, value, _ in some])

        rows = self.finish_all(wanted, row_of, begin)
        for task in tasks:
            own = {(value, number): row for (of, value, number), row in zip(wanted, rows, strict=True) if of is task}
            if own and task.text is not None:
                task.samples = [
                    composed(task.text, {value: self.text_of(row) for (value, n), row in own.items() if n == number})
                    for number in range(task.count)
                ]
                task.sampling = sum(len(row.written) - value.first for (value, _), row in own.items())

    def read_again(self, tasks: Sequence[ObjectTask]) -> None:
        """Read the likelihood of each value in the reply to a request for this field alone.

        These requests reuse the keys and values of the document's tokens. secl skips texts whose tokens are all
        certain. secl also skips values after a thought, because the thought decides the values.
        """
        wanted = [
            (task, name, span)
            for task in tasks
            if task.text is not None and task.thought is None
            for name, span in self._single_fields(task.request, task.text)
        ]
        bundles = []
        for task, _, span in wanted:
            generation = None if task.forward is None else Generation([*task.prompt], "text", 0, begun=task.forward)
            bundles.append(Bundle(() if generation is None else [task.prompt], spans=[span], generation=generation))
        log_p = [reading.likelihoods()[0] for reading in self.backend.read(bundles)]
        for task in tasks:
            own = [(name, span, value) for (of, name, span), value in zip(wanted, log_p, strict=True) if of is task]
            _, task.reading = distinct_tokens([task.prompt], [span.tokens[:-1] for _, span, _ in own])
            task.text = task.text and replace(task.text, alone={name: value for name, _, value in own})

    def _single_fields(self, request: ObjectRequest, text: WrittenObject) -> Iterator[tuple[str, Continuation]]:
        """Yield the name of each field to read again, and the span of its value in an object with only this field."""
        for leaf in request.schema.leaves_in(text.value):
            parts = text.single(leaf)
            if parts is not None and (leaf.kind in FIXED_KINDS or not is_certain(text, text.place_of(leaf))):
                span = self.driver.prompting.span(request.about(leaf), *parts)
                if len(span.tokens) <= self.backend.limit:
                    yield leaf.name, span

    def unfinished(self, task: ObjectTask) -> UnfinishedError:
        return task.request.unfinished(task.limit, (len(task.prompt), len(task.best.written)))


def _find_entry(task: ObjectTask, value: UncertainValue) -> tuple[KeptRow, int, int]:
    """Return the entry with which `go_on` continues the greedy row at a value."""
    assert task.best.kept is not None  # noqa: S101
    return task.best.kept, len(task.prompt) + value.first - 1, task.best.written[value.first - 1]


def write_all(
    writer: GrammarWriter[R, W], requests: Sequence[R], samples: Callable[[R, W], int]
) -> list[Objects[W] | SeclError]:
    """Write a greedy text and samples for each request.

    After one thought, samples would repeat the greedy text, because a thought settles the answer. So a model that
    thinks samples a second thought for every request, and a third thought if the first two led to different values.
    Each further thought gives one sample.
    """
    if not writer.thinks:
        return writer.write(requests, samples)
    outcomes: dict[int, Objects[W] | SeclError] = {}
    thoughts: dict[int, Generation] = {}
    for n, request in enumerate(requests):
        try:
            thoughts[n] = writer.thought(request)
        except SeclError as problem:
            outcomes[n] = problem
    outcomes |= _write_after_thoughts(writer, requests, thoughts)
    for number in range(1, FURTHER_THOUGHTS + 1):
        unsettled = {n: known for n, known in outcomes.items() if isinstance(known, Objects) and not _is_settled(known)}
        further = {n: _draw_thought(writer, requests[n], thoughts[n], number) for n in unsettled}
        for n, found in _write_after_thoughts(writer, requests, further).items():
            outcomes[n] = _add_sample(unsettled[n], found, thoughts[n].prompt)
    return [outcomes[n] for n in range(len(requests))]


def _write_after_thoughts(
    writer: GrammarWriter[R, W], requests: Sequence[R], thoughts: dict[int, Generation]
) -> dict[int, Objects[W] | SeclError]:
    """Write thoughts, and the greedy text after each thought; keys are the numbers of the requests."""
    generations = [*thoughts.values()]
    writer.driver.think(generations)
    found = writer.write([requests[n] for n in thoughts], lambda *_: 0, generations)
    return dict(zip(thoughts, found, strict=True))


def _draw_thought(writer: GrammarWriter[R, W], request: R, first: Generation, number: int) -> Generation:
    """Return the generation of a sampled thought, which reuses the pass over the prompt of the first thought."""
    begun = None if first.begun is None else first.begun.beginning(len(first.prompt))
    again = replace(first, written=[], decoding_steps=0, thought=None, begun=begun)
    return writer.driver.drawn(again, request.question, f"thought {number}")


def _is_settled(written: Objects[W]) -> bool:
    """Return whether a further thought led to the same values as the first."""
    return any(each is not None and each.value == written.greedy.value for each in written.samples)


def _add_sample(known: Objects[W], found: Objects[W] | SeclError, prompt: Sequence[int]) -> Objects[W]:
    """Return texts with a further sample; the sample's cost excludes `prompt`, whose tokens are counted already."""
    if isinstance(found, SeclError):
        return replace(known, samples=(*known.samples, None))
    sampling = found.ledger.answering - len(prompt)
    further = Ledger(sampling=sampling, steps=found.ledger.steps)
    return replace(known, samples=(*known.samples, found.greedy), ledger=known.ledger + further)
