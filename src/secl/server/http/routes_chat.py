"""OpenAI's routes: chat completions, and the model behind them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from secl.errors import RequestError
from secl.question import Question
from secl.server.http.confidence import NoConfidence, Secl
from secl.server.http.conversation import asked_in, make_question
from secl.server.http.openai_replies import Completion, Shown
from secl.server.http.openai_requests import ChatRequest
from secl.server.http.schemas import ErrorReply, ModelCard, ModelList
from secl.server.http.settings import HttpSettings
from secl.server.http.shapes import Shape
from secl.server.http.streaming import Chunks, stream_at_once, stream_live
from secl.server.http.waiting import Texts, unless_gone, wait_for_answer
from secl.server.online.requests import Answer
from secl.server.online.service import Service
from secl.writing import Writing

ACCEPTED = "X-Secl-Accepted"
"""Header of a reply: true or false."""

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorReply, "description": "The request cannot be served as it is."},
    500: {"model": ErrorReply, "description": "The model or the server failed on this request."},
    503: {"model": ErrorReply, "description": "Not now: the server is stopping, or has no time."},
}
"""For the API's description."""

STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The reply, or the events of a stream."}
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a request comes to.

    Attributes:
        question: to be answered.
        writing: how texts are written; None for an answer in a short form.
        shape: of the reply.
        refusal: what stands in place of an answer that is not accepted; None for the answer itself.
        rate: whether the confidence is wanted.
        streamed: whether the reply is a stream.
        with_usage: whether that ends with usage.
    """

    question: Question
    writing: Writing | None
    shape: Shape
    refusal: str | None
    rate: bool
    streamed: bool
    with_usage: bool


class Answerer:
    """Answers requests in OpenAI's shape."""

    def __init__(self, service: Service, settings: HttpSettings) -> None:
        self.service, self.settings = service, settings

    async def reply(self, wanted: Wanted, request: Request, response: Response) -> Any:
        """The reply, whole or as a stream.

        A stream shows texts as they are written. Where a text may have to be refused, nothing of it can be shown before
        its confidence is known, so it comes in one piece, as answers in a short form do.
        """
        if wanted.streamed and wanted.writing is not None and wanted.refusal is None:
            return await self._live(wanted, wanted.writing, request)
        shown = [Shown.of(answer, wanted.refusal) for answer in await self._answers(wanted, request)]
        headers = accepted_header(shown[0].secl)
        identifier = shown[0].secl.record_id or uuid.uuid4().hex
        if not wanted.streamed:
            response.headers.update(headers)
            return wanted.shape.reply(identifier, shown)
        events = stream_at_once(Chunks(identifier, wanted.shape, with_usage=wanted.with_usage), shown)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _answers(self, wanted: Wanted, request: Request) -> Sequence[Answer]:
        if wanted.writing is None:
            answers: Sequence[Answer] = [
                await wait_for_answer(self.service, wanted.question, request, self.settings.timeout)
            ]
        else:
            texts = Texts(self.service, wanted.question, wanted.writing, self.settings.timeout, rate=wanted.rate)
            answers = await whole(texts, request)
        return answers

    async def _live(self, wanted: Wanted, writing: Writing, request: Request) -> StreamingResponse:
        texts = Texts(self.service, wanted.question, writing, self.settings.timeout, rate=wanted.rate)
        try:
            await unless_gone(request, texts.begin())  # what cannot be written is an error and no stream
        except BaseException:
            texts.cancel()
            raise
        chunks = Chunks(uuid.uuid4().hex, wanted.shape, with_usage=wanted.with_usage)
        return StreamingResponse(stream_live(chunks, texts), media_type="text/event-stream")


def chat_router(service: Service, settings: HttpSettings) -> APIRouter:
    """/v1/chat/completions and /v1/models."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
    name = settings.served_model_name or public_name(service.model.name)
    card = ModelCard(id=name, created=int(service.started))
    answerer = Answerer(service, settings)

    @router.post("/v1/chat/completions", response_model=Completion, responses=STREAMED)
    async def chat(body: ChatRequest, request: Request, response: Response) -> Any:
        """Go on with a conversation, in as many texts as are asked for; each has an object `secl` beside it."""
        check_model(body.model, name)
        warnings = body.check() + [
            f"messages.{number}.{field} was accepted and has no effect."
            for number, message in enumerate(body.messages)
            for field, value in (message.model_extra or {}).items()
            if value
        ]
        wishes = body.wishes
        if settings.refusal is not None and not wishes.confidence:
            raise RequestError(
                400,
                "secl.confidence is false, but this server refuses answers by their confidence; leave it out.",
                "unsupported_value",
                "secl.confidence",
            )
        wanted = Wanted(
            question=make_question(asked_in(body.messages), wishes.options, body.form, wishes.domain),
            writing=body.writing(settings) if body.form == "text" else None,
            shape=Shape(name, warnings, logprobs=bool(body.logprobs)),
            refusal=refusal_of(service, settings, wishes.refuse, "secl.refuse"),
            rate=wishes.confidence,
            streamed=bool(body.stream),
            with_usage=bool(body.stream_options and body.stream_options.include_usage),
        )
        return await answerer.reply(wanted, request, response)

    @router.get("/v1/models")
    async def models() -> ModelList:
        """The model that answers."""
        return ModelList(data=[card])

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> ModelCard:
        """The model that answers, by its name."""
        check_model(model, name)
        return card

    return router


async def whole(texts: Texts, request: Request) -> tuple[Answer, ...]:
    """The answers, once all texts are written; nothing more is written once the client has gone.

    Raises:
        RequestError: as of `wait_for_answer`.
        QuestionError: the model cannot answer this question.
    """
    try:
        return await unless_gone(request, texts.answers())
    finally:
        texts.cancel()


def refusal_of(service: Service, settings: HttpSettings, asked: str | None, field: str) -> str | None:
    """What stands in place of an answer that is not accepted: what the request asks for, else the server's text.

    Raises:
        RequestError: 400; this server accepts every answer.
    """
    if asked is not None and service.calibrator.loop.accept is None:
        message = "this server accepts every answer, so there is nothing to refuse; start it with --accept."
        raise RequestError(400, message, "no_threshold", field)
    return asked if asked is not None else settings.refusal


def accepted_header(secl: Secl | NoConfidence) -> dict[str, str]:
    """The header that tells proxies whether an answer is accepted; none on a server without a threshold."""
    return {} if isinstance(secl, NoConfidence) or secl.accepted is None else {ACCEPTED: str(secl.accepted).lower()}


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
