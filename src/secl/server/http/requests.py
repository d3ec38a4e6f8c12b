"""Requests other than chats (`secl.server.http.chat_request`), and the question in a conversation.

The last turn is the question; earlier turns stay in their roles, as the model's own chat template puts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from secl.conversation import Role, ToolCall, Turn
from secl.errors import RequestError
from secl.labels.label import MIN_CHANCE
from secl.prompts.parsing import MAX_WORDS
from secl.question import Form, GivenAnswer, Question
from secl.server.entries import Text
from secl.server.settings import MAX_PROMPT_CHARS

LARGEST_EXACT = 2**53
"""The largest whole number that every JSON parser reads exactly."""

Domain = Annotated[Text, Field(min_length=1, max_length=100)]
"""What kind of question it is; labels of a domain move its own confidences more than those of others."""

Amount = Literal["brief", "full"]
"""How much a reply says about its confidence."""

ROLES: dict[str, Role] = {"developer": "system", **{role: role for role in get_args(Role)}}
"""The roles of messages, and what they are to a chat template."""


class Part(BaseModel):
    """A piece of a message. Only those of type "text" can be read."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """A turn of a conversation. Fields other than these are not read; a chat's `warnings` name them."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[Part] | None = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None
    function_call: object = None


class AskRequest(BaseModel):
    """A question. With options it is multiple choice; without them the answer is a few words unless `form` says else.

    `context`: a passage beside the question. `history`: turns between system text and question. `detail`: "full"
    asks for all.
    """

    model_config = ConfigDict(extra="forbid")
    question: Annotated[str, Field(json_schema_extra={"minLength": 1})]  # refused below in a better sentence
    options: Annotated[list[str], Field(max_length=1000)] = []
    form: Literal["choice", "number", "short", "sentence"] | None = None
    context: str | None = None
    system: str | None = None
    history: Annotated[list[Message], Field(max_length=1000)] = []
    domain: Domain = "default"
    detail: Amount = "brief"


class ScoreRequest(AskRequest):
    """A question with an answer to rate; with `options` the answer is an option's letter or text.

    `rivals` are other answers to compare it with; without any the model lists some. `form` is that of the answer:
    "short" up to twelve words, else "sentence".
    """

    answer: Text
    rivals: Annotated[list[Text], Field(max_length=20)] = []


class Feedback(BaseModel):
    """A person's word on an answer; null takes it back. Weights never learn from it; later confidences follow it.

    `chance`: the probability that this answer was asked about: 1 if you rate every answer, 0.05 for a random
    sample of one in twenty. Leave it out for thumbs of users: alone they move confidences little. `drawn`: true
    where a review drew the answer at random; then there is no `chance`.
    """

    model_config = ConfigDict(extra="forbid")
    record_id: Text
    correct: StrictBool | None
    chance: Annotated[float, Field(ge=MIN_CHANCE, le=1, allow_inf_nan=False)] | None = None
    drawn: StrictBool = False


class RollbackRequest(BaseModel):
    """The kept adapter version to go back to; 0 is the untouched model."""

    model_config = ConfigDict(extra="forbid")
    version: Annotated[StrictInt, Field(ge=0, le=LARGEST_EXACT)]


