"""Routes for answers: OpenAI's chat completions and models, plain questions, and ratings of answers from elsewhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from secl.client import AnswerReply
from secl.errors import RequestError
from secl.prompts.parsing import MAX_WORDS, is_brief
from secl.question import Form, GivenAnswer, Question
from secl.server.entries import JsonObject, StoredText
from secl.server.http.chat_request import ChatMessage, ChatRequest, Detail, Domain, check_length, question_in, turns_of
from secl.server.http.errors import ERROR_RESPONSES, json_response
from secl.server.http.replies import UNWANTED, Completion, ModelCard, ModelList, answer_reply, marked, unrated
from secl.server.http.streams import ChatReply, TextEvents, sent, unless_gone, wait_for
from secl.server.http.structured import structured_reply, structured_request, without_effect
from secl.server.online.service import Service
from secl.server.online.texts import Ended
from secl.server.settings import public_name
from secl.writing import SamplingParameters


class AskRequest(BaseModel):
    """A question. With `options`, the model chooses an option; without options or `form`, it answers in a few words.
    With the form "text", it answers in a text, whose facts get confidences.

    `context`: passage before the question. `history`: turns between system text and question. `detail`: "full" asks
    for the whole record.
    """

    model_config = ConfigDict(extra="forbid")
    question: Annotated[str, Field(json_schema_extra={"minLength": 1})]  # `question_of` also refuses blank texts
    options: Annotated[list[str], Field(max_length=1000)] = []
    form: Form | None = None
    context: str | None = None
    system: str | None = None
    history: Annotated[list[ChatMessage], Field(max_length=1000)] = []
    domain: Domain = "default"
    detail: Detail = "brief"


class ScoreRequest(AskRequest):
    """A question with an answer to rate. With `options`, the answer is an option's letter or text.

    `rivals`: other answers, with which secl compares the given answer. Without `rivals`, the model proposes other
    answers. `form`: form of the answer. The default without options is "short" for an answer of up to twelve words,
    "sentence" for one line of up to 200 characters, and "text" for a longer answer.
    """

    answer: StoredText
    rivals: Annotated[list[StoredText], Field(max_length=20)] = []


OTHER_ROUTES = ("/v1/responses", "/v1/completions", "/v1/embeddings")
"""Routes of OpenAI's API that clients try, and that this server does not have."""

STREAMED: dict[int | str, dict[str, object]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The reply, or the events of a stream."}
}


