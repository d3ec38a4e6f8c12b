"""Requests and responses of our own; OpenAI's are in `openai_requests` and `openai_replies`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt

from secl.question import Form, has_half_character
from secl.runs.encoding import to_export
from secl.server.audit.entries import Event, Served, record_id
from secl.server.http.confidence import Secl, rated_secl
from secl.server.online.requests import Answer


def _encodable(text: str) -> str:
    if has_half_character(text):
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
    """A turn of a conversation. Fields other than these are not read; a chat's `warnings` name them."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[Part] | None = None
    tool_calls: list[object] | None = None
    function_call: object = None


Domain = Annotated[Text, Field(min_length=1, max_length=100)]
"""What kind of question it is; labels of a domain move its own confidences more than those of others."""

Refusal = Annotated[Text, Field(min_length=1, max_length=1000)]
"""What a client wants in place of an answer that is not accepted."""


class AskRequest(BaseModel):
    """A question. With options it is multiple choice; without them the answer is a few words unless `form` says else.

    `context` is a passage beside the question, `system` the system text, `history` what was said between that and the
    question. `refuse` stands in place of an answer that is not accepted.
    """

    model_config = ConfigDict(extra="forbid")
    question: str
    options: Texts = []
    form: Form | None = None
    context: str | None = None
    system: str | None = None
    history: Annotated[list[Message], Field(max_length=1000)] = []
    domain: Domain = "default"
    refuse: Refusal | None = None


class Feedback(BaseModel):
    """A person's word on an answer; null takes it back. Weights never learn from it; later confidences follow it.

    `chance`: the probability that this answer was asked about: 1 from somebody who rates every answer, 0.05 from a
    random sample of one in twenty. Leave it out for thumbs of users, who rate what they dislike more often than the
    rest: alone they move the level of all confidences little. `drawn`: true where /v1/review drew the answer by lot;
    then there is no `chance`.
    """

    model_config = ConfigDict(extra="forbid")
    record_id: Text
    correct: StrictBool | None
    chance: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    drawn: StrictBool = False


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
        return AskReply(answer=None, option_text=None, text=refusal, secl=rated_secl(answer))
    question, given = record.question, record.answer
    option = question.option(given) if question.options and given is not None else None
    text = record.reply.text.strip() if answer.written is None else answer.written.text
    return AskReply(answer=given, option_text=option, text=text, secl=rated_secl(answer))


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
