"""JSON objects that satisfy a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from secl.backends.base import Bundle, Span
from secl.backends.generation import Draft
from secl.backends.local.constrained import After, Drawn, GrammarWriter, Row, Task
from secl.backends.local.fast.batch import Batch, KeptRow, go_on
from secl.backends.local.fast.replay import Pass
from secl.backends.token_ids import distinct_tokens
from secl.errors import TooLongError, UnfinishedError
from secl.evidence import Thought
from secl.fields.extraction import ObjectRequest
from secl.fields.redrawn import UncertainValue, composed, uncertain_places, uncertain_values
from secl.fields.values import OpenedObject, WrittenObject
from secl.fields.weighing import FIXED_KINDS, is_certain

SHORTEST = 8
"""Tokens of the shortest field with its name; secl refuses a document that leaves less room for each field."""


@dataclass
class ValueRow(Row):
    """A row that begins like the most probable object and ends after one value."""

    value: UncertainValue = field(kw_only=True)
    text: Callable[[Row], WrittenObject] = field(kw_only=True)

    def ended(self) -> bool:
        return super().ended() or self.value.value_in(self.text(self).text) is not None


class ObjectWriter(GrammarWriter[ObjectRequest, WrittenObject]):
    """Writes JSON objects of a schema."""

    method = "extract"
    keeps = True

    def thought(self, request: ObjectRequest) -> Draft:
        self.asker.prompting.check_length(request.question, self.backend.limit)
        return self.asker.prompting.thought(request.question, self.backend.limit)

    def task(self, request: ObjectRequest, thought: Thought | None = None) -> Task[ObjectRequest]:
        begun, fields = self.grammars.of_schema(request.schema.grammar), len(request.schema.leaves)
        prompt = self.asker.prompting.answer(request.question, None if thought is None else thought.text)
        room = self.backend.limit - len(prompt)
        if room < SHORTEST * fields:
            raise TooLongError(
                f"the document takes {len(prompt)} tokens with its instructions, which leaves {max(0, room)} of the "
                f"{self.backend.limit} that the model can read for an object of {fields} fields; shorten the document, "
                "or ask for fewer fields."
            )
        return Task(request, (*prompt,), begun, min(room, request.most_tokens))

    def read(self, task: Task[ObjectRequest], row: Row) -> WrittenObject | None:  # noqa: ARG002
        return self.text_of(row) if row.matcher.is_accepting() else None

    def drawn(
        self,
        after: After,
        tasks: Sequence[Task[ObjectRequest]],
        best: Sequence[Row],
        greedy: Sequence[WrittenObject | None],
        counts: Sequence[int],
    ) -> list[Drawn[WrittenObject]]:
        """Draw the uncertain values again; draw whole objects if the best row has no kept keys and values."""
        values: list[Sequence[UncertainValue]] = [
            ()
            if text is None or not count or row.kept is None
            else uncertain_values(text, uncertain_places(task.request.schema, text))
            for task, row, text, count in zip(tasks, best, greedy, counts, strict=True)
        ]
        rest = [0 if own else count for own, count in zip(values, counts, strict=True)]
        found = super().drawn(after, tasks, best, greedy, rest)
        wanted = [
            (number, value, sample)
            for number, own in enumerate(values)
            for value in own
            for sample in range(counts[number])
        ]

        def row_of(each: tuple[int, UncertainValue, int]) -> Row:
            number, value, sample = each
            row, begun = self.sample(tasks[number], f"object {sample}/{value.first}"), best[number]
            row.matcher.consume_tokens(begun.tokens[: value.first])
            parts = begun.tokens[: value.first], begun.log_p[: value.first], begun.entropy[: value.first]
            return ValueRow(row.matcher, row.limit, row.generator, *parts, value=value, text=self.text_of)

        def begin(some: Sequence[tuple[int, UncertainValue, int]]) -> Batch:
            return go_on(self.backend.model, [self._before(tasks[n], best[n], value) for n, value, _ in some])

        rows = self.finish_all(wanted, [tasks[number].tokens for number, _, _ in wanted], row_of, begin)
        drawn = dict(zip(wanted, rows, strict=True))
        for number, (text, own) in enumerate(zip(greedy, values, strict=True)):
            if text is not None and own:
                samples: list[WrittenObject | None] = [
                    composed(text, {value: self.text_of(drawn[number, value, sample]) for value in own})
                    for sample in range(counts[number])
                ]
                tokens = sum(len(row.tokens) - value.first for (of, value, _), row in drawn.items() if of == number)
                found[number] = samples, tokens
        return found

    def again(
        self,
        tasks: Sequence[Task[ObjectRequest]],
        begun: Sequence[Pass] | None,
        greedy: Sequence[WrittenObject | None],
    ) -> list[tuple[WrittenObject | None, int]]:
        """Read values as the reply to a request for one field alone, which shares the document's keys and values.

        A certain text is not read again. Values after a thought are not read again, because the thought decides them.
        """
        wanted = [
            (number, name, span)
            for number, (task, text) in enumerate(zip(tasks, greedy, strict=True))
            if text is not None and task.thought is None
            for name, span in self._alone(task.request, text)
        ]
        bundles = []
        for number, _, span in wanted:
            prompt = tasks[number].prompt
            draft = None if begun is None else Draft([*prompt], "text", 0, begun=begun[number])
            bundles.append(Bundle(() if draft is None else [prompt], spans=[span], draft=draft))
        log_p = [reading.likelihoods()[0] for reading in self.backend.read(bundles)]
        found: list[tuple[WrittenObject | None, int]] = []
        for number, (task, text) in enumerate(zip(tasks, greedy, strict=True)):
            own = [(name, span, value) for (of, name, span), value in zip(wanted, log_p, strict=True) if of == number]
            _, tokens = distinct_tokens([task.prompt], [span.tokens[:-1] for _, span, _ in own])
            found.append((text and replace(text, alone={name: value for name, _, value in own}), tokens))
        return found

    def _alone(self, request: ObjectRequest, text: WrittenObject) -> Iterator[tuple[str, Span]]:
        """Yield the fields to read again: their names, and the spans of their values in objects with one field."""
        own = OpenedObject.of(text)
        for leaf in request.schema.leaves_in(own.value):
            parts = own.alone(leaf)
            if parts is not None and (leaf.kind in FIXED_KINDS or not is_certain(text, own.place_of(leaf))):
                span = self.asker.prompting.span(request.about(leaf), *parts)
                if len(span.tokens) <= self.backend.limit:
                    yield leaf.name, span

    def _before(self, task: Task[ObjectRequest], row: Row, value: UncertainValue) -> tuple[KeptRow, int, int]:
        """Return the kept row, the number of tokens before the token that precedes a value, and this token."""
        assert row.kept is not None  # noqa: S101
        return row.kept, len(task.prompt) + value.first - 1, row.tokens[value.first - 1]

    def unfinished(self, task: Task[ObjectRequest]) -> UnfinishedError:
        return task.request.unfinished(task.limit)
