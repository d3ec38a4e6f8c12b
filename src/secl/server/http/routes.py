"""Routes that answer: OpenAI's chat and the model behind it, plain questions, and answers from elsewhere to rate."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from secl.errors import RequestError
from secl.server.http.chat_request import ChatRequest
from secl.server.http.confidence import AskReply, ScoreReply, ask_reply, score_reply, secl_of
from secl.server.http.errors import ERROR_RESPONSES
from secl.server.http.replies import Completion, ModelCard, ModelList, Shape, choices_of, usage_of
from secl.server.http.requests import AskRequest, ScoreRequest, given_in, question_in, question_of
from secl.server.http.waiting import Texts, unless_gone, wait_for_answer
from secl.server.online.queue import Answer
from secl.server.online.service import Service
from secl.server.settings import HttpSettings, public_name

STREAMED: dict[int | str, dict[str, object]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The reply, or the events of a stream."}
}


def answers_router(service: Service, settings: HttpSettings) -> APIRouter:
    """/v1/chat/completions, /v1/models, /v1/ask and /v1/score."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
    name = settings.served_model_name or public_name(service.model.name)
    _add_chat(router, service, settings, name)
    _add_models(router, ModelCard(id=name, created=int(service.started)))

    @router.post("/v1/ask")
    async def ask(body: AskRequest, request: Request) -> AskReply:
        """Answer one question."""
        answer = await wait_for_answer(service, question_of(body), request, settings.timeout)
        return ask_reply(answer)

    @router.post("/v1/score")
    async def score(body: ScoreRequest, request: Request) -> ScoreReply:
        """Rate an answer that somebody else gave; nothing is learned from it."""
        return score_reply(await wait_for_answer(service, given_in(body), request, settings.timeout))

    return router


def _add_chat(router: APIRouter, service: Service, settings: HttpSettings, name: str) -> None:
    """/v1/chat/completions."""

    @router.post("/v1/chat/completions", response_model=Completion, responses=STREAMED)
    async def chat(body: ChatRequest, request: Request) -> Any:
        """Go on with a conversation, in as many texts as are asked for; each has an object `secl` beside it.

        With "secl": {"confidence": false} they are written, and neither rated nor recorded.

        A stream shows texts as they are written.
        """
        check_model(body.model, name)
        warnings, question = body.check(settings), question_in(body.messages, body.wishes.domain)
        usage = bool(body.stream_options and body.stream_options.include_usage)
        shape = Shape(model=name, warnings=warnings, with_usage=usage)
        texts = Texts(service, question, body.writing(settings), settings.timeout, rate=body.wishes.confidence)
        if body.stream:
            return await _live(shape, texts, request)
        answers = await _whole(texts, request)
        choices = choices_of(texts.written, [secl_of(answer) for answer in answers])
        return shape.reply(choices[0].secl.record_id or uuid.uuid4().hex, choices, usage_of(texts.written))


def _add_models(router: APIRouter, card: ModelCard) -> None:
    """/v1/models."""

    @router.get("/v1/models")
    async def models() -> ModelList:
        """The model that answers."""
        return ModelList(data=[card])

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> ModelCard:
        """The model that answers, by its name."""
        check_model(model, card.id)
        return card


async def _whole(texts: Texts, request: Request) -> Sequence[Answer]:
    """The answers to a question, once all texts are written; nothing more is written once the client has gone.

    Raises:
        RequestError: as of `wait_for_answer`.
        QuestionError: the model cannot answer this question.
    """
    try:
        return await unless_gone(request, texts.answers())
    finally:
        texts.cancel()


async def _live(shape: Shape, texts: Texts, request: Request) -> StreamingResponse:
    """The texts as they are written."""
    try:
        await unless_gone(request, texts.begin())  # what cannot be written is an error and no stream
    except BaseException:
        texts.cancel()
        raise
    return StreamingResponse(shape.live(uuid.uuid4().hex, texts), media_type="text/event-stream")


def check_model(requested: str, name: str) -> None:
    """Check that a request names the model that is here.

    Raises:
        RequestError: 404; it names another one.
    """
    if requested != name:
        message = f"there is no model {requested[:100]!r} here; there is {name!r}."
        raise RequestError(404, message, "model_not_found", "model")
