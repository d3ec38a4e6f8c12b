"""Routes for answers (OpenAI's chat completions, plain questions, ratings), records, labels, and the server's state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from typing_extensions import TypedDict

from secl.client import AnswerReply
from secl.errors import DataError, ParameterError, RequestError, RunError
from secl.labels.label import MIN_CHANCE
from secl.prompts.parsing import MAX_WORDS, is_brief
from secl.question import Form, GivenAnswer, Question
from secl.runs.labelling import verdict_by
from secl.runs.store import Store
from secl.server.entries import JsonObject, StoredText
from secl.server.explain import Explained, explain_served
from secl.server.http.chat_request import ChatMessage, ChatRequest, Detail, Domain, check_length, question_in, turns_of
from secl.server.http.errors import ERROR_RESPONSES, RETRY_SOON, json_response
from secl.server.http.health import ServerState, view
from secl.server.http.middleware import require
from secl.server.http.pages import OpenStore
from secl.server.http.replies import UNWANTED, Completion, ModelCard, ModelList, answer_reply, marked, unrated
from secl.server.http.streams import ChatReply, TextEvents, sent, unless_gone, wait_for
from secl.server.http.structured import structured_reply, structured_request, without_effect
from secl.server.online.service import Service
from secl.server.online.texts import Ended
from secl.server.records import RecordList, Search, search
from secl.server.settings import public_name
from secl.server.store import at_one_moment
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


class Feedback(BaseModel):
    """Whether an answer is right; null withdraws an earlier label. Labels move later confidences, never weights.

    `fact`: number of the judged fact in a text. Without a number, the label is about all facts of the text; then
    `correct` may be false only for a text with one fact.
    `chance`: probability with which you chose this answer for rating: 1 if you rate every answer, 0.05 for a random
    sample of one in twenty. Leave `chance` out for users' thumbs-up or thumbs-down, which move confidences only a
    little. `drawn`: true if the page /review showed you this answer, drawn at random. Then leave out `chance`.
    `skipped`: true if you saw the answer and cannot judge it; `correct` is then null.
    `correct_answer`: the right answer, such as "Lima" or the letter of an option, in place of `correct`; the answer is
    right if the question's grader accepts it.
    """

    model_config = ConfigDict(extra="forbid")
    record_id: StoredText
    correct: StrictBool | None = None
    correct_answer: StoredText | None = None
    fact: Annotated[StrictInt, Field(ge=1, le=2**31)] | None = None
    chance: Annotated[float, Field(ge=MIN_CHANCE, le=1, allow_inf_nan=False)] | None = None
    drawn: StrictBool = False
    skipped: StrictBool = False


class RollbackRequest(BaseModel):
    """The kept adapter version to go back to; 0 is the frozen model."""

    model_config = ConfigDict(extra="forbid")
    version: Annotated[StrictInt, Field(ge=0, le=2**53)]  # every JSON parser reads whole numbers up to 2^53 exactly


class PauseRequest(BaseModel):
    """The reason for a pause of learning."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[StoredText, Field(min_length=1, max_length=500)] = "by hand"


class LabelReply(TypedDict):
    """A stored label. labels: number of labelled answers and facts now."""

    record_id: str
    correct: bool | None
    labels: int


class Control(TypedDict):
    """State of learning after a command. dropped: number of pending lessons that the command dropped."""

    version: int
    paused: str | None
    dropped: int


def records_router(service: Service) -> APIRouter:
    """Return the routes /v1/records, /v1/records/{record_id} and /v1/feedback."""
    state = service.state
    reading = partial(at_one_moment, state.folder)
    router = feedback_router(state, reading, partial(known_position, service), service.refresh_labels)

    @router.get("/v1/records", response_model=RecordList, dependencies=[Depends(require("read"))])
    def records(wanted: Annotated[Search, Query()]) -> Response:
        """Return records that match, the newest first. Pass the `before` of a page to get the next page."""
        with at_one_moment(state.folder) as reader:
            return json_response(search(reader, wanted).model_dump())

    @router.get("/v1/records/{record_id}", response_model=Explained)
    def record(record_id: str, request: Request) -> Response:
        """Explain the confidence of an answer in sentences, with the whole record.

        For a random id, any key suffices. For a record's number, the key needs the role read.
        """
        position = known_position(service, record_id, request)
        with at_one_moment(state.folder) as reader:
            return json_response(explain_served(reader, reader.served(position)))

    return router


