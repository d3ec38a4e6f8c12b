"""The routes that answer questions: chat completions as OpenAI has them, and a plain one."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from secl.backends.vllm.endpoint import UnavailableError
from secl.errors import QuestionError, RequestError, SeclError
from secl.records import Question
from secl.server.audit.entries import record_id
from secl.server.http.conversation import make_question, question_text, turns_of, with_context
from secl.server.http.errors import RETRY_SOON, describe_failure, to_request_error
from secl.server.http.metrics import Metrics
from secl.server.http.middleware import Settings
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
from secl.server.online.service import Answer, Service

log = logging.getLogger("secl.server")

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorReply, "description": "The request cannot be served as it is."},
    503: {"model": ErrorReply, "description": "Not now: the server is stopping, or has no time."},
}


def answers_router(service: Service, settings: Settings, metrics: Metrics) -> APIRouter:
    """/v1/chat/completions, /v1/models and /v1/ask."""
    router = APIRouter(tags=["answers"], responses=ERRORS)
    name = settings.name or served_name(service.model.name)
    card = ModelCard(id=name, created=int(service.started))

    async def answered(question: Question, request: Request) -> Answer:
        said = await wait_for(service, question, request, settings.patience)
        metrics.said(said)
        return said

    @router.post("/v1/chat/completions", response_model=Completion)
    async def chat(asked: ChatRequest, request: Request) -> Completion | StreamingResponse:
        """Answer the last turn of a conversation. The reply is OpenAI's, with an object `secl` beside it."""
        if asked.model != name:
            message = f"there is no model {asked.model[:100]!r} here; there is {name!r}."
            raise RequestError(404, message, "model_not_found", "model")
        check_promises(asked)
        wishes = asked.secl or SeclOptions()
        text = question_text(turns_of(asked.messages))
        question = make_question(text, wishes.options, wishes.form, "sentence", settings.prompt)
        said = await answered(question, request)
        called = record_id(said.record.position) if said.stored else uuid.uuid4().hex
        whole = completion(said, f"chatcmpl-{called}", name, int(time.time()))
        if not asked.stream:
            return whole
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        return StreamingResponse(events(whole, with_usage=with_usage), media_type="text/event-stream")

    @router.get("/v1/models")
    async def models() -> ModelList:
        """The model that answers."""
        return ModelList(data=[card])

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> ModelCard:
        """The model that answers, by its name."""
        if model != name:
            raise RequestError(
                404, f"there is no model {model[:100]!r} here; there is {name!r}.", "model_not_found", "model"
            )
        return card

    @router.post("/v1/ask")
    async def ask(asked: AskRequest, request: Request) -> AskReply:
        """Answer one question."""
        text = with_context((asked.context or "").strip(), asked.question.strip())
        if not asked.question.strip():
            raise RequestError(400, "the question has no text; give it at least one word.", "bad_question", "question")
        question = make_question(text, asked.options, asked.form, "short", settings.prompt)
        return ask_reply(await answered(question, request))

    return router


def served_name(name: str) -> str:
    """What a model is called outside: of a folder or file its last part, which tells nothing of this machine.

    >>> served_name("/models/tiny"), served_name("org/model")
    ('tiny', 'org/model')
    """
    return PurePath(name).name if PurePath(name).is_absolute() else name


def check_promises(asked: ChatRequest) -> None:
    """Let a request pass whose reply will hold what it asks for.

    Raises:
        RequestError: it asks for something that is not to be had, so that silence about it would mislead.
    """
    refused = {
        "n": (asked.n not in (None, 1), "there is one answer to a question, so n must be 1."),
        "tools": (bool(asked.tools), "this model uses no tools."),
        "functions": (bool(asked.functions), "this model calls no functions."),
        "logprobs": (bool(asked.logprobs), "no log-probabilities are given; the object secl holds the confidence."),
        "modalities": (asked.modalities not in (None, [], ["text"]), "this model writes text only."),
        "response_format": (
            asked.response_format is not None and asked.response_format.get("type") != "text",
            "answers are plain text; for a fixed set of answers give options in the object secl.",
        ),
    }
    for field, (wrong, sentence) in refused.items():
        if wrong:
            raise RequestError(400, sentence, "unsupported_value", field)


async def wait_for(service: Service, question: Question, request: Request, patience: float) -> Answer:
    """Ask, and wait no longer than is left of patience, or than the client does.

    Raises:
        SeclError: no answer came of it.
    """
    waiting = asyncio.wrap_future(service.submit(question))
    gone = asyncio.ensure_future(_hang_up(request))
    both: set[asyncio.Future[Any]] = {waiting, gone}
    try:
        await asyncio.wait(both, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
    except QuestionError:
        raise
    except UnavailableError as problem:
        raise RequestError(503, str(problem), "no_endpoint", headers=RETRY_SOON) from None
    except Exception as problem:  # also a SeclError is not the client's fault here
        log.error("the model failed on a question: %s", describe_failure(problem))
        raise to_request_error(SeclError()) from None
    finally:
        waiting.cancel()
        gone.cancel()
    if gone.done():
        raise RequestError(499, "the client has gone.", "gone")
    raise RequestError(503, f"no answer within {patience:g} seconds; ask again later.", "timeout", headers=RETRY_SOON)


async def _hang_up(request: Request) -> None:
    """Come back when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def events(whole: Completion, *, with_usage: bool) -> AsyncIterator[str]:
    """A reply as server-sent events."""
    for chunk in chunks(whole, with_usage=with_usage):
        yield f"data: {json.dumps(chunk, allow_nan=False)}\n\n"
    yield "data: [DONE]\n\n"
