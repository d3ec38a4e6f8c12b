"""Conversations and prompts: messages, and tool calls in messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from secl.display import excerpt
from secl.errors import QuestionError, check_depth

Role = Literal["system", "user", "assistant", "tool"]
"""Speaker of a message. A message of the role "tool" has the result of a call."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool in a conversation.

    Attributes:
        name: name of the tool, which may no longer exist.
        arguments: a JSON object as text.
        id: identifier of the call, repeated by the message with its result; "" if results come in the order of the
            calls.
    """

    name: str
    arguments: str
    id: str = ""

    @classmethod
    def of(cls, call: object) -> ToolCall | None:
        """Return a call from OpenAI's form, with arguments as text or as a mapping; None for anything else.

        >>> ToolCall.of({"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}})
        ToolCall(name='add', arguments='{"a": 1}', id='c1')
        """
        called = call.get("function", call) if isinstance(call, Mapping) else None
        if not (isinstance(call, Mapping) and isinstance(called, Mapping) and isinstance(called.get("name"), str)):
            return None
        given = called.get("arguments") or {}
        try:
            arguments = check_depth(json.loads(given) if isinstance(given, str) else given)
            text = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return None
        return cls(called["name"], text, str(call.get("id") or "")) if isinstance(arguments, Mapping) else None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: the speaker.
        text: the content; may be empty.
        calls: the assistant's calls of tools.
        answers: for the role "tool", the id of the call whose result is this message; "" means the next call that has
            no result yet.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""

    @classmethod
    def of(cls, turn: object) -> Message:
        """Return a message from a `Message`, a pair (role, text), or a mapping in OpenAI's form.

        Raises:
            QuestionError: any other object, or an unknown role.

        >>> Message.of({"role": "user", "content": "Hi"}) == Message.of(("user", "Hi")) == Message("user", "Hi")
        True
        """
        if isinstance(turn, cls):
            return turn
        role: Any = None
        text: object = None
        calls: list[ToolCall | None] = []
        answers = ""
        if isinstance(turn, Mapping):
            calls = [*map(ToolCall.of, turn.get("tool_calls") or ())]
            role, text = turn.get("role"), turn.get("content") or ("" if calls else turn.get("content"))
            answers = str(turn.get("tool_call_id") or "")
        elif isinstance(turn, list | tuple) and len(turn) == 2:
            role, text = turn
        if role not in get_args(Role) or not isinstance(text, str) or None in calls:
            raise QuestionError(
                f"a turn of the conversation is {excerpt(repr(turn), 60)}; give each turn as a message of OpenAI's "
                "chat API, or as (role, text) with the role system, user, assistant or tool."
            )
        return cls(role, text, tuple(call for call in calls if call is not None), answers)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation for the model to continue.

    Attributes:
        turns: texts of the turns after `history`, user and assistant alternating, the user first and last.
        prefill: beginning of the reply, which the model continues.
        system, history: as in `secl.Question`.
        tools: definitions of tools that the model may call, each as JSON.
        thought: the thought at the beginning of the first reply, without the marks around the thought; None for a reply
            without a thought.
    """

    turns: tuple[str, ...]
    prefill: str = ""
    system: str = ""
    history: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()
    thought: str | None = None

    def begun(self, text: str) -> Prompt:
        """Return this prompt with `text` after the prefill."""
        return replace(self, prefill=self.prefill + text)
