"""Calls of tools with confidences.

Each argument is a field. The choice of a tool, or of no tool, is also a field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from secl.conversation import Message, ToolCall
from secl.display import Shown, excerpt
from secl.errors import SeclError
from secl.evidence import Thought
from secl.fields.extraction import Objects, in_windows
from secl.fields.schema import Leaf, Schema
from secl.fields.tools import NO_TOOL, CallRequest, Tool
from secl.fields.values import Path, Span, WrittenObject, WrittenValue
from secl.fields.weighing import (
    MIN_TOKEN_P,
    SAMPLES,
    Accept,
    FieldCost,
    Weigh,
    reaches,
    weigh_fields,
    weigh_value,
    whole_confidence,
)
from secl.question import Question
from secl.records import Record
from secl.writing import Chunk


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as a model wrote it.

    Attributes:
        arguments: the object with the arguments. Its `ends`, `log_p` and `entropy` cover all tokens of the reply, but
            `ends` count from the start of the object.
        chosen: the name of the tool, with the probability that the model chooses this tool.
    """

    arguments: WrittenObject
    chosen: WrittenValue

    @property
    def name(self) -> str:
        """The tool's name."""
        return str(self.chosen.value)

    def opened(self, schema: Schema) -> WrittenObject:
        """Return the arguments with `gaps`: for each missing argument, the span in which the model skipped it."""
        missing = {leaf.path: _gap(leaf.path, schema, self.arguments.places) for leaf in schema.leaves}
        return replace(self.arguments, gaps={path: gap for path, gap in missing.items() if gap})


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """A reply as a model wrote it.

    Attributes:
        text: the text before the calls, or the whole reply if it has no call.
        ended: the choice to make no call, or no further call; None if the model had no choice, or did not come to it.
        thought: the model's thought before the reply; None if the model answered without a thought.
        cut: whether the token limit cut the text, or came before the choice to make no further call.
    """

    text: str
    calls: tuple[WrittenCall, ...]
    ended: WrittenValue | None
    thought: Thought | None = None
    cut: bool = False

    @property
    def value(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and arguments of each call."""
        return [(call.name, call.arguments.value) for call in self.calls]


def _gap(path: Path, schema: Schema, places: Mapping[Path, Span]) -> Span | None:
    """Return the span in which the model skipped the key at a path; None if the object has the key.

    Keys have the order of the schema, so the span lies between the values of the previous key and the next key.
    """
    depth = next((depth for depth in range(1, len(path) + 1) if path[:depth] not in places), None)
    if depth is None:
        return None
    above = path[: depth - 1]
    keys = list(dict.fromkeys(leaf.path[depth - 1] for leaf in schema.leaves if leaf.path[: depth - 1] == above))
    place = keys.index(path[depth - 1])
    start, end = places[above]
    before = [places[*above, key][1] for key in keys[:place] if (*above, key) in places]
    behind = [places[*above, key][0] for key in keys[place:] if (*above, key) in places]
    return max(before, default=start), min(behind, default=end)


@runtime_checkable
class WritesCalls(Protocol):
    """A model that writes calls of tools."""

    def write_calls(
        self, requests: Sequence[CallRequest], samples: Callable[[CallRequest, WrittenReply], int]
    ) -> list[Objects[WrittenReply] | SeclError]:
        """Write the most probable reply to each request, and draw samples, as in `WritesObjects.write_objects`."""
        ...


@dataclass(frozen=True, repr=False)
class Call(Shown):
    """A call of a tool with its confidences.

    Attributes:
        name: the tool's name.
        arguments: an instance of the tool's pydantic class, or a dictionary.
        confidence: probability in [0, 1] that the tool and all its arguments are correct.
        tool: the record of the model's choice of this tool; None if the model had no choice.
        fields: the record of each argument, as in `Extraction`.
    """

    name: str
    arguments: Any
    confidence: float
    tool: Record | None
    fields: Mapping[str, Record]

    def _facts(self) -> Mapping[str, object]:
        fields = {name: f"{record.text} ({record.confidence:.2f})" for name, record in self.fields.items()}
        return {"name": self.name, "confidence": self.confidence, **fields}


@dataclass(frozen=True, repr=False)
class Calls(Shown):
    """A reply with its calls and their confidences.

    Attributes:
        text: the model's text before the calls, or the whole reply if it has no call.
        calls: the calls in order; empty if the model calls no tool.
        confidence: probability in [0, 1] that exactly these calls are correct; nan if `cut`.
        ended: the record of the choice to make no call, or no further call; None if the model had no choice.
        accept: lowest accepted confidence of a reply; None without a threshold. Records have thresholds of their own.
        turn: the reply as a message, for continuing the conversation.
        tokens: number of tokens of the prompt, and of the reply.
        thought: the model's thought before the reply; None if the model answered without a thought.
        cut: whether the token limit cut the reply, so that the text is not complete, or a call may be missing. A model
            that does not complete a call raises an `UnfinishedError`.
    """

    text: str
    calls: tuple[Call, ...]
    confidence: float
    ended: Record | None
    accept: float | None
    turn: Message
    tokens: tuple[int, int]
    thought: Thought | None = None
    cut: bool = False

    @property
    def accepted(self) -> bool | None:
        """Whether `confidence` reaches `accept`; None without a threshold."""
        return reaches(self.confidence, self.accept)

    @property
    def records(self) -> tuple[Record, ...]:
        """All records: for each call, its tool and its arguments; finally, `ended`."""
        found = [record for call in self.calls for record in (call.tool, *call.fields.values())]
        return tuple(record for record in (*found, self.ended) if record is not None)

    @property
    def written(self) -> Chunk:
        """The text with its thought, to pass to `secl.model.Model.answer` as `written`."""
        prompt, own = self.tokens
        return Chunk(text=self.text, prompt_tokens=prompt, completion_tokens=own, whole_thought=self.thought)

    def _facts(self) -> Mapping[str, object]:
        return {"confidence": self.confidence, "calls": self.calls, "text": excerpt(self.text, 60)}


def weigh_calls(
    model: WritesCalls, requests: Sequence[CallRequest], weigh: Weigh, accept: Accept = lambda: None
) -> Iterator[Calls | SeclError]:
    """Write replies to requests, and yield each reply with its confidences, or its error; see `weigh_objects`."""
    return in_windows(
        requests,
        lambda window: model.write_calls(window, samples_wanted),
        lambda request, written: _weighed(request, written, weigh, accept),
    )


def samples_wanted(request: CallRequest, greedy: WrittenReply) -> int:
    """Return the number of samples to draw in addition to a reply: 0 if every choice and argument is certain."""
    tools = {tool.name: tool for tool in request.tools}
    found = [greedy.ended.log_p] if greedy.ended is not None else []
    for number, call in enumerate(greedy.calls):
        if request.chooses or number > 0:
            found.append(call.chosen.log_p)
        tool, arguments = tools[call.name], call.arguments
        places = map(call.opened(tool.schema).place_of, tool.leaves_in(arguments.value))
        found += [arguments.log_p[token] for place in places for token in arguments.tokens(place)]
    return 0 if min(found, default=0.0) >= math.log(MIN_TOKEN_P) else SAMPLES


def _weighed(request: CallRequest, written: Objects[WrittenReply], weigh: Weigh, accept: Accept) -> Calls:
    """Return a reply with its confidences.

    Raises:
        QuestionError: a validator of the tool's pydantic class rejects the arguments.
    """
    own, tools = written.greedy, {tool.name: tool for tool in request.tools}
    pairs = [_pairs(own.calls, sample) for sample in written.samples if sample is not None]
    leaves = [tools[call.name].leaves_in(call.arguments.value) for call in own.calls]
    cost = written.shared(1 + sum(1 + len(each) for each in leaves))
    offered = tuple(tool.name for tool in request.offered)

    def choice(number: int, reading: WrittenValue | None) -> Record | None:
        """Return the record of the tool of call `number`, or of no tool after the last call; None without a choice."""
        if reading is None or not (request.chooses or number):
            return None
        values = (*offered, NO_TOOL) if request.choice == "auto" or number else offered
        leaf = Leaf(("tool",), "tool", "tool", "", values)
        question = _asked(request, f"{number}/tool", "Which tool is to be called next, if any?", "tool")
        # A reply can begin with many different words, so the confidence does not use the entropy of the first token.
        reading = reading._replace(entropy=math.nan)
        return weigh_value(leaf, question, reading, [chosen[number] for chosen, _ in pairs], cost, weigh)

    calls, every = list[Call](), list[Record]()
    for number, call in enumerate(own.calls):
        tool, chosen = tools[call.name], choice(number, call.chosen)
        others = [each for _, same in pairs if (each := same[number]) is not None]
        fields = _fields(request, tool, number, call, others, cost, weigh)
        value = tool.schema.validated(call.arguments.value)
        parts = (chosen, *(fields[leaf.name] for leaf in leaves[number]))
        whole = [record for record in parts if record is not None]
        every += whole
        calls.append(Call(call.name, value, whole_confidence(whole), chosen, MappingProxyType(fields)))
    ended = choice(len(own.calls), own.ended)
    turn = Message("assistant", own.text, tuple(ToolCall(call.name, call.arguments.text) for call in own.calls))
    if ended is not None:
        every.append(ended)
    confidence = math.nan if own.cut else whole_confidence(every)
    return Calls(own.text, tuple(calls), confidence, ended, accept(), turn, written.tokens, own.thought, own.cut)


def _fields(
    request: CallRequest,
    tool: Tool,
    number: int,
    call: WrittenCall,
    others: Sequence[WrittenCall],
    cost: FieldCost,
    weigh: Weigh,
) -> dict[str, Record]:
    """Return the records of a call's arguments; `others` are the partners of the call in the samples (`_pairs`)."""
    schema, leaves = tool.schema, tool.leaves_in(call.arguments.value)

    def question_of(leaf: Leaf) -> Question:
        text = f"What is the value of {leaf.described} in the call of {tool.name}?"
        asked = _asked(request, f"{number}/{leaf.name}", text, f"{tool.name}.{leaf.name}")
        return replace(asked, form="number") if leaf.kind == "number" else asked

    drawn = [each.opened(schema) for each in others]
    return weigh_fields(leaves, question_of, call.opened(schema), drawn, cost, weigh)


def _asked(request: CallRequest, name: str, text: str, domain: str) -> Question:
    asked = request.question
    return replace(asked, text=f"{asked.text}\n\n{text}", id=f"{asked.id}/{name}", domain=domain, form="short")


def _pairs(
    own: Sequence[WrittenCall], sample: WrittenReply
) -> tuple[list[WrittenValue | None], list[WrittenCall | None]]:
    """Pair the calls of a reply with the calls of a sample.

    A call's partner is the sample's call of the same tool with the most equal arguments.

    Returns:
        the choices of the sample (a tool, or no tool), and the partner of each call, or None. The choices contain one
        item for each call of the reply and one for the end of the reply: the choice of the partner, else of the
        sample's next unpaired call, else of the sample's end.
    """
    left, same = list(sample.calls), list[WrittenCall | None]()
    for call in own:
        value = call.arguments.value
        alike = [sum(value.get(key) == part for key, part in each.arguments.value.items()) for each in left]
        best = max((n for n, each in enumerate(left) if each.name == call.name), key=alike.__getitem__, default=None)
        same.append(None if best is None else left.pop(best))
    rest = iter(left)
    partners = [each or next(rest, None) for each in (*same, None)]
    return [sample.ended if each is None else each.chosen for each in partners], same
