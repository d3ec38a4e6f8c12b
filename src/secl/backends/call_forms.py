"""The form of a model's tool calls, found by rendering a conversation with the model's chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import jinja2

from secl.backends.chat_templates import Tokenizer, render_turns, template_messages
from secl.conversation import Message, Prompt, ToolCall
from secl.prompts.parsing import THINK_TAGS

_NAMES, _KEY, _VALUE, _ASKED = ("secl_first", "secl_second"), "secl_key", "secl value", "What is the weather?"
_ABOUT, _ABOUT_KEY = "A tool.", "A key."
_ARGUMENTS = rf'\{{\s*"{_KEY}"\s*:\s*"{_VALUE}"\s*\}}'
_ID = re.compile(r',\s*"(?:id|call_id)"\s*:\s*"call\d{5}"')
"""Id of a call in a rendered conversation (`template_messages` makes the ids). A model need not write an id."""

_DESCRIBED = (
    "You may call tools. The tools, each as JSON:\n{tools}\n\nTo call a tool, reply with nothing but a JSON object of "
    'the form {{"name": "<name of the tool>", "arguments": {{...}}}}. Write several calls on a line each. If no tool '
    "is needed, reply to the user."
)


@dataclass(frozen=True, slots=True)
class CallForm:
    """The texts around the names and arguments of calls.

    Attributes:
        opening: text before the first tool's name.
        middle: text between a name and its arguments (a JSON object).
        closing: text after the last arguments.
        between: text between arguments and the next tool's name; None if a turn can have only one call.
        text: opening of a reply without a call, if calls open differently (as in gpt-oss); else "". The prompt ends
            before this text.
        native: whether the chat template writes the tools into the prompt; if not, the system text describes them.
    """

    opening: str
    middle: str
    closing: str
    between: str | None
    text: str = ""
    native: bool = True

    @classmethod
    def of(cls, tokenizer: Tokenizer, ends: Collection[str]) -> CallForm:
        """Return the form of a chat template's calls, or `DESCRIBED` if the template does not write arguments as JSON.

        `ends` are the texts of the tokens that end a reply.
        """
        with suppress(jinja2.TemplateError, TypeError):
            return _find_form(tokenizer, ends) or DESCRIBED
        return DESCRIBED

    def prompt(self, prompt: Prompt) -> Prompt:
        """Return a prompt for the chat template, with tools in the system text unless the form is native."""
        if self.native or not (prompt.tools or prompt.history):
            return prompt
        system = _DESCRIBED.format(tools="\n".join(prompt.tools)) if prompt.tools else ""
        system = "\n\n".join(part for part in (prompt.system, system) if part)
        return replace(prompt, system=system, tools=(), history=_merge([*map(self._plain, prompt.history)]))

    def _plain(self, turn: Message) -> Message:
        """Return a turn with calls and results of tools as text."""
        if turn.role == "tool":
            return Message("user", f"Result of the call: {turn.text}")
        calls = "\n".join(
            f"{self.opening}{call.name}{self.middle}{call.arguments}{self.closing}" for call in turn.calls
        )
        return Message(turn.role, "\n".join(part for part in (turn.text, calls) if part))


DESCRIBED = CallForm('{"name": "', '", "arguments": ', "}", '}\n{"name": "', native=False)
"""The form for models whose chat template has no tools, or writes arguments in another form than JSON."""


def _merge(turns: Sequence[Message]) -> tuple[Message, ...]:
    """Join neighbouring turns of one role, which some templates reject."""
    merged: list[Message] = []
    for turn in turns:
        alike = bool(merged) and merged[-1].role == turn.role
        merged.append(Message(turn.role, f"{merged.pop().text}\n{turn.text}") if alike else turn)
    return tuple(merged)


def _find_form(tokenizer: Tokenizer, ends: Collection[str]) -> CallForm | None:
    parameters = {"type": "object", "properties": {_KEY: {"type": "string", "description": _ABOUT_KEY}}}
    tools = [
        {"type": "function", "function": {"name": name, "description": _ABOUT, "parameters": parameters}}
        for name in _NAMES
    ]
    chat = partial(render_turns, tokenizer, tools=tools)
    calls = [ToolCall(name, json.dumps({_KEY: _VALUE})) for name in _NAMES]
    asked = Message("user", _ASKED)

    def reply(count: int) -> str:
        turns = template_messages([asked, Message("assistant", "", tuple(calls[:count]))])
        return chat(turns, go_on=False).rpartition(_ASKED)[2]

    prompt = chat(template_messages([asked]))
    begun, text = prompt.rpartition(_ASKED)[2], ""
    one = reply(1)
    if not one.startswith(begun):  # the prompt ends with an empty thought, but the rendered call has none
        thought = next((each for each in THINK_TAGS if begun.endswith(each.empty)), None)
        if thought is None or not one.startswith(before := begun.removesuffix(thought.empty)):
            return None
        # The empty thought of gpt-oss, which is its closing mark, opens answers but not calls, so it becomes
        # `CallForm.text`. Other models write calls after the empty thought.
        text = thought.empty if thought.empty == thought.closing else ""
        begun = before
    found = re.fullmatch(f"(.*?){_NAMES[0]}(.*?){_ARGUMENTS}(.*)", one[len(begun) :], re.DOTALL)
    described = all(each in prompt for each in (*_NAMES, _KEY, _ABOUT, _ABOUT_KEY))
    if not described or found is None or not found[1].strip():
        return None
    opening, middle, rest = found.groups()
    closing = min((rest.partition(end)[0] for end in ends), key=len, default=rest)
    between = None
    with suppress(jinja2.TemplateError):
        first = re.escape(f"{opening}{_NAMES[0]}{middle}") + _ARGUMENTS
        second = re.match(f"{first}(.*?){_NAMES[1]}{re.escape(middle)}{_ARGUMENTS}", reply(2)[len(begun) :], re.DOTALL)
        between = second and _ID.sub("", second[1])
    return CallForm(opening, middle, _ID.sub("", closing), between, text)
