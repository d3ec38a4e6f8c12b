"""From a conversation to the one question in it.

The last turn is the question, system texts at the start are its system text, and what came between is its context,
which stands ahead of it (`secl.prompts.templates`):

    User: What is the capital of France?
    Assistant: Paris

A conversation of a single turn is that turn, unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from secl.errors import RequestError
from secl.question import Form, Question
from secl.server.http.schemas import Message

SPEAKERS = {"system": "System", "developer": "System", "user": "User", "assistant": "Assistant"}
"""How the context names a role."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        role: key of `SPEAKERS`.
        text: without surrounding space; empty only for an assistant that said nothing.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The texts of a question.

    Attributes:
        text: the question.
        context: what came before it, or a passage; "" for none.
        system: the system text; "" for the model's own.
    """

    text: str
    context: str = ""
    system: str = ""


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """The turns of a conversation that can be answered.

    Raises:
        RequestError: there are no turns, one has more than text, or the last one is not the user's.
    """
    if not messages:
        raise RequestError(400, "messages is empty; send at least the user's question.", "empty_messages", "messages")
    turns = [_turn(message, f"messages.{number}") for number, message in enumerate(messages)]
    if turns[-1].role != "user":
        message = f"the last message is the {turns[-1].role}'s; the question must come last, from the user."
        raise RequestError(400, message, "no_question", f"messages.{len(turns) - 1}.role")
    return turns


def _turn(message: Message, field: str) -> Turn:
    if message.role not in SPEAKERS or message.tool_calls:
        raise RequestError(
            400,
            f"{field} belongs to the use of tools, or has the unknown role {message.role[:40]!r}; this model reads "
            f"{', '.join(SPEAKERS)}.",
            "unsupported_message",
            f"{field}.role",
        )
    if isinstance(message.content, list):
        for number, part in enumerate(message.content):
            if part.type != "text" or part.text is None:
                sentence = f"{field} holds a part of type {part.type[:40]!r}, but this model reads text only."
                raise RequestError(400, sentence, "unsupported_content", f"{field}.content.{number}")
        text = "\n".join(part.text or "" for part in message.content).strip()
    else:
        text = (message.content or "").strip()
    if not text and message.role != "assistant":
        raise RequestError(400, f"{field} has no text.", "empty_message", f"{field}.content")
    return Turn(message.role, text)


def asked_in(turns: Sequence[Turn]) -> Asked:
    r"""What a conversation asks.

    >>> asked_in([Turn("system", "Be brief."), Turn("user", "Capital of France?"), Turn("assistant", "Paris"),
    ...     Turn("user", "Italy?")])
    Asked(text='Italy?', context='User: Capital of France?\nAssistant: Paris', system='Be brief.')
    """
    *earlier, last = turns
    leading = list(itertools.takewhile(lambda turn: SPEAKERS[turn.role] == "System", earlier))
    context = "\n".join(f"{SPEAKERS[turn.role]}: {turn.text}" for turn in earlier[len(leading) :] if turn.text)
    return Asked(last.text, context, "\n\n".join(turn.text for turn in leading))


def make_question(
    asked: Asked, options: Sequence[str], form: Form | None, default_form: Form, max_chars: int, domain: str = "default"
) -> Question:
    """The question to ask.

    Args:
        asked: its texts.
        options: of it.
        form: requested form of the answer.
        default_form: form of an open question if none is requested.
        max_chars: largest length of a prompt.
        domain: of the question.

    Raises:
        RequestError: it is too long.
        QuestionError: the question, its options or its form are not usable.
    """
    length = sum(map(len, (asked.text, asked.context, asked.system, *options)))
    if length > max_chars:
        message = f"the prompt has {length} characters, more than the {max_chars} that this server reads; shorten it."
        raise RequestError(413, message, "context_length_exceeded")
    return Question(
        asked.text,
        tuple(options),
        domain=domain,
        form=form or ("choice" if options else default_form),
        context=asked.context,
        system=asked.system,
    )
