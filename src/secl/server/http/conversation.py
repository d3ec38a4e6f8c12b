"""From a conversation to the one question in it.

The last turn is the question. What came before is its context, and stands ahead of it in plain text:

    Context:
    System: Answer in French.
    User: What is the capital of France?
    Assistant: Paris

    Question: And of Italy?

A conversation of a single turn is that turn, unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secl.errors import RequestError
from secl.records import Form, Question
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


def with_context(context: str, question: str) -> str:
    """A question behind its context; without one, as it is.

    >>> with_context("", "Why?"), with_context("It rains.", "Why?")
    ('Why?', 'Context:\\nIt rains.\\n\\nQuestion: Why?')
    """
    return f"Context:\n{context}\n\nQuestion: {question}" if context else question


def question_text(turns: Sequence[Turn]) -> str:
    """A conversation as the text of one question.

    >>> print(question_text([Turn("user", "Capital of France?"), Turn("assistant", "Paris"), Turn("user", "Italy?")]))
    Context:
    User: Capital of France?
    Assistant: Paris
    <BLANKLINE>
    Question: Italy?
    """
    context = "\n".join(f"{SPEAKERS[turn.role]}: {turn.text}" for turn in turns[:-1] if turn.text)
    return with_context(context, turns[-1].text)


def make_question(
    text: str, options: Sequence[str], form: Form | None, default_form: Form, max_chars: int, domain: str = "default"
) -> Question:
    """The question to ask.

    Args:
        text, options: of it.
        form: requested form of the answer.
        default_form: form of an open question if none is requested.
        max_chars: largest length of a prompt.
        domain: of the question.

    Raises:
        RequestError: it is too long.
        QuestionError: the question, its options or its form are not usable.
    """
    length = len(text) + sum(map(len, options))
    if length > max_chars:
        message = f"the prompt has {length} characters, more than the {max_chars} that this server reads; shorten it."
        raise RequestError(413, message, "context_length_exceeded")
    return Question(text, tuple(options), domain=domain, form=form or ("choice" if options else default_form))
