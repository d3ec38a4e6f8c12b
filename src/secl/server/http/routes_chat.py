"""Routes that answer questions: OpenAI's chat completions, and a plain one."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from secl.errors import QuestionError, RequestError, SeclError, UnavailableError
from secl.given import GivenAnswer
from secl.question import Question
from secl.server.audit.entries import record_id
from secl.server.http.confidence import Secl
from secl.server.http.conversation import Asked, asked_in, make_question, turns_of
from secl.server.http.errors import RETRY_SOON, describe_failure, to_request_error
from secl.server.http.metrics import Metrics
from secl.server.http.schemas import (
    AskReply,
    AskRequest,
    ChatRequest,
    Completion,
    ErrorReply,
    ModelCard,
    ModelList,
    SeclOptions,
    ask_reply,
    chunks,
    completion,
)
from secl.server.http.settings import HttpSettings
from secl.server.online.requests import Answer
from secl.server.online.service import Service

log = logging.getLogger("secl.server")

ACCEPTED = "X-Secl-Accepted"
"""Header of a reply: true or false."""

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorReply, "description": "The request cannot be served as it is."},
    500: {"model": ErrorReply, "description": "The model or the server failed on this request."},
    503: {"model": ErrorReply, "description": "Not now: the server is stopping, or has no time."},
}
"""For the API's description."""


def chat_router(service: Service, settings: HttpSettings, metrics: Metrics) -> APIRouter:
    """/v1/chat/completions, /v1/models and /v1/ask."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
    name = settings.served_model_name or public_name(service.model.name)
    card = ModelCard(id=name, created=int(service.started))

    def _refusal(asked: str | None, field: str) -> str | None:
        """What stands in place of an answer that is not accepted: what the request asks for, else the server's text."""
        if asked is not None and service.calibrator.loop.accept is None:
            message = "this server accepts every answer, so there is nothing to refuse; start it with --accept."
            raise RequestError(400, message, "no_threshold", field)
        return asked if asked is not None else settings.refusal

    async def answer(question: Question, request: Request) -> Answer:
        result = await wait_for_answer(service, question, request, settings.timeout)
        metrics.observe_answer(result)
        return result

    @router.post("/v1/chat/completions", response_model=Completion)
    async def chat(body: ChatRequest, request: Request, response: Response) -> Completion | StreamingResponse:
        """Answer the last turn of a conversation. The reply is OpenAI's, with an object `secl` beside it."""
        check_model(body.model, name)
        refuse_unsupported(body)
        options = body.secl or SeclOptions()
        refusal = _refusal(options.refuse, "secl.refuse")
        asked = asked_in(turns_of(body.messages))
        question = make_question(
            asked, options.options, options.form, "sentence", settings.max_prompt_chars, options.domain
        )
        result = await answer(question, request)
        identifier = record_id(result.record.position) if result.stored else uuid.uuid4().hex
        reply = completion(result, f"chatcmpl-{identifier}", name, int(time.time()), refusal)
        headers = accepted_header(reply.secl)
        if not body.stream:
            response.headers.update(headers)
            return reply
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        events = server_sent_events(reply, with_usage=with_usage)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    @router.get("/v1/models")
    async def models() -> ModelList:
        """The model that answers."""
        return ModelList(data=[card])

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> ModelCard:
        """The model that answers, by its name."""
        check_model(model, name)
        return card

    @router.post("/v1/ask")
    async def ask(body: AskRequest, request: Request, response: Response) -> AskReply:
        """Answer one question."""
        if not body.question.strip():
            raise RequestError(400, "the question has no text; give it at least one word.", "bad_question", "question")
        refusal = _refusal(body.refuse, "refuse")
        asked = Asked(body.question.strip(), (body.context or "").strip(), (body.system or "").strip())
        question = make_question(asked, body.options, body.form, "short", settings.max_prompt_chars, body.domain)
        reply = ask_reply(await answer(question, request), refusal)
        response.headers.update(accepted_header(reply.secl))
        return reply

    return router


def accepted_header(secl: Secl) -> dict[str, str]:
    """The header that tells proxies whether an answer is accepted; none on a server without a threshold."""
    return {} if secl.accepted is None else {ACCEPTED: str(secl.accepted).lower()}


def public_name(name: str) -> str:
    """The model's name to the outside: of a folder or file the last part, which tells nothing about this machine.

    >>> public_name("/models/tiny"), public_name("org/model")
    ('tiny', 'org/model')
    """
    return PurePath(name).name if PurePath(name).is_absolute() else name


def check_model(requested: str, name: str) -> None:
    """Check that a request names the model that is here.

    Raises:
        RequestError: 404; it names another one.
    """
    if requested != name:
        message = f"there is no model {requested[:100]!r} here; there is {name!r}."
        raise RequestError(404, message, "model_not_found", "model")


def refuse_unsupported(body: ChatRequest) -> None:
    """Refuse a request whose reply would not hold what it asks for, where silence about that would mislead.

    Raises:
        RequestError: 400; it names the field.
    """
    response_type = None if body.response_format is None else body.response_format.get("type")
    unsupported = {
        "n": (body.n not in (None, 1), "there is one answer to a question, so n must be 1."),
        "tools": (bool(body.tools), "this model uses no tools."),
        "functions": (bool(body.functions), "this model calls no functions."),
        "logprobs": (bool(body.logprobs), "no log-probabilities are given; the object secl holds the confidence."),
        "modalities": (body.modalities not in (None, [], ["text"]), "this model writes text only."),
        "response_format": (
            body.response_format is not None and response_type != "text",
            "answers are plain text; for a fixed set of answers give options in the object secl.",
        ),
    }
    for field, (requested, message) in unsupported.items():
        if requested:
            raise RequestError(400, message, "unsupported_value", field)


async def wait_for_answer(service: Service, asked: Question | GivenAnswer, request: Request, timeout: float) -> Answer:
    """Ask a question, or have an answer rated, and wait until the timeout or until the client disconnects.

    Raises:
        RequestError: 499, 503 or 500; of an unexpected exception nothing but its type and place is logged.
        QuestionError: the model cannot answer this question.
    """
    future = asyncio.wrap_future(service.submit(asked))
    disconnect = asyncio.ensure_future(_disconnected(request))
    pending: set[asyncio.Future[Answer] | asyncio.Future[None]] = {future, disconnect}
    try:
        await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
    except QuestionError:
        raise
    except UnavailableError as error:
        raise RequestError(503, str(error), "no_endpoint", headers=RETRY_SOON) from None
    except Exception as error:  # a SeclError too is not the client's fault here
        log.error("the model failed on a question: %s", describe_failure(error))
        raise to_request_error(SeclError()) from None
    finally:
        future.cancel()
        disconnect.cancel()
    if disconnect.done():
        raise RequestError(499, "the client has gone.", "gone")
    raise RequestError(503, f"no answer within {timeout:g} seconds; ask again later.", "timeout", headers=RETRY_SOON)


async def _disconnected(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def server_sent_events(reply: Completion, *, with_usage: bool) -> AsyncIterator[str]:
    """A reply as a stream of server-sent events."""
    for chunk in chunks(reply, with_usage=with_usage):
        yield f"data: {json.dumps(chunk, allow_nan=False)}\n\n"
    yield "data: [DONE]\n\n"
