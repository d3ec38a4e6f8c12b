"""Routes of records: search, one of them and why it got its number, which to rate next, and what people say of them."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from secl.errors import ParameterError, RequestError
from secl.server.audit.console import explanation_page
from secl.server.audit.entries import Served, record_id
from secl.server.audit.explain import explain
from secl.server.audit.review import Order, review_queue
from secl.server.audit.search import at_one_moment, search
from secl.server.audit.store import ServerStore
from secl.server.http.dashboard.listing import listed
from secl.server.http.errors import RETRY_SOON, AsciiJson
from secl.server.http.metrics import Metrics
from secl.server.http.record_search import Search, position_named
from secl.server.http.routes_chat import ERROR_RESPONSES
from secl.server.http.schemas import Feedback, Text, served_json
from secl.server.online.service import Service

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 100
"""Characters of a line of an explanation."""

NEXT = 20
"""Answers that the queue for a review names at a time."""


def records_router(service: Service, metrics: Metrics) -> APIRouter:
    """All routes of this module."""
    router = APIRouter(tags=["records"], responses=ERROR_RESPONSES)
    _add_lists(router, service)
    _add_one(router, service)
    _add_feedback(router, service, metrics)
    return router


def _add_lists(router: APIRouter, service: Service) -> None:
    """/v1/records and /v1/review."""
    folder = service.state.folder

    @router.get("/v1/records")
    def records(wanted: Annotated[Search, Query()]) -> AsciiJson:
        """Records that fit, the newest first. `before` leads to the next page; null where there is nothing older.

        A page looks at 20,000 records at most, so it can be short, or empty, and still have a next one.
        """
        before = position_named(wanted.before)
        with at_one_moment(folder) as reader:
            found = search(reader, wanted.filter, wanted.count, before)
            rows = listed(reader, found.positions)
        further = None if found.before is None else record_id(found.before)
        return AsciiJson({"records": rows, "before": further})

    @router.get("/v1/review")
    def review(order: Order = "random", after: Annotated[Text, Query(max_length=30)] = "") -> AsciiJson:
        """Which of the latest answers to rate next, and whether they are `drawn` by lot, to send with what is said."""
        with at_one_moment(folder) as reader:
            queue = review_queue(reader, order, after=position_named(after), accept=service.calibrator.loop.accept)
            rows = listed(reader, queue.positions[:NEXT])
        counts = {"unrated": len(queue.positions), "rated": queue.rated, "answers": queue.answers}
        return AsciiJson({"records": rows, "drawn": queue.drawn, **counts})


def _add_one(router: APIRouter, service: Service) -> None:
    """/v1/records/{id} and its explanation."""
    state = service.state

    @router.get("/v1/records/{record_id}")
    def record(record_id: str) -> AsciiJson:
        """Why an answer got its number: reply, bins, gate, evidence, update, and what people said of it."""
        return AsciiJson(served_json(served(service, state, record_id)))

    as_text = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @router.get("/v1/records/{record_id}/explanation", responses={200: as_text})
    def explanation(record_id: str) -> PlainTextResponse:
        """The same for people, as `secl show` prints it."""
        with at_one_moment(state.folder) as reader:
            position = served(service, reader, record_id).record.position
            return PlainTextResponse(plain_text(explanation_page(explain(reader, position))))


def _add_feedback(router: APIRouter, service: Service, metrics: Metrics) -> None:
    """/v1/feedback."""
    state = service.state

    @router.post("/v1/feedback")
    def feedback(body: Feedback) -> AsciiJson:
        """Say whether an answer is right: confidences of later answers follow. The last word on an answer counts."""
        if body.drawn and body.chance is not None:
            message = "drawn and chance are both given; leave chance out for an answer of /v1/review."
            raise RequestError(400, message, "invalid_value", "chance")
        state.add_feedback(
            served(service, state, body.record_id).record.position, body.correct, body.chance, drawn=body.drawn
        )
        metrics.count_feedback(body.correct)
        service.hear_labels()
        return AsciiJson({"record_id": body.record_id, "correct": body.correct, "labels": state.label_count})


def plain_text(parts: Iterable[RenderableType]) -> str:
    """What the terminal shows, as text."""
    from rich.console import Console

    stream = StringIO()
    screen = Console(file=stream, width=WIDTH, markup=False, no_color=True, color_system=None)
    for part in parts:
        screen.print(part, soft_wrap=isinstance(part, str))
    return stream.getvalue()


def served(service: Service, state: ServerStore, name: str) -> Served:
    """The record with this id, or with the name under which a stream promised it.

    Raises:
        RequestError: 404, there is none, or not yet.
    """
    if service.is_promised(name):
        message = f"the confidence of {name} is not known yet; ask again in a moment."
        raise RequestError(404, message, "record_not_ready", "record_id", headers=RETRY_SOON)
    try:
        return state.served(state.position_of(name))
    except ParameterError:
        pruned = f"; those before {record_id(state.first)} were pruned" if state.first else ""
        raise RequestError(404, f"there is no record {name[:40]!r}{pruned}.", "record_not_found", "record_id") from None
