"""Messages of a conversation, whose last turn is the question; earlier turns keep their roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from secl.conversation import Role, ToolCall, Turn
from secl.errors import RequestError
from secl.question import Question
from secl.server.entries import Text
from secl.server.settings import MAX_PROMPT_CHARS

Domain = Annotated[Text, Field(min_length=1, max_length=100)]
"""Kind of question; labels of a domain move confidences of the same domain more than others."""

Amount = Literal["brief", "full"]
"""Amount of detail about a confidence."""

ROLES: dict[str, Role] = {"developer": "system", **{role: role for role in get_args(Role)}}
"""Roles of messages, with their roles in chat templates."""


class Part(BaseModel):
    """A part of a message. The model reads only parts of the type "text"."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """A turn of a conversation. Further fields have no effect; a chat's `warnings` name them."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[Part] | None = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None
    function_call: object = None


def turns_of(messages: Sequence[Message], field: str = "messages") -> list[Turn]:
    """Return the turns of a conversation. Raises RequestError: a turn has an unknown role, or more than text."""
    return [_turn(message, f"{field}.{number}") for number, message in enumerate(messages)]


def _turn(message: Message, field: str) -> Turn:
    if message.role not in ROLES or message.function_call:
        sentence = f"{field} has a function_call, or the role {message.role[:40]!r}; roles are {', '.join(ROLES)}."
        raise RequestError(400, sentence, "unsupported_message", f"{field}.role")
    calls = tuple(map(ToolCall.of, message.tool_calls or ()))
    if None in calls:
        sentence = f"{field} has a call that is not a function call, or whose arguments are not a JSON object."
        raise RequestError(400, sentence, "unsupported_message", f"{field}.tool_calls")
    return Turn(ROLES[message.role], _text(message, field), tuple(filter(None, calls)), message.tool_call_id or "")


def _text(message: Message, field: str) -> str:
    content = message.content or ""
    parts = [] if isinstance(content, str) else content
    for number, part in enumerate(parts):
        if part.type != "text" or part.text is None:
            sentence = f"{field} holds a part of type {part.type[:40]!r}, but this model reads text only."
            raise RequestError(400, sentence, "unsupported_content", f"{field}.content.{number}")
    return content if isinstance(content, str) else "\n".join(part.text or "" for part in parts)


def question_in(messages: Sequence[Message], domain: str = "default", *, tools: bool = True) -> Question:
    """Return the question of a conversation. Raises RequestError: no question, or unreadable messages.

    `tools`: whether the model reads earlier calls and their results.

    >>> asked = question_in([Message(role="developer", content="Be brief."), Message(role="assistant", content="Yes?"),
    ...     Message(role="user", content="Capital of Italy?")])
    >>> asked.system, asked.history == (Turn("assistant", "Yes?"),)
    ('Be brief.', True)
    """
    if not messages:
        raise RequestError(400, "messages is empty; send at least the user's question.", "empty_messages", "messages")
    *before, last = messages
    earlier, field = turns_of(before), f"messages.{len(before)}"
    if not tools and (last.role == "tool" or any(turn.calls or turn.role == "tool" for turn in earlier)):
        raise RequestError(
            400,
            "a message calls a tool or has a tool's result, but the request has no tools.",
            "unsupported_message",
            "messages",
        )
    if last.role != "user" or last.tool_calls or last.function_call:
        sentence = f"the last message is the {last.role[:40]}'s; the user's question must come last, without calls."
        raise RequestError(400, sentence, "no_question", f"{field}.role")
    text = _text(last, field)
    if not text.strip():
        raise RequestError(400, f"{field} has no text.", "empty_message", f"{field}.content")
    # An empty system text stays a turn: without any system turn, a template may put its own text.
    leads = bool(earlier) and earlier[0].role == "system" and bool(earlier[0].text)
    system, history = (earlier[0].text, earlier[1:]) if leads else ("", earlier)
    return check_length(Question(text, domain=domain, form="text", system=system, history=tuple(history)))


def check_length(question: Question, *answers: str) -> Question:
    """Return the question unless it is too long, together with answers to it (`RequestError` 413)."""
    turns = [turn.text for turn in question.history]
    texts = (question.text, question.context, question.system, *turns, *question.options, *answers)
    length = sum(map(len, texts))
    if length > MAX_PROMPT_CHARS:
        most = f"more than the {MAX_PROMPT_CHARS} that this server reads; shorten it."
        raise RequestError(413, f"the prompt has {length} characters, {most}", "context_length_exceeded")
    return question
