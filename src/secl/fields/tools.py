"""Tools that a model may call, and conversations in which a model may call tools."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from secl.conversation import Message, Prompt
from secl.display import excerpt
from secl.errors import ParameterError, QuestionError
from secl.fields.extraction import id_of, remarks_on
from secl.fields.json_schema import Node
from secl.fields.schema import Leaf, Schema
from secl.prompts.templates import answer_prompt
from secl.question import Question

NO_TOOL = "no tool"
"""The candidate for calling no (further) tool."""

ToolChoice = str
"""Whether tools are called: "auto" (the model decides), "required", "none", or the name of the tool to call."""

NO_ARGUMENTS: Node = {"type": "object", "properties": {}, "additionalProperties": False}
"""Schema of the arguments of a tool without parameters."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOOL = "give Python functions, pydantic classes, or tools in OpenAI's form"


@dataclass(frozen=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: 1 to 64 letters, digits, dots, hyphens and underscores.
        definition: the tool in OpenAI's form, for the chat template.
        schema: the schema of the arguments; keys that are not required may be missing.
    """

    name: str
    definition: Node
    schema: Schema

    def leaves_in(self, arguments: Mapping[str, Any]) -> tuple[Leaf, ...]:
        """Return the fields of written arguments. A tool without parameters has no fields."""
        return self.schema.leaves_in(arguments) if self.schema.leaves or arguments else ()

    def remarks_on(self, model: object) -> list[str]:
        """Return a sentence for each keyword of the parameters that does not constrain a model.

        Raises:
            ParameterError: the model cannot write the arguments.
        """
        try:
            return [f"the tool {self.name!r}: {remark}" for remark in remarks_on(model, self.schema)]
        except ParameterError as problem:
            raise ParameterError(f"the tool {self.name!r}: {problem}") from problem

    @classmethod
    def of(cls, tool: object) -> Tool:
        """Read a pydantic class or a tool in OpenAI's form.

        Raises:
            ParameterError: the argument has another form, or the tool's arguments have no usable schema.

        >>> Tool.of({"type": "function", "function": {"name": "now", "description": "Current time."}}).name
        'now'
        """
        made_by = tool if isinstance(tool, type) and issubclass(tool, BaseModel) else None
        if isinstance(tool, Mapping):
            definition: Any = tool.get("function", tool)
        elif made_by is not None:
            text = " ".join((made_by.__doc__ or "").split())
            definition = {"name": made_by.__name__, "description": text}
        else:
            raise ParameterError(f"{excerpt(repr(tool), 60)} is not a tool; {_TOOL}.")
        name = definition.get("name") if isinstance(definition, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(
                f"a tool has the name {excerpt(repr(name), 80)}; give it 1 to 64 letters, digits, dots, hyphens and "
                "underscores."
            )
        parameters = definition.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(parameters, Mapping):
            raise ParameterError(f"the parameters of the tool {name!r} are not a JSON Schema.")
        try:
            schema = Schema.of(made_by or _closed(parameters), free=True, complete=False)
        except ParameterError as problem:
            raise ParameterError(f"the tool {name!r}: {problem}") from problem
        parameters = parameters if made_by is None else made_by.model_json_schema()
        whole = {"type": "function", "function": {**definition, "name": name, "parameters": parameters}}
        return cls(name, whole, schema)


def _closed(parameters: Node) -> Node:
    """Return the parameters of a tool as the schema of an object; without any known keys, the object is empty."""
    says = ("properties", "additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")
    given = any(map(parameters.get, says)) or parameters.get("type", "object") != "object"
    return {"type": "object", **parameters} if given else NO_ARGUMENTS


def tools_of(tools: Sequence[object], choice: ToolChoice = "auto") -> tuple[Tool, ...]:
    """Read tools.

    Raises:
        ParameterError: a tool is not usable, two tools share a name, no tool is given, or the choice names an unknown
            tool.
    """
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise ParameterError(f"tools is {excerpt(repr(tools), 60)}; give a list: {_TOOL}.")
    read = tuple(tool if isinstance(tool, Tool) else Tool.of(tool) for tool in tools)
    names = [tool.name for tool in read]
    if len(set(names)) < len(names) or not names:
        twice = max(names, key=names.count, default="")
        problem = f"two tools have the name {twice!r}; give each tool its own name"
        raise ParameterError(f"{problem if names else 'tools is empty; give at least one tool'}.")
    if choice not in ("auto", "required", "none", *names):
        raise ParameterError(f"choice is {choice!r}; give auto, required, none, or the name of a tool.")
    return read


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A conversation that the model continues with calls of tools or with a text.

    Attributes:
        question: the user's latest message, of the form "text", with system text, history and context.
        tools: the tools whose definitions the model reads.
        choice: as in `ToolChoice`.
        parallel: whether one reply may have several calls.
        since: turns after the user's message: calls that the model made, and their results.
        max_tokens: maximum number of tokens of the reply; None for as many as the arguments may need.
        decides: whether only the calls matter. The model then stops a text that does not begin a call.
    """

    question: Question
    tools: tuple[Tool, ...]
    choice: ToolChoice = "auto"
    parallel: bool = True
    since: tuple[Message, ...] = ()
    max_tokens: int | None = None
    decides: bool = False

    @classmethod
    def of(
        cls,
        request: object,
        tools: Sequence[object],
        *,
        choice: ToolChoice = "auto",
        parallel: bool = True,
        system: str = "",
        history: Sequence[object] = (),
        context: str = "",
        max_tokens: int | None = None,
        decides: bool = False,
    ) -> CallRequest:
        """Return a request from a text, or from a conversation that ends with a user's message or a tool's result.

        Raises:
            ParameterError: as for `tools_of`.
            QuestionError: the parts do not form a conversation.
        """
        read = tools_of(tools, choice)
        since: tuple[Message, ...] = ()
        if not isinstance(request, str):
            if history or not isinstance(request, Sequence) or not request:
                raise QuestionError(
                    f"{excerpt(repr(request), 60)} is not a request; give a text with or without history, or a whole "
                    "conversation as a list of turns."
                )
            turns = [*map(Message.of, request)]
            last = max((n for n, turn in enumerate(turns) if turn.role == "user"), default=-1)
            if last < 0 or turns[-1].role not in ("user", "tool"):
                raise QuestionError(
                    "the conversation must end with a user's message or a tool's result; add such a turn."
                )
            first = turns[0].role == "system" and not system
            system = turns[0].text if first else system
            history, request, since = turns[first:last], turns[last].text, tuple(turns[last + 1 :])
        said = repr((request, context, system, history, since))
        asked = Question.of(request, context=context, system=system, history=history)
        asked = replace(asked, form="text", id=id_of(said))
        return cls(asked, read, choice, parallel and choice in ("auto", "required"), since, max_tokens, decides)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """Tools that the model may call in its reply."""
        if self.choice == "none":
            return ()
        return tuple(tool for tool in self.tools if self.choice in ("auto", "required", tool.name))

    @property
    def chooses(self) -> bool:
        """Whether the model chooses between tools, or between one tool and none."""
        return len(self.offered) + (self.choice == "auto") > 1

    @property
    def prompt(self) -> Prompt:
        """The prompt with the definitions of the tools."""
        prompt = answer_prompt(self.question)
        prompt = replace(prompt, tools=tuple(json.dumps(tool.definition, ensure_ascii=False) for tool in self.tools))
        if not self.since:
            return prompt
        return replace(prompt, turns=(), history=(*prompt.history, Message("user", prompt.turns[0]), *self.since))
