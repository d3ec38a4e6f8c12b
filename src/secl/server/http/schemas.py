"""Requests and responses: OpenAI's chat completions, and our own beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt

from secl.question import Form
from secl.records import Record
from secl.runs.encoding import to_export
from secl.server.audit.entries import Event, Served, record_id
from secl.server.audit.wording import answer_text
from secl.server.http.confidence import Secl, secl_of
from secl.server.online.requests import Answer


def _encodable(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it contains an unpaired surrogate, which is invalid Unicode")
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""A text that can be encoded as UTF-8."""

Texts = Annotated[list[str], Field(max_length=1000)]
LARGEST_EXACT = 2**53
"""The largest whole number that every JSON parser reads exactly."""


class Part(BaseModel):
    """A piece of a message. Only those of type "text" can be read."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """A turn of a conversation."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[object] | None = None


Domain = Annotated[Text, Field(min_length=1, max_length=100)]
"""What kind of question it is; labels of a domain move its own confidences more than those of others."""

Refusal = Annotated[Text, Field(min_length=1, max_length=1000)]
"""What a client wants in place of an answer that is not accepted."""


class SeclOptions(BaseModel):
    """Fields of a chat request beyond OpenAI's: options to choose from, or the form of the answer; the domain.

    refuse: text in place of an answer that is not accepted.
    """

    model_config = ConfigDict(extra="forbid")
    options: Texts = []
    form: Form | None = None
    domain: Domain = "default"
    refuse: Refusal | None = None


class StreamOptions(BaseModel):
    """OpenAI's options of a stream."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for a chat completion.

    Answers are greedy: sampling parameters (temperature, top_p, seed, stop, max_tokens, ...) are accepted and change
    nothing. Fields that ask for something else (n above 1, tools, logprobs, a response format) are refused.
    """

    model: str
    messages: list[Message]
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[object] | None = None
    functions: list[object] | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    response_format: dict[str, object] | None = None
    secl: SeclOptions | None = None


class AskRequest(BaseModel):
    """A question. With options it is multiple choice; without them the answer is a few words unless `form` says else.

    `context` is a passage beside the question, `system` the system text. `refuse` stands in place of an answer that is
    not accepted.
    """

    model_config = ConfigDict(extra="forbid")
    question: str
    options: Texts = []
    form: Form | None = None
    context: str | None = None
    system: str | None = None
    domain: Domain = "default"
    refuse: Refusal | None = None


class Feedback(BaseModel):
    """A person's word on an answer; null takes it back. Weights never learn from it; later confidences follow it.

    `chance`: the probability that this answer was asked about: 1 from somebody who rates every answer, 0.05 from a
    random sample of one in twenty. Leave it out for thumbs of users, who rate what they dislike more often than the
    rest: alone they move the level of all confidences little.
    """

    model_config = ConfigDict(extra="forbid")
    record_id: Text
    correct: StrictBool | None
    chance: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None


class RollbackRequest(BaseModel):
    """The kept adapter version to go back to; 0 is the untouched model."""

    model_config = ConfigDict(extra="forbid")
    version: Annotated[StrictInt, Field(ge=0, le=LARGEST_EXACT)]


class PruneRequest(BaseModel):
    """What is kept; the rest is pruned."""

    model_config = ConfigDict(extra="forbid")
    keep_records: (
        Annotated[Text, Field(max_length=40, description="So many records (100000), or days (30d).")] | None
    ) = None
    keep_versions: Annotated[StrictInt, Field(ge=1, le=LARGEST_EXACT)] | None = None


class PauseRequest(BaseModel):
    """Why learning is to pause."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[Text, Field(min_length=1, max_length=500)] = "by hand"


class AskReply(BaseModel):
    """An answer (an option letter, or a text; null where the model's words could not be read) and its confidence.

    `text` is the model's own answer as it wrote it. The answer is that, unless the server answers with the most
    probable candidate. Where an answer is not accepted and a refusal was asked for, `text` is that, and the others are
    null.
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


def ask_reply(answer: Answer, refusal: str | None = None) -> AskReply:
    """The reply to a plain question, with a refusal if its answer is not accepted."""
    record = answer.record
    if refusal is not None and record.abstained:
        return AskReply(answer=None, option_text=None, text=refusal, secl=secl_of(answer))
    question, given = record.question, record.answer
    option = question.option(given) if question.options and given is not None else None
    return AskReply(answer=given, option_text=option, text=record.reply.text.strip(), secl=secl_of(answer))


def usage_of(record: Record) -> Usage:
    """Tokens of an answer. A model counts prompt and answer together; the answer is estimated at 4 bytes a token."""
    total = max(2, round(record.plain_tokens))
    written = min(total - 1, max(1, len(record.reply.text.strip().encode()) // 4))
    return Usage(prompt_tokens=total - written, completion_tokens=written, total_tokens=total)


def completion(answer: Answer, identifier: str, model: str, created: int, refusal: str | None = None) -> Completion:
    """The reply to a chat request, with a refusal if its answer is not accepted."""
    refused = refusal is not None and answer.record.abstained
    choice = Choice(message=AnswerMessage(content=str(refusal) if refused else answer_text(answer.record)))
    usage, secl = usage_of(answer.record), secl_of(answer)
    return Completion(id=identifier, created=created, model=model, choices=[choice], usage=usage, secl=secl)


def chunks(reply: Completion, *, with_usage: bool) -> Iterator[dict[str, object]]:
    """A reply as the chunks of a stream: role, content, end with our object, and usage if the request asks for it."""
    shared = {"id": reply.id, "object": "chat.completion.chunk", "created": reply.created, "model": reply.model}
    no_usage = {"usage": None} if with_usage else {}

    def chunk(delta: dict[str, str], reason: str | None) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**shared, "choices": [choice], **no_usage}

    yield chunk({"role": "assistant", "content": ""}, None)
    yield chunk({"content": reply.choices[0].message.content}, None)
    yield {**chunk({}, "stop"), "secl": reply.secl.model_dump(mode="json")}
    if with_usage:
        yield {**shared, "choices": [], "usage": reply.usage.model_dump()}


def served_json(served: Served) -> dict[str, object]:
    """A record with the circumstances of its reply."""
    return {
        "record_id": record_id(served.record.position),
        "time": served.time,
        "batch": served.batch,
        "feedback": served.correct,
        "record": to_export(served.record),
    }


def event_json(event: Event) -> dict[str, object]:
    """Something that happened to learning."""
    latest = None if event.position is None else record_id(event.position)
    return {
        "time": event.time,
        "kind": event.kind,
        "record_id": latest,
        "adapter_version": event.version,
        "detail": event.detail,
    }
