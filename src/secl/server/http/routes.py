"""Routes that answer: OpenAI's chat and the model behind it, plain questions, and answers from elsewhere to rate."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from secl.errors import RequestError
from secl.server.entries import Values
from secl.server.http.chat_request import ChatRequest
from secl.server.http.confidence import UNWANTED, AnswerReply, answer_reply, unrated
from secl.server.http.errors import ERROR_RESPONSES, AsciiJson
from secl.server.http.passing import passed
from secl.server.http.replies import (
    Completion,
    Heading,
    ModelCard,
    ModelList,
    chunks_at_once,
    chunks_of,
    sent,
    texts_reply,
)
from secl.server.http.requests import AskRequest, ScoreRequest, given_in, question_in, question_of
from secl.server.http.structured import structured_reply, structured_request, without_effect
from secl.server.http.waiting import TextEvents, unless_gone, wait_for
from secl.server.online.service import Service
from secl.server.settings import HttpSettings, public_name

STREAMED: dict[int | str, dict[str, object]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The reply, or the events of a stream."}
}


def answers_router(service: Service, settings: HttpSettings) -> APIRouter:
    """/v1/chat/completions, /v1/models, /v1/ask and /v1/score."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
    name = settings.served_model_name or public_name(service.model.name)
    card = ModelCard(id=name, created=int(service.started))
    _add_chat(router, service, settings, name)

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
    async def ask(body: AskRequest, request: Request) -> AnswerReply:
        """Answer one question."""
        answer = await wait_for(service.submit(question_of(body)), request, settings.timeout)
        return answer_reply(answer, full=body.detail == "full")

    @router.post("/v1/score")
    async def score(body: ScoreRequest, request: Request) -> AnswerReply:
        """Rate an answer from elsewhere; the model learns nothing from it."""
        answer = await wait_for(service.submit(given_in(body)), request, settings.timeout)
        return answer_reply(answer, full=body.detail == "full")

    return router


def _add_chat(router: APIRouter, service: Service, settings: HttpSettings, name: str) -> None:
    """/v1/chat/completions."""

    @router.post("/v1/chat/completions", response_model=Completion, responses=STREAMED)
    async def chat(body: ChatRequest, request: Request) -> Any:
        """Go on with a conversation: texts as they are written, an object, or calls; `secl` has the confidence.

        With "secl": {"confidence": false} nothing is rated and recorded. In front of another server, that server
        answers what this one cannot rate.
        """
        check_model(body.model, name)
        upstream, rate = service.upstream, body.wishes.confidence
        head = Heading(id=f"chatcmpl-{uuid.uuid4().hex}", model=name, full=body.wishes.detail == "full")
        try:
            head.warnings.extend(body.check(settings, takes_all=upstream is not None and upstream.takes_all))
            wanted = structured_request(body, settings, service)
            if wanted is None:
                question = question_in(body.messages, body.wishes.domain, tools=upstream is None)
        except RequestError as refusal:
            if upstream is None:
                raise
            values, head.warnings[:] = body.passed(await request.json(), settings)
            chunks = passed(upstream, values, head, unrated(refusal.message) if rate else UNWANTED)
            chunk = await unless_gone(request, anext(chunks, {}))  # a failure before it is an HTTP error
            if body.stream:
                return streamed(behind(chunk, chunks))
            await chunks.aclose()
            return AsciiJson(chunk)
        if wanted is not None:
            head.warnings.extend(without_effect(body))
            reply = await structured_reply(service, wanted, head, request, settings.timeout, rate)
            return streamed(chunks_at_once(head, reply, with_usage=body.with_usage)) if body.stream else reply
        texts = TextEvents(service, question, body.writing(settings), settings.timeout, rate=rate)
        try:
            if body.stream:
                first = await unless_gone(request, texts.next())  # a failure before the first piece is an HTTP error
                return streamed(chunks_of(head, texts, first, with_usage=body.with_usage), texts.cancel)
            return texts_reply(head, *await unless_gone(request, texts.whole()))
        except BaseException:
            texts.cancel()
            raise


def streamed(chunks: AsyncIterator[Values], cancel: Callable[[], None] = lambda: None) -> StreamingResponse:
    return StreamingResponse(sent(chunks, cancel), media_type="text/event-stream")


async def behind(first: Values, others: AsyncIterator[Values]) -> AsyncIterator[Values]:
    """A chunk, and then the others."""
    yield first
    async for chunk in others:
        yield chunk


def check_model(requested: str, name: str) -> None:
    """Raises RequestError: 404; a request names another model than the one that is here."""
    if requested != name:
        message = f"there is no model {requested[:100]!r} here; there is {name!r}."
        raise RequestError(404, message, "model_not_found", "model")
