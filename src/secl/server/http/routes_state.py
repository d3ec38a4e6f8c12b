"""Routes for records, for labels, and for the state of the server; routes that roll back, pause and resume learning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from typing_extensions import TypedDict

from secl.errors import ParameterError, RequestError, RunError
from secl.labels.label import MIN_CHANCE
from secl.runs.store import Store
from secl.server.entries import StoredText
from secl.server.explain import Explained, explain_served
from secl.server.http.errors import ERROR_RESPONSES, RETRY_SOON, json_response
from secl.server.http.health import ServerState, view
from secl.server.http.middleware import require
from secl.server.http.pages import OpenStore
from secl.server.online.service import Service
from secl.server.records import RecordList, Search, search
from secl.server.store import at_one_moment


class Feedback(BaseModel):
    """Whether an answer is right; null withdraws an earlier label. Labels move later confidences, never weights.

    `fact`: number of the judged fact in a text. Without a number, the label is about all facts of the text; then
    `correct` may be false only for a text with one fact.
    `chance`: probability with which you chose this answer for rating: 1 if you rate every answer, 0.05 for a random
    sample of one in twenty. Leave `chance` out for users' thumbs-up or thumbs-down, which move confidences only a
    little. `drawn`: true if the page /review showed you this answer, drawn at random. Then leave out `chance`.
    `skipped`: true if you saw the answer and cannot judge it; `correct` is then null.
    """

    model_config = ConfigDict(extra="forbid")
    record_id: StoredText
    correct: StrictBool | None
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
        position = position_of(body.record_id, request)
        with writing:
            drawn, fact = state.sample(position, position), body.fact or 0
            if body.drawn or body.chance is not None or ((position, fact) in drawn if fact else drawn):
                require("review")(request)
            state.add_feedback(position, body.correct, body.chance, drawn=body.drawn, skipped=body.skipped, fact=fact)
        on_label()
        with reading() as reader:  # a separate connection, which delays no answer
            count = reader.label_count()
        return {"record_id": body.record_id, "correct": body.correct, "labels": count}

    return router


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
