"""Chats that ask for an object or for calls of tools: their requests and their replies."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fastapi import Request

from secl.display import excerpt
from secl.errors import ParameterError, QuestionError, RequestError, UnfinishedError
from secl.evaluation.json_values import defined
from secl.fields.calls import Calls, WritesCalls
from secl.fields.extraction import Extraction, ObjectRequest, WritesObjects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.server.http.chat_request import (
    WITHOUT_EFFECT,
    ChatRequest,
    ResponseFormat,
    check_length,
    question_in,
    turns_of,
)
from secl.server.http.errors import unsupported
from secl.server.http.replies import (
    UNWANTED,
    Completion,
    Secl,
    answer_reply,
    call_secl,
    candidates_of,
    choice_of,
    secl_of,
    unrated,
    usage_of,
)
from secl.server.http.streams import ChatReply, wait_for
from secl.server.online.queue import Answer
from secl.server.online.service import Service

IN_PARTS = "each field or choice in this answer has its own record; the whole answer has none."
NOT_STORED = "the server cannot write to its disk, so there are no records."
WITHOUT_PARTS = "the request fixed every part of the answer, so there is nothing to rate."
AFTER_RESULTS = "secl does not rate a text that follows results of tools."
DRAWING = ("temperature", "top_p", "seed", "stop", "logprobs", "top_logprobs")
"""Fields that have no effect on objects and calls."""


def structured_request(body: ChatRequest, service: Service) -> ObjectRequest | CallRequest | None:
    """Return the request for an object or for calls in a chat; None if the chat asks for a text.

    Raises RequestError (400): the model cannot write objects or calls, or schema, tools or messages are unusable.
    """
    upstream, form, choice = service.upstream, body.response_format, chosen_tool(body)
    wanted = None if form is None or form.type == "text" else form
    calls = bool(body.tools) and (choice != "none" or upstream is not None)
    if wanted is None and not calls:
        return None
    field = "tools" if calls else "response_format"
    able = isinstance(service.model, WritesCalls if calls else WritesObjects)
    # A vLLM server behind `secl serve --engine vllm` (`takes_all` is False) writes only texts, no objects or calls.
    if not able or (upstream is not None and not upstream.takes_all):
        remedy = f"leave {field} out, or ask /v1/ask for one of a fixed set of answers"
        raise unsupported(field, f"secl supports no {field} with this model; {remedy}.")
    beyond = [name for name in body.extra if name not in WITHOUT_EFFECT]
    if beyond:  # fields that only the upstream server supports
        names = ", ".join(beyond)
        raise unsupported(field, f"{names} cannot be combined with {field}; remove {names}, or remove {field}.")
    if (body.n or 1) > 1:
        raise unsupported("n", f"n is {body.n}; with {field}, secl supports one answer, so leave n out.")
    if wanted is not None and calls:
        message = "response_format asks for an object, but tools ask for calls; send only one of these fields."
        raise unsupported("response_format", message)
    most = body.most_tokens(service.limits)
    try:
        if wanted is not None:
            question = question_in(body.messages, body.secl.domain, tools=upstream is None)
            return ObjectRequest.of_chat(question, schema_of(wanted), most)
        tools, parallel = [tool.model_dump() for tool in body.tools or ()], body.parallel_tool_calls is not False
        asked = CallRequest.of(turns_of(body.messages), tools, choice=choice, parallel=parallel, max_tokens=most)
    except (ParameterError, QuestionError) as problem:
        raise RequestError(400, str(problem), f"bad_{field}", field) from None
    check_length(asked.question, json.dumps(tools), *(turn.text for turn in asked.since))
    return asked


def chosen_tool(body: ChatRequest) -> str:
    """Return "auto", "required", "none", or the name of the tool to call."""
    chosen = body.tool_choice or ("auto" if body.tools else "none")
    named = chosen.get("function") if isinstance(chosen, dict) else None
    return str(named.get("name")) if isinstance(named, dict) else str(chosen)


def schema_of(wanted: ResponseFormat) -> Schema:
    """Return the schema of the requested object. Raises ParameterError: an unusable schema."""
    given = wanted.json_schema
    if wanted.type == "json_object" or given is None or given.schema_ is None:
        return Schema.anything()
    root = {"type": "object", **given.schema_}
    if root["type"] != "object":
        raise ParameterError(
            f"the root of the schema has the type {excerpt(str(root['type']), 40)!r}; give it the type object."
        )
    names_fields = {"properties", "$ref", "allOf", "anyOf", "oneOf"} & {*root}
    return Schema.of(root) if names_fields else Schema.anything(root)


def without_effect(body: ChatRequest) -> list[str]:
    """Return a warning for each field in `DRAWING` that the request sets."""
    names = [name for name in DRAWING if getattr(body, name)]
    return [f"{name} has no effect here: the server returns the most probable object or calls." for name in names]


async def structured_reply(
    service: Service, asked: ObjectRequest | CallRequest, reply: ChatReply, request: Request, timeout: float, rate: bool
) -> Completion:
    """Wait for an object or for calls, and return the reply. If the model writes a text and no call, rate the text.

    Raises the errors of `wait_for`.
    """
    try:
        found, answers = await wait_for(service.submit(asked, rate=rate), request, timeout)
    except UnfinishedError as problem:
        return reply.whole([choice_of("", "length", unrated(str(problem)))], usage_of(0, 0))
    secl = _whole(found, answers)
    text, calls = found.text, found.turn.calls if isinstance(found, Calls) else ()
    parts = (answer_reply(each, full=reply.full) for each in answers)
    if isinstance(found, Extraction):
        secl["fields"] = {name: next(parts) for name in found.fields if answers}
        if reply.full:
            secl["candidates"] = candidates_of(found.candidates)
        plain = json.loads(found.text)
        # The model writes null for an absent field. `found.value` omits the field, because the schema may forbid null.
        text = text if plain == found.value else json.dumps(found.value, ensure_ascii=False)
    elif not found.calls:
        secl = unrated(AFTER_RESULTS)
        if rate and found.text and isinstance(asked, CallRequest) and not asked.since:
            rated = await wait_for(service.submit(asked.question, written=found.written), request, timeout)
            secl = secl_of(rated, full=reply.full)
        secl["calls"] = []
    elif answers:
        secl["calls"] = [call_secl(call, parts) for call in found.calls]
    for last in parts:
        secl["ended"] = last
    thought = None if found.thought is None else found.thought.text
    choice = choice_of(text, "stop", secl if rate else UNWANTED, thought=thought, calls=calls)
    return reply.whole([choice], usage_of(*found.tokens))


def _whole(found: Extraction | Calls, answers: Sequence[Answer]) -> Secl:
    """Return the object `secl` of a whole answer; `structured_reply` adds the confidences of fields or calls."""
    if not answers:
        return unrated(WITHOUT_PARTS)
    secl = unrated(IN_PARTS if all(each.stored for each in answers) else NOT_STORED)
    secl["confidence"] = defined(found.confidence)
    secl["accept"], secl["accepted"] = found.accept, found.accepted
    return secl
