"""Chats that ask for an object or for calls of tools: their requests and their replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastapi import Request

from secl.client import AnswerReply, Secl
from secl.display import excerpt
from secl.errors import ParameterError, QuestionError, RequestError, UnfinishedError
from secl.evaluation.json_values import defined
from secl.fields.calls import Calls, WritesCalls
from secl.fields.extraction import Extraction, ObjectRequest, WritesObjects, remarks_on
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest, Tool
from secl.fields.weighing import reaches
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
    answer_reply,
    call_secl,
    candidates_of,
    choice_of,
    secl_of,
    unrated,
    usage_of,
)
from secl.server.http.streams import ChatReply, wait_for
from secl.server.online.queue import ServedAnswer
from secl.server.online.service import Service

IN_PARTS = "each field or choice in this answer has its own record; the whole answer has none."
NOT_STORED = "the server cannot write to its disk, so there are no records."
WITHOUT_PARTS = "the request fixed every part of the answer, so there is nothing to rate."
CUT = "the token limit cut the text, so secl does not rate it."
AFTER_RESULTS = "secl does not rate a text that follows results of tools."
DRAWING = ("temperature", "top_p", "seed", "stop", "logprobs", "top_logprobs")
"""Fields that have no effect on objects and calls."""


class Structured(NamedTuple):
    """A chat that asks for an object or for calls.

    Attributes:
        asked: the request for the object or for the calls.
        otherwise: the object to write if the model calls no tool; None for a text.
        warnings: sentences about tools and keywords of schemas that the model does not use.
    """

    asked: ObjectRequest | CallRequest
    otherwise: ObjectRequest | None
    warnings: list[str]


def structured_request(body: ChatRequest, service: Service) -> Structured | None:
    """Return what a chat asks for; None if the chat asks for a text.

    Raises RequestError (400): the model cannot write objects or calls, or schema, tools or messages are unusable.
    """
    upstream, form, (choice, allowed) = service.upstream, body.response_format, chosen_tool(body)
    after_results = bool(body.messages) and body.messages[-1].role == "tool"
    calls = bool(body.tools) and (choice != "none" or after_results or upstream is not None)
    # A reply that must have calls has no text, so no text has to satisfy `response_format`.
    wanted = None if form is None or form.type == "text" or (calls and choice not in ("auto", "none")) else form
    if wanted is None and not calls:
        return None
    field = "tools" if calls else "response_format"
    able = isinstance(service.model, WritesCalls if calls else WritesObjects)
    # A vLLM server behind `secl serve --engine vllm` (`takes_all` is False) writes only texts, no objects or calls.
    if not able or (upstream is not None and not upstream.takes_all):
        remedy = f"leave {field} out, or ask /v1/ask for one of a fixed set of answers"
        raise unsupported(field, f"secl supports no {field} with this model; {remedy}.")
    beyond = [name for name in body.beyond if name not in WITHOUT_EFFECT]
    if beyond:  # fields that only the upstream server supports
        names = ", ".join(beyond)
        raise unsupported(field, f"{names} cannot be combined with {field}; remove {names}, or remove {field}.")
    if (body.n or 1) > 1:
        raise unsupported("n", f"n is {body.n}; with {field}, secl supports one answer, so leave n out.")
    most, warnings, schema = body.most_tokens(service.limits), list[str](), None
    with refused_as("response_format"):
        if wanted is not None:
            schema = schema_of(wanted)
            warnings += remarks_on(service.model, schema)
    if schema is not None and not calls:
        question = question_in(body.messages, body.secl.domain, tools=upstream is None)
        return Structured(ObjectRequest.of_chat(question, schema, most), None, warnings)
    with refused_as("tools"):
        tools, left_out = usable_tools(body, service.model, {choice, *allowed})
        asked = CallRequest.of(
            turns_of(body.messages),
            [tool for tool in tools if not allowed or tool.name in allowed],
            choice=choice,
            parallel=body.parallel_tool_calls is not False,
            max_tokens=most,
            decides=schema is not None,
        )
    check_length(asked.question, json.dumps([tool.definition for tool in tools]), *(turn.text for turn in asked.since))
    otherwise = None if schema is None else ObjectRequest.of_chat(asked.question, schema, most, asked.since)
    if otherwise is not None and choice == "none":
        return Structured(otherwise, None, warnings)
    return Structured(asked, otherwise, warnings + left_out)


@contextmanager
def refused_as(field: str) -> Iterator[None]:
    """Turn errors about schemas, tools and conversations into a refusal (400) of a field."""
    try:
        yield
    except (ParameterError, QuestionError) as problem:
        raise RequestError(400, str(problem), f"bad_{field}", field) from None


def usable_tools(body: ChatRequest, model: object, needed: set[str]) -> tuple[list[Tool], list[str]]:
    """Return the tools that the model can call, and warnings about the others.

    Raises ParameterError: a needed tool, or every tool, is unusable.
    """
    usable, warnings, refusal = list[Tool](), list[str](), None
    for number, spec in enumerate(body.tools or ()):
        name = "" if spec.function is None else spec.function.name
        try:
            if spec.type != "function" or spec.function is None:
                fault = f"has the type {spec.type[:40]!r}" if spec.type != "function" else 'has no "function"'
                raise ParameterError(f"tools.{number} {fault}; secl supports only functions, as in OpenAI's API.")
            tool = Tool.of(spec.model_dump())
            warnings += tool.remarks_on(model)
            usable.append(tool)
        except ParameterError as problem:
            if name in needed:
                raise
            refusal = problem
            warnings.append(f"{str(problem).removesuffix('.')}; the model cannot call this tool.")
    if refusal is not None and not usable:
        raise refusal
    return usable, warnings


def chosen_tool(body: ChatRequest) -> tuple[str, tuple[str, ...]]:
    """Return "auto", "required", "none" or the name of the tool to call, and the allowed tools; () for all tools.

    Raises RequestError (400): the request has no such tool.
    """
    given: Any = body.tool_choice or ("auto" if body.tools else "none")
    chosen, allowed = "required" if given == "any" else given, tuple[Any, ...]()
    if isinstance(given, dict):
        some = given.get("allowed_tools")
        if isinstance(some, dict):
            chosen, allowed = some.get("mode"), tuple(map(named_in, some.get("tools") or ()))
        else:
            chosen = named_in(given) or given.get("type")
    names = [tool.function.name for tool in body.tools or () if tool.function is not None]
    if chosen not in ("auto", "required", "none", *names) or not {*allowed} <= {*names}:
        message = f"tool_choice is {excerpt(repr(given), 80)}; give auto, required, none, or a function in tools."
        raise unsupported("tool_choice", message)
    return str(chosen), allowed


def named_in(choice: Any) -> object:
    """Return the name of a function in OpenAI's form; None if there is no name."""
    function = choice.get("function") if isinstance(choice, dict) else None
    return function.get("name") if isinstance(function, dict) else None


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
    return Schema.of(root, free=True)


