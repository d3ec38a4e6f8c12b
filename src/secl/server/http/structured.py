"""Objects in place of texts: what a chat asks of them, and how they are replied."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from secl.errors import ParameterError, RequestError, UnfinishedError
from secl.evaluation.json_values import defined
from secl.fields.extraction import ObjectRequest
from secl.fields.schema import Schema
from secl.question import Question
from secl.server.http.chat_request import ChatRequest, ResponseFormat
from secl.server.http.confidence import UNWANTED, Candidate, Secl, field_secl, unrated
from secl.server.http.replies import AnswerMessage, Choice, Completion, Heading, Usage, completion_of
from secl.server.online.queue import StructuredAnswer
from secl.server.settings import HttpSettings

IN_FIELDS = "an object has no record of its own; each of its fields has one."
WITHOUT_EFFECT = ("temperature", "top_p", "seed", "stop", "logprobs", "top_logprobs")
"""Fields that say how a text is drawn; an object is the most probable one."""


def schema_of(wanted: ResponseFormat) -> Schema:
    """The schema of the objects that a request asks for. Raises RequestError: 400; it cannot be used."""
    given = wanted.json_schema
    if wanted.type == "json_object" or given is None or given.schema_ is None:
        return Schema.anything()
    root = {"type": "object", **given.schema_}
    if root["type"] == "object" and not ({"properties", "$ref", "allOf", "anyOf", "oneOf"} & {*root}):
        return Schema.anything(root)
    try:
        return Schema.of(root)
    except ParameterError as problem:
        raise RequestError(400, str(problem), "bad_schema", "response_format") from None


def object_request(
    body: ChatRequest, question: Question, settings: HttpSettings, *, writes: bool
) -> ObjectRequest | None:
    """The request of an object that ends a conversation; None where a text is asked for.

    The names of the fields stand behind the question. `writes`: whether the model writes objects.

    Raises RequestError: 400; the model writes no objects, the schema cannot be used, or several objects are wanted.
    """
    wanted = body.object_wanted
    if wanted is None:
        return None
    if not writes:
        message = "this model writes no objects; for a fixed set of answers ask /v1/ask."
        raise RequestError(400, message, "unsupported_value", "response_format")
    if (body.n or 1) > 1:
        raise RequestError(400, f"n is {body.n}; one object is written for a request.", "unsupported_value", "n")
    schema = schema_of(wanted)
    said = repr((question.system, question.history, question.text))
    digest = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:12]
    text = question.text
    if schema.leaves:
        text += (
            f"\n\nReply with one JSON object that has exactly these keys, in this order:\n{schema.listing()}\n"
            "Write null where a field may be null and has no value."
        )
    most = min(body.token_limit or settings.max_tokens, settings.max_tokens)
    return ObjectRequest(replace(question, text=text, id=digest), schema, most)


def without_effect(body: ChatRequest) -> list[str]:
    """A sentence for each field of a request that an object does not follow."""
    names = [name for name in WITHOUT_EFFECT if getattr(body, name)]
    return [f"{name} has no effect on an object, which is the most probable one." for name in names]


def object_reply(heading: Heading, answer: StructuredAnswer) -> Completion:
    """The reply with an object."""
    found = answer.found
    plain = json.loads(found.text)
    # A null that stands for an absent field is left out, as the client's schema may not allow it.
    text = found.text if plain == found.value else json.dumps(found.value, ensure_ascii=False)
    prompt, written = found.tokens
    usage = Usage(prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written)
    message = AnswerMessage(content=text)
    choice = Choice(index=0, message=message, finish_reason="stop", logprobs=None, secl=_secl(heading, answer))
    return completion_of(heading, [choice], usage)


def unfinished_reply(heading: Heading, problem: UnfinishedError) -> Completion:
    """The reply where the model did not close the object."""
    message = AnswerMessage(content="")
    choice = Choice(index=0, message=message, finish_reason="length", logprobs=None, secl=unrated(str(problem)))
    return completion_of(heading, [choice], Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0))


def _secl(heading: Heading, answer: StructuredAnswer) -> Secl:
    """The confidences of an object; without any where the request wants none."""
    found = answer.found
    if not answer.answers:
        return UNWANTED
    stored = all(each.stored for each in answer.answers)
    candidates = [Candidate(text=text, probability=probability) for text, probability in found.candidates]
    return Secl(
        confidence=defined(found.confidence),
        candidates=candidates if heading.full else None,
        accepted=found.accepted,
        record_id=None,
        reason=IN_FIELDS if stored else "the server cannot write to its disk, so the fields have no records.",
        fields={
            name: field_secl(each, full=heading.full) for name, each in zip(found.fields, answer.answers, strict=True)
        },
    )
