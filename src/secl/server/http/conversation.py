"""From a conversation to the question in it, turn by turn and letter by letter.

A system text at the start is the question's system text, the last turn is the question, and what came between stays in
its roles: the model's own chat template puts them together as if nobody stood in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secl.errors import RequestError
from secl.question import Form, Question, Role, Turn
from secl.server.http.schemas import Message
from secl.server.http.settings import MAX_PROMPT_CHARS

ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""The roles of messages, and what they are to a chat template."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The texts of a question.

    Attributes:
        text: the question.
        context: a passage beside it; "" for none.
        system: the system text; "" for the model's own.
        history: what was said between the system text and the question.
    """

    text: str
    context: str = ""
    system: str = ""
    history: tuple[Turn, ...] = ()


def turns_of(messages: Sequence[Message], field: str = "messages") -> list[Turn]:
    """The turns of a conversation.

    Raises:
        RequestError: one belongs to somebody unknown, or has more than text.
    """
    return [_turn(message, f"{field}.{number}") for number, message in enumerate(messages)]


def _turn(message: Message, field: str) -> Turn:
    if message.role not in ROLES or message.tool_calls or message.function_call:
        raise RequestError(
            400,
            f"{field} belongs to the use of tools, or has the unknown role {message.role[:40]!r}; this model reads "
            f"{', '.join(ROLES)}.",
            "unsupported_message",
            f"{field}.role",
        )
    if not isinstance(message.content, list):
        return Turn(ROLES[message.role], message.content or "")
    for number, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            sentence = f"{field} holds a part of type {part.type[:40]!r}, but this model reads text only."
            raise RequestError(400, sentence, "unsupported_content", f"{field}.content.{number}")
    return Turn(ROLES[message.role], "\n".join(part.text or "" for part in message.content))


def asked_in(messages: Sequence[Message]) -> Asked:
    r"""What a conversation asks.

    Raises:
        RequestError: it has no messages, one cannot be read, or the last one is no question of the user's.

    >>> asked_in([Message(role="developer", content="Be brief."), Message(role="assistant", content="Yes?"),
    ...     Message(role="user", content="Capital of Italy?")])
    Asked(text='Capital of Italy?', context='', system='Be brief.', history=(Turn(role='assistant', text='Yes?'),))
    """
    turns = turns_of(messages)
    if not turns:
        raise RequestError(400, "messages is empty; send at least the user's question.", "empty_messages", "messages")
    *earlier, last = turns
    field = f"messages.{len(earlier)}"
    if last.role != "user":
        sentence = f"the last message is the {messages[-1].role}'s; the question must come last, from the user."
        raise RequestError(400, sentence, "no_question", f"{field}.role")
    if not last.text.strip():
        raise RequestError(400, f"{field} has no text.", "empty_message", f"{field}.content")
    # Without any system text a model may have one of its own, so one that says nothing stays a turn.
    leads = bool(earlier) and earlier[0].role == "system" and bool(earlier[0].text)
    system, history = (earlier[0].text, earlier[1:]) if leads else ("", earlier)
    return Asked(last.text, system=system, history=tuple(history))


def make_question(asked: Asked, options: Sequence[str], form: Form, domain: str = "default") -> Question:
    """The question to ask.

    Args:
        asked: its texts.
        options: of it.
        form: of the answer.
        domain: of the question.

    Raises:
        RequestError: it is too long.
        QuestionError: the question, its options or its form are not usable.
    """
    said = [turn.text for turn in asked.history]
    length = sum(map(len, (asked.text, asked.context, asked.system, *said, *options)))
    if length > MAX_PROMPT_CHARS:
        message = (
            f"the prompt has {length} characters, more than the {MAX_PROMPT_CHARS} that this server reads; shorten it."
        )
        raise RequestError(413, message, "context_length_exceeded")
    return Question(
        asked.text,
        tuple(options),
        domain=domain,
        form=form,
        context=asked.context,
        system=asked.system,
        history=asked.history,
    )
