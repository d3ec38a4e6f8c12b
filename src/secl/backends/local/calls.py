"""Replies with tool calls, in the form of the model's chat template."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from secl.backends.chat_templates import CallForm
from secl.backends.generation import Generation
from secl.backends.local.constrained import SPACED, GrammarRow, GrammarWriter, Task, allowed_tokens, usable
from secl.errors import ParameterError, TooLongError, UnfinishedError
from secl.evidence import Thought
from secl.fields.calls import WrittenCall, WrittenReply
from secl.fields.extraction import token_limit
from secl.fields.json_schema import Node, modern
from secl.fields.tools import NO_TOOL, CallRequest
from secl.fields.values import WrittenObject, WrittenValue

CLOSING = 32
"""Maximum number of tokens that end a thought and open a reply."""

UNDECIDED = 16
"""Number of tokens after which a sampled reply ends if no call has begun."""

_ANY = r"/(?s:.*)/"

_FENCE, _OBJECT = r"```(json)?[ \n]*", r'\{\{?[ \n]*"name"[ ]*:[ ]*"'
_MIDDLE = r'"[ \n]*,[ \n]*"(arguments|parameters)"[ ]*:[ \n]*'
_CLOSE = r"[ \n]*\}\}?([ \n]*```)?"
"""Patterns of the text around a tool's name in a JSON object, fenced or not.

