"""What goes over the wire: the shapes of OpenAI's chat completions, and our own beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt

from secl.records import Form, Record
from secl.runs.encoding import to_export
from secl.server.audit.entries import Event, Served, record_id
from secl.server.online.service import Answer


def _whole(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it holds half a character")
    return text


Text = Annotated[str, AfterValidator(_whole)]
"""Characters that can be written down as UTF-8."""

Texts = Annotated[list[str], Field(max_length=1000)]
LARGEST = 2**53
"""The largest whole number that every reader of JSON reads exactly."""


class Part(BaseModel):
    """A piece of a message. Only those of type "text" can be read."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """A turn of a conversation."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Any] | None = None


class SeclOptions(BaseModel):
    """What a chat request may ask of us beyond OpenAI's fields: the answers to choose from, or the answer's form."""

    model_config = ConfigDict(extra="forbid")
    options: Texts = []
    form: Form | None = None


class StreamOptions(BaseModel):
    """OpenAI's options of a stream."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for a chat completion.

    Answers are greedy: fields that steer sampling (temperature, top_p, seed, stop, max_tokens, ...) are accepted and
    change nothing. Fields that promise something else (n above 1, tools, logprobs, a response format) are refused.
    """

    model: str
    messages: list[Message]
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    response_format: dict[str, Any] | None = None
    secl: SeclOptions | None = None


class AskRequest(BaseModel):
    """A question. With options it is multiple choice; without them the answer is a few words unless `form` says else.

    `context` is put ahead of the question.
    """

    model_config = ConfigDict(extra="forbid")
    question: str
    options: Texts = []
    form: Form | None = None
    context: str | None = None


class Feedback(BaseModel):
    """What a person says about an answer. It is used to measure and never to learn."""

    model_config = ConfigDict(extra="forbid")
    record_id: Text
    correct: StrictBool


class RollbackRequest(BaseModel):
    """The kept adapter version to go back to; 0 is the untouched model."""

    model_config = ConfigDict(extra="forbid")
    version: Annotated[StrictInt, Field(ge=0, le=LARGEST)]


class FreezeRequest(BaseModel):
    """Why learning is to stop."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[Text, Field(min_length=1, max_length=500)] = "by hand"


class Secl(BaseModel):
    """How sure the model is of its answer.

    confidence: expected centre of the ten bins, in [0.05, 0.95]. source: what kind of number that is. bins:
    probability of the stated digits 0 to 9, which sum to 1; digit_mass: that of all ten before they were made to.
    frozen_confidence: of the model that never learned. entropy: of the reply, in nats. adapter_version: that computed
    all of the reply. adapting: whether a burst of learning is on. record_id: to ask for the record and to send
    feedback; null where the disk refused (then stored is false).
    """

    confidence: float
    source: Literal["stated"] = "stated"
    bins: list[float]
    digit_mass: float | None
    frozen_confidence: float
    entropy: float | None
    adapter_version: int
    adapting: bool
    record_id: str | None
    stored: bool


class AskReply(BaseModel):
    """An answer (an option letter, or a text; null where the model's words could not be read) and its confidence.

    `text` is the answer as the model wrote it.
    """

    answer: str | None
    option_text: str | None
    text: str
    secl: Secl


class Usage(BaseModel):
    """Tokens of one plain answering pass: prompt, answer and confidence. Their split into two is an estimate."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AnswerMessage(BaseModel):
    """The visible answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    """The only choice."""

    index: Literal[0] = 0
    message: AnswerMessage
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class Completion(BaseModel):
    """OpenAI's chat completion with our object beside it."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    secl: Secl


class ModelCard(BaseModel):
    """A model that can be asked."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "secl"


class ModelList(BaseModel):
    """All models that can be asked: one."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Error(BaseModel):
    """What went wrong, in one sentence and in words for programs."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """OpenAI's shape of an error."""

    error: Error


def visible(record: Record) -> str:
    """The answer as people read it: "B. Paris" for multiple choice, else the text alone."""
    reply, question = record.reply, record.question
    if reply.answer is None:
        return reply.text.strip()
    return f"{reply.answer}. {question.option(reply.answer)}" if question.options else reply.answer


def secl_of(said: Answer) -> Secl:
    """The object with the confidence."""
    record, reply = said.record, said.record.reply
    return Secl(
        confidence=reply.confidence,
        bins=list(reply.bins),
        digit_mass=reply.digit_mass,
        frozen_confidence=record.frozen.confidence,
        entropy=reply.entropy,
        adapter_version=reply.version,
        adapting=record.decision.in_burst,
        record_id=record_id(record.position) if said.stored else None,
        stored=said.stored,
    )


def ask_reply(said: Answer) -> AskReply:
    """The reply to a plain question."""
    question, reply = said.record.question, said.record.reply
    option = question.option(reply.answer) if question.options and reply.answer is not None else None
    return AskReply(answer=reply.answer, option_text=option, text=reply.text.strip(), secl=secl_of(said))


def usage_of(record: Record) -> Usage:
    """Tokens of an answer. A model does not tell prompt and answer apart, so the answer is taken at 4 bytes a token."""
    total = max(2, round(record.plain_tokens))
    written = min(total - 1, max(1, len(record.reply.text.strip().encode()) // 4))
    return Usage(prompt_tokens=total - written, completion_tokens=written, total_tokens=total)


def completion(said: Answer, name: str, model: str, created: int) -> Completion:
    """The reply to a chat request."""
    choice = Choice(message=AnswerMessage(content=visible(said.record)))
    usage, secl = usage_of(said.record), secl_of(said)
    return Completion(id=name, created=created, model=model, choices=[choice], usage=usage, secl=secl)


def chunks(whole: Completion, *, with_usage: bool) -> Iterator[dict[str, Any]]:
    """The same reply as the pieces of a stream: role, content, end with our object, and usage where it is wished."""
    shared = {"id": whole.id, "object": "chat.completion.chunk", "created": whole.created, "model": whole.model}
    nothing = {"usage": None} if with_usage else {}

    def piece(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**shared, "choices": [choice], **nothing}

    yield piece({"role": "assistant", "content": ""}, None)
    yield piece({"content": whole.choices[0].message.content}, None)
    yield {**piece({}, "stop"), "secl": whole.secl.model_dump(mode="json")}
    if with_usage:
        yield {**shared, "choices": [], "usage": whole.usage.model_dump()}


def served_json(served: Served) -> dict[str, Any]:
    """A record with the circumstances of its reply."""
    return {
        "record_id": record_id(served.record.position),
        "time": served.time,
        "batch": served.batch,
        "feedback": served.correct,
        "record": to_export(served.record),
    }


def event_json(event: Event) -> dict[str, Any]:
    """Something that happened to learning."""
    latest = None if event.position is None else record_id(event.position)
    return {
        "time": event.time,
        "kind": event.kind,
        "record_id": latest,
        "adapter_version": event.version,
        "detail": event.detail,
    }