def answers_router(service: Service) -> APIRouter:
    """Return the routes /v1/chat/completions, /v1/models, /v1/ask and /v1/score."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
    limits = service.limits
    name = limits.served_model_name or public_name(service.model.name)
    created = int(service.started)
    cards = {
        each: ModelCard(id=each, object="model", created=created, owned_by="secl") for each in (name, *limits.alias)
    }
    _add_chat(router, service, name, cards)
    for path in OTHER_ROUTES:
        router.add_api_route(path, partial(_refuse, path), methods=["POST"], include_in_schema=False)

    @router.get("/v1/models")
    async def models() -> ModelList:
        """List the model that answers, by each of its names."""
        return {"object": "list", "data": list(cards.values())}

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> ModelCard:
        """Return the model that answers, by its name."""
        check_model(model, cards)
        return cards[model]

    @router.post("/v1/ask", response_model=AnswerReply)
    async def ask(body: AskRequest, request: Request) -> Response:
        """Answer one question."""
        question = question_of(body)
        if question.free:  # other answers need not wait until a long text is written
            sampling = SamplingParameters(max_tokens=limits.max_tokens, or_fewer=True)
            (answer,) = (await written(service, question, sampling, request)).answers or ()
        else:
            answer = await wait_for(service.submit(question), request, limits.timeout)
        return json_response(marked(answer_reply(answer, full=body.detail == "full")))

    @router.post("/v1/score", response_model=AnswerReply)
    async def score(body: ScoreRequest, request: Request) -> Response:
        """Rate an answer from elsewhere; the model does not learn from it."""
        words, brief = len(body.answer.split()), is_brief(body.answer, "text")
        question = question_of(body, "short" if words <= MAX_WORDS else "sentence" if brief else "text")
        given = GivenAnswer(check_length(question, body.answer, *body.rivals), body.answer, tuple(body.rivals))
        answer = await wait_for(service.submit(given), request, limits.timeout)
        return json_response(marked(answer_reply(answer, full=body.detail == "full")))

    return router


async def _refuse(path: str) -> Response:
    raise RequestError(
        404, f"this server has no {path}; send the conversation as messages to /v1/chat/completions.", "not_found"
    )


def _add_chat(router: APIRouter, service: Service, name: str, names: Collection[str]) -> None:
    """Add the route /v1/chat/completions."""
    limits = service.limits

    @router.post("/v1/chat/completions", response_model=Completion, responses=STREAMED)
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Continue a conversation with texts, an object, or calls; `secl` has the confidence.

        With "secl": {"confidence": false}, the server neither rates nor records the answer. With `--engine
        openai`, the upstream server answers the chats that secl cannot rate.
        """
        check_model(body.model, names)
        upstream, rate = service.upstream, body.secl.confidence
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        reply = ChatReply(name, full=body.secl.detail == "full", with_usage=with_usage)
        try:
            reply.warnings += body.check(limits, takes_all=upstream is not None and upstream.takes_all)
            wanted = structured_request(body, service) if body.tools or body.response_format else None
            if wanted is None:
                question = question_in(body.messages, body.secl.domain, tools=upstream is None)
        except RequestError as refusal:
            if upstream is None:
                raise
            values, reply.warnings = body.passed(await request.json(), limits)
            passed = reply.passed(upstream, values, unrated(refusal.message) if rate else UNWANTED)
            return await (streamed if body.stream else only_chunk)(passed, request)
        if wanted is not None:
            reply.warnings += wanted.warnings + without_effect(body)
            whole = await structured_reply(service, wanted, reply, request, limits.timeout, rate)
            return await streamed(reply.chunks_at_once(whole), request) if body.stream else json_response(whole)
        sampling = body.sampling(limits, takes_all=upstream is not None and upstream.takes_all)
        if not body.stream:
            return json_response(reply.texts(await written(service, question, sampling, request, rate=rate)))
        with writing(service, question, sampling, rate=rate) as texts:
            chunks = reply.chunks_of(texts, limits.timeout if body.secl.wait else None)
            return await streamed(chunks, request, lambda: service.texts.cancel(texts))


@contextmanager
def writing(
    service: Service, question: Question, sampling: SamplingParameters, *, rate: bool = True
) -> Iterator[TextEvents]:
    """Begin to write texts. If the block fails, the model stops writing."""
    texts = TextEvents(question, sampling, service.limits.timeout, rate=rate)
    service.write(texts)
    try:
        yield texts
    except BaseException:
        service.texts.cancel(texts)
        raise


async def written(
    service: Service, question: Question, sampling: SamplingParameters, request: Request, *, rate: bool = True
) -> Ended:
    """Wait for texts with their confidences. Raises the errors of `TextEvents.next`."""
    with writing(service, question, sampling, rate=rate) as texts:
        return await unless_gone(request, texts.whole())


async def streamed(
    chunks: AsyncGenerator[JsonObject], request: Request, cancel: Callable[[], None] = lambda: None
) -> Response:
    """Return chunks as server-sent events; a failure before the first chunk is an HTTP error."""
    first = await unless_gone(request, anext(chunks))
    return StreamingResponse(sent(first, chunks, cancel), media_type="text/event-stream")


async def only_chunk(chunks: AsyncGenerator[JsonObject], request: Request) -> Response:
    """Return the only chunk as JSON. A request without `stream` gets its whole reply as one chunk."""
    first = await unless_gone(request, anext(chunks))
    await chunks.aclose()
    return json_response(first)


def check_model(requested: str, names: Collection[str]) -> None:
    """Raise a `RequestError` (404) if a request names another model."""
    if requested not in names:
        known = " or ".join(map(repr, names))
        message = (
            f"this server has no model {requested[:100]!r}; its model is {known} (secl serve --alias adds a name)."
        )
        raise RequestError(404, message, "model_not_found", "model")


def question_of(body: AskRequest, form: Form = "short") -> Question:
    """Return the question of a plain request; `form` is the form of an open question if the request names no form.

    Raises RequestError, QuestionError: a field of the request is empty, unusable or too long.
    """
    if not body.question.strip():
        raise RequestError(400, "the question has no text; give it at least one word.", "bad_question", "question")
    question = Question(
        body.question.strip(),
        tuple(body.options),
        domain=body.domain,
        form=body.form or ("choice" if body.options else form),
        context=(body.context or "").strip(),
        system=(body.system or "").strip(),
        history=tuple(turns_of(body.history, "history")),
    )
    return check_length(question)