Qwen2.5-Coder writes such objects whatever its chat template says. Some converted models have templates with doubled
braces, and also write doubled braces.
"""

CallTask = Task[CallRequest, WrittenReply]


def definition_of(function: Callable[..., object]) -> Node:
    """Return a function as a tool in OpenAI's form. The function needs type hints and a Google docstring.

    Raises:
        ParameterError: type hints or descriptions of arguments are missing.
    """
    from transformers.utils.chat_template_utils import (
        DocstringParsingException,
        TypeHintParsingException,
        get_json_schema,
    )

    try:
        definition: dict[str, Any] = get_json_schema(function)["function"]
    except (DocstringParsingException, TypeHintParsingException) as problem:
        name = getattr(function, "__name__", repr(function))
        raise ParameterError(
            f"the function {name!r} cannot be used as a tool: {' '.join(str(problem).split()).rstrip('.')}; give it "
            "type hints and a docstring that describes each argument."
        ) from problem
    return {**definition, "parameters": modern(definition["parameters"])}


@dataclass
class BriefReply(GrammarRow):
    """A row that ends after `UNDECIDED` tokens without a call.

    `begins` returns the index of the first call in the row's text; None without a call.
    """

    begins: Callable[[GrammarRow], int | None] = field(kw_only=True)

    def ended(self) -> bool:
        return super().ended() or (len(self.written) >= UNDECIDED and self.begins(self) is None)


class CallWriter(GrammarWriter[CallRequest, WrittenReply]):
    """Writes replies that consist of text, tool calls, or both."""

    method = "call"

    @cached_property
    def form(self) -> CallForm:
        """The texts before, between and after tool calls in the model's chat template."""
        tokenizer = self.backend.token_ids.tokenizer
        return CallForm.of(tokenizer, [tokenizer.decode([token]) for token in sorted(self.backend.rules.end_ids)])

    @cached_property
    def _special(self) -> Mapping[str, int]:
        """Ids of the special tokens by their texts."""
        added = self.backend.token_ids.tokenizer.get_added_vocab()
        return {text: token for text, token in added.items() if self.tokenizer.is_special_token(token)}

    @cached_property
    def _marker(self) -> int | None:
        """The special token that begins a call; None if plain text begins a call, which then must start the reply."""
        return next((token for text, token in self._special.items() if self.form.opening.startswith(text)), None)

    @cached_property
    def _call_starts(self) -> Tensor:
        """Ids of the tokens that may begin a call."""
        if self._marker is not None:
            return torch.tensor([self._marker])
        return self._beginning(self._literal(self.form.opening))

    @cached_property
    def _name_prefix(self) -> str:
        """Pattern of the text before a tool's name in a JSON object.

        If the chat template writes calls as such objects, the pattern matches only objects in a fenced code block.
        """
        return _FENCE + _OBJECT if re.match(_OBJECT, self.form.opening) else f"({_FENCE})?{_OBJECT}"

    @cached_property
    def _reply_starts(self) -> Tensor:
        """Ids of the tokens that may begin a reply that is a call or a JSON object."""
        if self.form.text:
            return self._call_starts
        return torch.tensor(sorted({*self._call_starts.tolist(), *self._beginning(f"/{self._name_prefix}/").tolist()}))

    def _beginning(self, rule: str) -> Tensor:
        """Return the ids of the tokens that may begin a text under a grammar rule."""
        matcher = self.started(f"start: {rule}", "tools")
        return torch.from_numpy(np.flatnonzero(allowed_tokens(matcher)))

    def _literal(self, text: str) -> str:
        """Return a text as a literal of the grammar language Lark."""
        marks = "|".join(map(re.escape, sorted(self._special, key=len, reverse=True)))
        parts = [part for part in re.split(f"({marks})", text) if part]
        special = self._special
        return " ".join(f"<[{special[p]}]>" if p in special else json.dumps(p, ensure_ascii=False) for p in parts)

    def _grammar(self, request: CallRequest, *, text: bool = True) -> str:
        """Return the grammar of a reply; without `text`, of a reply that has only calls."""
        form, names = self.form, range(len(request.offered))
        opening, between, closing = map(self._literal, (form.opening, form.between or "", form.closing))
        several = f"({between} call)*" if request.parallel and between else ""
        rules = [f"calls: {opening} call {several} {closing}", f"call: {' | '.join(f'call_{n}' for n in names)}"]
        for number, tool in enumerate(request.offered):
            schema = json.dumps({**usable(tool.schema)[0], **SPACED})
            rules += [f"call_{number}: {self._literal(tool.name + form.middle)} arguments_{number}"]
            rules += [f"arguments_{number}: %json {schema}"]
        if request.choice not in ("auto", "none"):
            return "\n".join(["start: calls", *rules])
        begun = self._literal(form.text)
        if begun and not text:
            return "\n".join(["start: calls", *rules])
        if not names:
            return f"start: {begun} TEXT\nTEXT: {_ANY}"
        if begun:
            return "\n".join([f"start: {begun} TEXT | calls", f"TEXT: {_ANY}", *rules])
        objects = " | ".join(f"{json.dumps(tool.name)} MIDDLE arguments_{n}" for n, tool in enumerate(request.offered))
        rules += [f"object: BEFORE ({objects}) CLOSE", f"BEFORE: /{self._name_prefix}/", f"MIDDLE: /{_MIDDLE}/"]
        rules += [f"CLOSE: /{_CLOSE}/"]
        if not text:
            return "\n".join(["start: calls | object", *rules])
        free = f"TEXT: {_ANY} & ~/{self._name_prefix}(?s:.*)/"
        if self._marker is not None:
            return "\n".join(["start: TEXT calls | TEXT | object", free, *rules])
        opened = "".join(char if char.isalnum() else f"\\x{{{ord(char):x}}}" for char in form.opening)
        return "\n".join(["start: TEXT | calls | object", f"{free} & ~/{opened}(?s:.*)/", *rules])

    @property
    def thinks(self) -> bool:
        """Whether the model thinks before a reply.

        Models that think only on request were trained to call tools without a thought, so they skip the thought here.
        """
        return self.driver.prompting.thinks and not self.driver.prompting.thinking_format.request

    def thought(self, request: CallRequest) -> Generation:
        prompt = replace(self.form.prompt(request.prompt), thought="")
        generation = self.driver.prompting.thought_before(prompt, self.backend.limit - CLOSING)
        self._check_room(
            len(generation.prompt) + self.driver.prompting.thinking_format.least + CLOSING, " and a thought"
        )
        return generation

    def task(self, request: CallRequest, thought: Thought | None = None) -> CallTask:
        begun = self.started(self._grammar(request), "tools")
        ids, prompt = self.driver.prompting.token_ids, self.form.prompt(request.prompt)
        if thought is not None:
            prompt = replace(prompt, thought=thought.text)
        read = ids.encode(ids.render(prompt).removesuffix(self.form.text))
        room = self._check_room(len(read))
        fields = sum(len(tool.schema.leaves) for tool in request.offered)
        return CallTask(request, (*read,), begun, min(room, token_limit(fields, request.max_tokens)))

    def _check_room(self, tokens: int, thought: str = "") -> int:
        """Return the number of tokens that fit after a prompt of `tokens` tokens; `thought` completes the message.

        Raises:
            TooLongError: the prompt leaves too little room.
        """
        room = self.backend.limit - tokens
        if room < UNDECIDED:
            raise TooLongError(
                f"the conversation takes {tokens} tokens with its tools{thought}, so only {max(0, room)} of the "
                f"model's {self.backend.limit} tokens remain; shorten the conversation, or offer fewer tools."
            )
        return room

    def greedy(self, task: CallTask) -> GrammarRow:
        row = super().greedy(task)
        return BriefReply(row.matcher, row.limit, begins=self._begins) if task.request.decides else row

    def sample(self, task: CallTask, purpose: str) -> GrammarRow:
        row = super().sample(task, purpose)
        return BriefReply(row.matcher, row.limit, row.stream, begins=self._begins)

    def _note(self, rows: Sequence[GrammarRow], tokens: Sequence[int], allowed: Tensor) -> None:
        p = allowed.softmax(-1)
        later, at_start = (p[:, ids.to(p.device)].sum(-1).tolist() for ids in (self._call_starts, self._reply_starts))
        for n, row in enumerate(rows):
            row.notes.append(later[n] if row.written else at_start[n])
        super()._note(rows, tokens, allowed)

    def _begins(self, row: GrammarRow) -> int | None:
        """Return where in the text of a row the first call begins; None without a call."""
        written = self.text_of(row)
        if self._object(written.text):
            return 0
        if self._marker is None or self.form.text:
            return 0 if written.text.startswith(self.form.opening) else None
        if self._marker not in row.written:
            return None
        number = row.written.index(self._marker)
        return written.ends[number - 1] if number else 0

    def _object(self, text: str) -> re.Match[str] | None:
        """Return the match of the text before the tool's name in a JSON object; None for other replies."""
        return None if self.form.text else re.match(self._name_prefix, text)

    def read(self, task: CallTask, row: GrammarRow) -> WrittenReply | None:
        form, request, written = self.form, task.request, self.text_of(row)
        ended = bool(row.written) and row.written[-1] in self.backend.rules.end_ids
        length = ([0, *written.ends])[len(row.written) - ended]
        text = written.text[:length]
        start = self._begins(row)
        cut = not (ended or isinstance(row, BriefReply)) and len(row.written) >= row.limit
        if start is None:
            if cut and self._may_be_call(task, row):
                return None
            none = self._read_no_tool(row) if request.choice == "auto" and request.offered and not cut else None
            return WrittenReply(text.removeprefix(form.text).strip(), (), none, row.thought, cut)
        if not row.matcher.is_accepting():
            return None
        block = self._object(text)
        place, calls = block.end() if block else start + len(form.opening), list[WrittenCall]()
        decided, middle = start if request.choice == "auto" else place, _MIDDLE if block else re.escape(form.middle)
        while True:
            named = (re.compile(f"({re.escape(tool.name)}){middle}").match(text, place) for tool in request.offered)
            found = next(filter(None, named))
            tokens = written.tokens((decided, found.end(1)))
            chosen = written.reading(found[1], tokens)
            if request.choice == "auto" and not calls:  # P(call) sums over all tokens that may begin a call
                begins = math.log(min(1.0, row.notes[tokens[0]])) - written.log_p[tokens[0]]
                chosen = chosen._replace(log_p=min(0.0, chosen.log_p + begins))
            place = found.end()
            _, end = json.JSONDecoder().raw_decode(text, place)
            ends = tuple(each - place for each in written.ends)
            arguments = WrittenObject(text[place:end], ends, written.log_p, written.entropy, row.thought)
            calls.append(WrittenCall(arguments, chosen))
            decided, place = end, end + len(form.between or "")
            if block or form.between is None or not text.startswith(form.between, end):
                break
        further = written.reading(NO_TOOL, range(written.tokens((end - 1, end))[-1] + 1, len(row.written)))
        more = request.parallel and form.between is not None and not block
        last = further if more and not cut else None
        return WrittenReply(text[:start].strip(), tuple(calls), last, row.thought, cut and more)

    def _may_be_call(self, task: CallTask, row: GrammarRow) -> bool:
        """Return whether a cut reply without a call may be the beginning of a call, or of the mark before a text."""
        request = task.request
        if not request.offered:
            return not self.text_of(row).text.startswith(self.form.text)
        matcher = self.started(self._grammar(request, text=False), "tools")
        whole: bool = matcher.try_consume_tokens(row.written) == len(row.written)
        return whole or not self.text_of(row).text.startswith(self.form.text)

    def _read_no_tool(self, row: GrammarRow) -> WrittenValue:
        """Return the choice of no tool; its P is the product of 1 - P(a call begins) where a call may begin."""
        first = row.notes
        p = [min(each, 1 - 1e-9) for each in (first if self._marker is not None and not self.form.text else first[:1])]
        return WrittenValue(NO_TOOL, math.fsum(math.log1p(-each) for each in p), math.nan, row.thought)

    def unfinished(self, task: CallTask) -> UnfinishedError:
        return UnfinishedError(
            f"the model did not close its call within {task.limit} tokens; bound long texts by maxLength in the tool's "
            "parameters, or take a larger model.",
            (len(task.prompt), len(task.best.written)),
        )
