"""Routes that answer: OpenAI's chat and the model behind it, plain questions, and answers from elsewhere to rate."""

from __future__ import annotations

import uuid
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from secl.errors import RequestError
from secl.server.http.chat_request import ChatRequest
from secl.server.http.confidence import AnswerReply, answer_reply
from secl.server.http.errors import ERROR_RESPONSES
from secl.server.http.replies import Completion, Heading, ModelCard, ModelList, chunks_of, completion_of
from secl.server.http.requests import AskRequest, ScoreRequest, given_in, question_in, question_of
from secl.server.http.waiting import TextEvents, unless_gone, wait_for_answer
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
        answer = await wait_for_answer(service, question_of(body), request, settings.timeout)
        return answer_reply(answer, full=body.detail == "full")

    @router.post("/v1/score")
    async def score(body: ScoreRequest, request: Request) -> AnswerReply:
        """Rate an answer that somebody else gave; nothing is learned from it."""
        answer = await wait_for_answer(service, given_in(body), request, settings.timeout)
        return answer_reply(answer, full=body.detail == "full")

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
        full, warnings = body.wishes.detail == "full", body.check(settings)
        heading = Heading(id=f"chatcmpl-{uuid.uuid4().hex}", model=name, warnings=warnings, full=full)
        question = question_in(body.messages, body.wishes.domain)
        texts = TextEvents(service, question, body.writing(settings), settings.timeout, rate=body.wishes.confidence)
        try:
            if body.stream:
                first = await unless_gone(request, texts.next())  # a failure before the first piece is an HTTP error
                usage = bool(body.stream_options and body.stream_options.include_usage)
                events = chunks_of(heading, texts, first, with_usage=usage)
                return StreamingResponse(events, media_type="text/event-stream")
            written, answers = await unless_gone(request, texts.whole())
            return completion_of(heading, written, answers)
        except BaseException:
            texts.cancel()
            raise


def check_model(requested: str, name: str) -> None:
    """Raises RequestError: 404; a request names another model than the one that is here."""
    if requested != name:
        message = f"there is no model {requested[:100]!r} here; there is {name!r}."
        raise RequestError(404, message, "model_not_found", "model")