def feedback_router(
    state: Store,
    reading: OpenStore,
    position_of: Callable[[str, Request], int],
    on_label: Callable[[], None] = lambda: None,
) -> APIRouter:
    """Return the route /v1/feedback of a server or a run.

    `reading` opens the store for reading. `position_of` finds a record by id. The route calls `on_label` after a label.
    """
    router, writing = APIRouter(tags=["records"], responses=ERROR_RESPONSES), Lock()

    @router.post("/v1/feedback")
    def feedback(body: Feedback, request: Request) -> LabelReply:
        """Label an answer as right or wrong. Labels move later confidences. The latest label of an answer counts.

        Labels with `drawn` or `chance`, and later changes of these labels, need a key with the role review.
        """
        if body.drawn and body.chance is not None:
            message = "drawn and chance are both given; leave one of them out."
            raise RequestError(400, message, "invalid_value", "chance")
        if body.skipped and body.correct is not None:
            message = "the answer is skipped and also judged; leave one of them out."
            raise RequestError(400, message, "invalid_value", "skipped")
        if ("correct" in body.model_fields_set) == (body.correct_answer is not None):
            message = "give either correct (true, false or null) or correct_answer, the right answer."
            raise RequestError(400, message, "invalid_value", "correct")
        position = position_of(body.record_id, request)
        with writing:
            drawn, fact = state.sample(position, position), body.fact or 0
            correct = body.correct if body.correct_answer is None else verdict_on(state, position, body)
            if body.drawn or body.chance is not None or ((position, fact) in drawn if fact else drawn):
                require("review")(request)
            state.add_feedback(position, correct, body.chance, drawn=body.drawn, skipped=body.skipped, fact=fact)
        on_label()
        with reading() as reader:  # a separate connection, which delays no answer
            count = reader.label_count()
        return {"record_id": body.record_id, "correct": correct, "labels": count}

    return router


def verdict_on(state: Store, position: int, body: Feedback) -> bool | None:
    """Return whether an answer is right by a given right answer. Raises RequestError (400): no grader can tell."""
    record = state.record(position)
    if body.fact or body.skipped or record.question.form not in ("choice", "short"):
        message = "correct_answer needs a record with options or a short answer; give correct (true or false) instead."
        raise RequestError(400, message, "invalid_value", "correct_answer")
    try:
        return verdict_by(record, body.correct_answer).correct
    except DataError as problem:
        raise RequestError(400, f"correct_answer {problem}", "invalid_value", "correct_answer") from None


def control_router(service: Service) -> APIRouter:
    """Return the routes /v1/state, /v1/rollback, /v1/pause and /v1/resume."""
    router, learner = APIRouter(tags=["control"], responses=ERROR_RESPONSES), service.learner
    only_admin = [Depends(require("admin"))]

    def control(dropped: int = 0) -> Control:
        return {"version": learner.version, "paused": learner.paused, "dropped": dropped}

    @router.get("/v1/state", response_model=ServerState, dependencies=[Depends(require("read"))])
    def now() -> Response:
        """Return the state of the server, which the overview page also shows."""
        return json_response(view(service).model_dump())

    @router.post("/v1/rollback", dependencies=only_admin)
    def rollback(body: RollbackRequest) -> Control:
        """Go back to a kept adapter version, and drop pending lessons."""
        try:
            return control(learner.rollback(body.version))
        except RunError:
            numbers = ", ".join(map(str, [0, *learner.state.versions()]))
            message = f"the server has no adapter version {body.version}; choose one of {numbers}."
            raise RequestError(404, message, "version_not_found", "version") from None

    @router.post("/v1/pause", dependencies=only_admin)
    def pause(body: PauseRequest) -> Control:
        """Pause learning. The server continues to answer."""
        return control(learner.pause(body.reason))

    @router.post("/v1/resume", dependencies=only_admin)
    def resume() -> Control:
        """Resume learning."""
        learner.resume()
        return control()

    return router


def known_position(service: Service, name: str, request: Request) -> int:
    """Return the position of a record by id or number.

    Raises RequestError: 404, the record does not exist, or not yet; 403, the caller's role is too low.
    """
    if name in service.texts.unrated:
        message = f"the server has not computed the confidence of {name} yet; ask again in a moment."
        raise RequestError(404, message, "record_not_ready", "record_id", headers=RETRY_SOON)
    if name in service.unstored:
        message = f"the server could not compute or store the confidence of {name}; send the question again."
        raise RequestError(404, message, "record_not_stored", "record_id")
    if not name.startswith("rec_"):
        require("read")(request)
    try:
        return service.state.find(name).record.position
    except ParameterError as problem:
        raise RequestError(404, str(problem), "record_not_found", "record_id") from None