class PauseRequest(BaseModel):
    """Why learning is to pause."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[Text, Field(min_length=1, max_length=500)] = "by hand"


def turns_of(messages: Sequence[Message], field: str = "messages") -> list[Turn]:
    """Return the turns of a conversation. Raises RequestError: a turn has an unknown role, or more than text."""
    return [_turn(message, f"{field}.{number}") for number, message in enumerate(messages)]


def _turn(message: Message, field: str) -> Turn:
    if message.role not in ROLES or message.function_call:
        sentence = f"{field} has a function_call, or the role {message.role[:40]!r}; roles are {', '.join(ROLES)}."
        raise RequestError(400, sentence, "unsupported_message", f"{field}.role")
    parts = message.content if isinstance(message.content, list) else [Part(type="text", text=message.content or "")]
    for number, part in enumerate(parts):
        if part.type != "text" or part.text is None:
            sentence = f"{field} holds a part of type {part.type[:40]!r}, but this model reads text only."
            raise RequestError(400, sentence, "unsupported_content", f"{field}.content.{number}")
    calls = tuple(map(ToolCall.of, message.tool_calls or ()))
    if None in calls:
        sentence = f"{field} has a call that is none of a function with a JSON object of arguments."
        raise RequestError(400, sentence, "unsupported_message", f"{field}.tool_calls")
    text = "\n".join(part.text or "" for part in parts)
    return Turn(ROLES[message.role], text, tuple(filter(None, calls)), message.tool_call_id or "")


def question_in(messages: Sequence[Message], domain: str = "default", *, tools: bool = True) -> Question:
    """The question that a conversation asks, to be answered with a text.

    `tools`: whether the model reads earlier calls and their results.

    Raises RequestError: it asks none.

    >>> asked = question_in([Message(role="developer", content="Be brief."), Message(role="assistant", content="Yes?"),
    ...     Message(role="user", content="Capital of Italy?")])
    >>> asked.system, asked.history == (Turn("assistant", "Yes?"),)
    ('Be brief.', True)
    """
    turns = turns_of(messages)
    if not turns:
        raise RequestError(400, "messages is empty; send at least the user's question.", "empty_messages", "messages")
    *earlier, last = turns
    field = f"messages.{len(earlier)}"
    if not tools and any(turn.calls or turn.role == "tool" for turn in turns):
        raise RequestError(400, "a message belongs to the use of tools.", "unsupported_message", "messages")
    if last.role != "user":
        sentence = f"the last message is the {messages[-1].role}'s; the question must come last, from the user."
        raise RequestError(400, sentence, "no_question", f"{field}.role")
    if not last.text.strip():
        raise RequestError(400, f"{field} has no text.", "empty_message", f"{field}.content")
    # Without any system text a model may have one of its own, so one that says nothing stays a turn.
    leads = bool(earlier) and earlier[0].role == "system" and bool(earlier[0].text)
    system, history = (earlier[0].text, earlier[1:]) if leads else ("", earlier)
    return check_length(Question(last.text, domain=domain, form="text", system=system, history=tuple(history)))


def question_of(body: AskRequest, form: Form = "short") -> Question:
    """The question of a plain request; an open one has this form unless the request names another.

    Raises RequestError, QuestionError: a part of it is missing, unusable or too long.
    """
    if not body.question.strip():
        raise RequestError(400, "the question has no text; give it at least one word.", "bad_question", "question")
    question = Question(
        body.question.strip(),
        tuple(body.options),
        domain=body.domain,
        form=body.form or ("choice" if body.options else form),
        context=(body.context or "").strip(),
        system=(body.system or "").strip(),
        history=tuple(turns_of(body.history, "history")),
    )
    return check_length(question)


def check_length(question: Question, *answers: str) -> Question:
    """The question, if it is not too long together with answers to it. Raises RequestError: 413."""
    turns = [turn.text for turn in question.history]
    texts = (question.text, question.context, question.system, *turns, *question.options, *answers)
    length = sum(map(len, texts))
    if length > MAX_PROMPT_CHARS:
        most = f"more than the {MAX_PROMPT_CHARS} that this server reads; shorten it."
        raise RequestError(413, f"the prompt has {length} characters, {most}", "context_length_exceeded")
    return question


def given_in(body: ScoreRequest) -> GivenAnswer:
    """The answer to rate, with its question; errors as of `question_of`."""
    question = question_of(body, "short" if len(body.answer.split()) <= MAX_WORDS else "sentence")
    return GivenAnswer(check_length(question, body.answer, *body.rivals), body.answer, tuple(body.rivals))