def without_effect(body: ChatRequest) -> list[str]:
    """Return a warning for each field in `DRAWING` that the request sets."""
    names = [name for name in DRAWING if getattr(body, name)]
    return [f"{name} has no effect here: the server returns the most probable object or calls." for name in names]


async def structured_reply(
    service: Service, chat: Structured, reply: ChatReply, request: Request, timeout: float, rate: bool
) -> Completion:
    """Wait for an object or for calls, and return the reply.

    If the model calls no tool, secl rates its text, or lets it write the object that the chat asks for.
    Raises the errors of `wait_for`.
    """
    asked, spent, decided = chat.asked, 0, None
    try:
        found, answers = await wait_for(service.submit(asked, rate=rate), request, timeout)
        if chat.otherwise is not None and not found.calls:
            decided, spent = (found, answers), found.tokens[1]
            found, answers = await wait_for(service.submit(chat.otherwise, rate=rate), request, timeout)
    except UnfinishedError as problem:
        prompt, written = problem.tokens
        return reply.whole([choice_of("", "length", unrated(str(problem)))], usage_of(prompt, spent + written))
    secl = _whole(found, answers)
    text, calls = found.text, found.turn.calls if isinstance(found, Calls) else ()
    parts: Iterator[AnswerReply] = (answer_reply(each, full=reply.full) for each in answers)
    if isinstance(found, Extraction):
        secl["fields"] = {name: next(parts) for name in found.fields if answers}
        if reply.full:
            secl["candidates"] = candidates_of(found.candidates)
        plain = json.loads(found.text)
        # The model writes null for an absent field. `found.value` omits the field, because the schema may forbid null.
        text = text if plain == found.value else json.dumps(found.value, ensure_ascii=False)
        if decided is not None:
            parts = _with_decision(secl, *decided, full=reply.full)
    elif not found.calls:
        secl = unrated(CUT if found.cut else AFTER_RESULTS)
        if rate and found.text and isinstance(asked, CallRequest) and not asked.since and not found.cut:
            rated = await wait_for(service.submit(asked.question, written=found.written), request, timeout)
            secl = secl_of(rated, full=reply.full, content=text)
        secl["calls"] = []
    elif answers:
        secl["calls"] = [call_secl(call, parts) for call in found.calls]
    for last in parts:
        secl["ended"] = last
    thought = None if found.thought is None else found.thought.text
    cut = isinstance(found, Calls) and found.cut
    choice = choice_of(text, "length" if cut else "stop", secl if rate else UNWANTED, thought=thought, calls=calls)
    return reply.whole([choice], usage_of(found.tokens[0], spent + found.tokens[1]))


def _with_decision(secl: Secl, found: Calls, answers: Sequence[ServedAnswer], *, full: bool) -> Iterator[AnswerReply]:
    """Add the decision to call no tool to the confidence of an object, and yield the decision's own confidence."""
    secl["calls"] = []
    for answer in answers:
        if secl["confidence"] is not None:
            secl["confidence"] *= found.confidence
            secl["accepted"] = reaches(secl["confidence"], secl["accept"])
        yield answer_reply(answer, full=full)


def _whole(found: Extraction | Calls, answers: Sequence[ServedAnswer]) -> Secl:
    """Return the object `secl` of a whole answer; `structured_reply` adds the confidences of fields or calls."""
    if not answers:
        return unrated(WITHOUT_PARTS)
    secl = unrated(IN_PARTS if all(each.stored for each in answers) else NOT_STORED)
    secl["confidence"] = defined(found.confidence)
    secl["accept"], secl["accepted"] = found.accept, found.accepted
    return secl
