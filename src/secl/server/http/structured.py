"""Chats that ask for an object or for calls of tools: their requests and their replies."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from secl.display import excerpt
from secl.errors import ParameterError, QuestionError, RequestError, UnfinishedError
from secl.evaluation.json_values import defined
from secl.fields.calls import Calls, WritesCalls
from secl.fields.extraction import Extraction, ObjectRequest, WritesObjects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.server.http.chat_request import WITHOUT_EFFECT, ChatRequest, ResponseFormat
from secl.server.http.confidence import UNWANTED, CallSecl, Candidate, Secl, field_secl, secl_of, unrated
from secl.server.http.replies import AnswerMessage, Choice, Completion, Heading, Usage, called_message, completion_of
from secl.server.http.requests import check_length, question_in, turns_of
from secl.server.http.waiting import wait_for
from secl.server.online.queue import StructuredAnswer
from secl.server.online.service import Service
from secl.server.settings import HttpSettings

IN_PARTS = "an answer of several parts has no record of its own; each part has one."
NOT_STORED = "the server cannot write to its disk, so there are no records."
BEHIND_RESULTS = "a text behind the results of tools is not rated."
DRAWING = ("temperature", "top_p", "seed", "stop", "logprobs", "top_logprobs")
"""Fields that control how a text is sampled."""


def structured_request(
    body: ChatRequest, settings: HttpSettings, service: Service
) -> ObjectRequest | CallRequest | None:
    """Return the request for an object or for calls in a chat; None if the chat asks for a text.

    Raises RequestError: 400; the model cannot write it, or schema, tools or messages cannot be used.
    """
    wanted, calls = body.object_wanted, bool(body.tools) and (body.choice != "none" or service.upstream is not None)
    if wanted is None and not calls:
        return None
    field = "tools" if calls else "response_format"
    if not service.writes(WritesCalls if calls else WritesObjects):
        message = f"this model supports no {field}; for a fixed set of answers ask /v1/ask."
        raise RequestError(400, message, "unsupported_value", field)
    beyond = [name for name in body.extra if name not in WITHOUT_EFFECT]
    if beyond:  # in front of another server, which knows these fields
        message = f"{', '.join(beyond)} cannot be combined with {field}; leave out one of them."
        raise RequestError(400, message, "unsupported_value", field)
    if (body.n or 1) > 1:
        raise RequestError(
            400, f"n is {body.n}; with {field} the server writes one answer, so leave n out.", "unsupported_value", "n"
        )
    if wanted is not None and calls:
        message = "response_format asks for an object, and tools for calls; send one of the two."
        raise RequestError(400, message, "unsupported_value", "response_format")
    most = min(body.token_limit or settings.max_tokens, settings.max_tokens)
    try:
        if wanted is not None:
            question = question_in(body.messages, body.wishes.domain, tools=service.upstream is None)
            return ObjectRequest.of_chat(question, schema_of(wanted), most)
        tools, parallel = [tool.model_dump() for tool in body.tools or ()], body.parallel_tool_calls is not False
        asked = CallRequest.of(turns_of(body.messages), tools, choice=body.choice, parallel=parallel, max_tokens=most)
    except (ParameterError, QuestionError) as problem:
        raise RequestError(400, str(problem), f"bad_{field}", field) from None
    check_length(asked.question, json.dumps(tools), *(turn.text for turn in asked.since))
    return asked


def schema_of(wanted: ResponseFormat) -> Schema:
    """Return the schema of the objects that a request asks for. Raises ParameterError: the schema cannot be used."""
    given = wanted.json_schema
    if wanted.type == "json_object" or given is None or given.schema_ is None:
        return Schema.anything()
    root = {"type": "object", **given.schema_}
    if root["type"] != "object":
        raise ParameterError(
            f"the root of the schema has the type {excerpt(str(root['type']), 40)!r}; it must be object."
        )
    names_fields = {"properties", "$ref", "allOf", "anyOf", "oneOf"} & {*root}
    return Schema.of(root) if names_fields else Schema.anything(root)


def without_effect(body: ChatRequest) -> list[str]:
    """Return a warning for each field of a request that has no effect on objects and calls."""
    names = [name for name in DRAWING if getattr(body, name)]
    return [f"{name} has no effect here: the most probable answer is returned." for name in names]


async def structured_reply(
    service: Service, asked: ObjectRequest | CallRequest, heading: Heading, request: Request, timeout: float, rate: bool
) -> Completion:
    """Wait for the reply; errors as of `wait_for`. A text in place of a call is rated as any other text."""
    try:
        answer: StructuredAnswer = await wait_for(service.submit(asked, rate=rate), request, timeout)
    except UnfinishedError as problem:
        choice = Choice(index=0, message=AnswerMessage(content=""), finish_reason="length", secl=unrated(str(problem)))
        return completion_of(heading, [choice], Usage.of(0, 0))
    found, secl = answer.found, _secl(answer, heading)
    if isinstance(found, Extraction):
        plain = json.loads(found.text)
        # A null that stands for an absent field is left out, as the client's schema may not allow it.
        text = found.text if plain == found.value else json.dumps(found.value, ensure_ascii=False)
        choice = Choice(index=0, message=AnswerMessage(content=text), finish_reason="stop", secl=secl)
    elif found.calls:
        message = called_message(found.text, found.turn.calls)
        choice = Choice(index=0, message=message, finish_reason="tool_calls", secl=secl)
    else:
        if isinstance(asked, CallRequest) and rate and found.text and not asked.since:
            text_answer = await wait_for(service.submit(asked.question, written=found.text), request, timeout)
            whole = secl_of(text_answer, full=heading.full)
            secl = whole.model_copy(update={"calls": secl.calls, "ended": secl.ended})
        choice = Choice(index=0, message=AnswerMessage(content=found.text), finish_reason="stop", secl=secl)
    if not rate:
        choice.secl = UNWANTED
    return completion_of(heading, [choice], Usage.of(*found.tokens))


def _secl(answer: StructuredAnswer, heading: Heading) -> Secl:
    """The confidences of an object or of calls."""
    found, parts = answer.found, (field_secl(each, full=heading.full) for each in answer.answers)
    if not answer.answers:
        return unrated(BEHIND_RESULTS)
    values: dict[str, Any] = {}
    if isinstance(found, Extraction):
        values["fields"] = {name: next(parts) for name in found.fields}
        if heading.full:
            values["candidates"] = [Candidate(text=text, probability=chance) for text, chance in found.candidates]
    else:
        values["calls"] = [
            CallSecl(
                name=call.name,
                confidence=defined(call.confidence),
                tool=None if call.tool is None else next(parts),
                fields={name: next(parts) for name in call.fields},
            )
            for call in found.calls
        ]
        values["ended"] = None if found.ended is None else next(parts)
    if isinstance(found, Calls) and not found.calls:
        return unrated(BEHIND_RESULTS).model_copy(update=values)
    reason = IN_PARTS if all(each.stored for each in answer.answers) else NOT_STORED
    whole = {"confidence": defined(found.confidence), "accepted": found.accepted, "record_id": None, "reason": reason}
    return Secl(**whole, **values)
