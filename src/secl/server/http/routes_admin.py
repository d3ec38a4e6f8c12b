"""Routes that look back and that control learning: records, history, feedback; rollback, pause and resume."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from io import StringIO
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse

from secl.errors import ParameterError, RequestError, RunError
from secl.server.audit.console import explanation_page
from secl.server.audit.control import what_follows
from secl.server.audit.entries import Served, position_of
from secl.server.audit.explain import explain
from secl.server.audit.history import bursts
from secl.server.audit.posteriors import posterior_counts
from secl.server.audit.store import ServerStore
from secl.server.http.dashboard.view import view
from secl.server.http.errors import AsciiJson
from secl.server.http.metrics import Metrics
from secl.server.http.routes_chat import ERROR_RESPONSES
from secl.server.http.schemas import Feedback, PauseRequest, RollbackRequest, event_json, served_json
from secl.server.online.service import Service

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 100
"""Characters of a line of an explanation."""

Count = Annotated[int, Query(ge=1, le=1000, description="How many of the latest.")]


def require_admin(request: Request) -> None:
    """Require the admin role.

    Raises:
        RequestError: 403.
    """
    if request.scope.get("secl_role") != "admin":
        raise RequestError(403, "this needs a key with the role admin.", "admin_only")


def admin_router(service: Service, metrics: Metrics) -> APIRouter:
    """All routes of this module."""
    router = APIRouter(tags=["control"], responses=ERROR_RESPONSES)
    _add_reading(router, service)
    _add_feedback(router, service, metrics)
    _add_control(router, service)
    return router


def _add_reading(router: APIRouter, service: Service) -> None:
    """/v1/records, /v1/history and /v1/state."""
    state, learner = service.state, service.learner

    @router.get("/v1/records/{record_id}")
    def record(record_id: str) -> AsciiJson:
        """Why an answer got its number: reply, bins, gate, evidence, update, and what people said of it."""
        return AsciiJson(finite(served_json(_served(state, record_id))))

    as_text = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @router.get("/v1/records/{record_id}/explanation", responses={200: as_text})
    def explanation(record_id: str) -> PlainTextResponse:
        """The same for people, as `secl show` prints it."""
        position = _served(state, record_id).record.position
        with ServerStore(state.folder) as reader:
            return PlainTextResponse(plain_text(explanation_page(explain(reader, position))))

    @router.get("/v1/history")
    def history(count: Count = 100) -> AsciiJson:
        """What happened to learning: versions, outcomes of lessons, latest bursts and events; counts of posteriors."""
        with ServerStore(state.folder) as reader:  # a connection of its own, so that no answer waits for a long query
            past = {
                "answers": len(reader),
                "versions": [0, *reader.versions()],
                "lessons": reader.counts(),
                "posteriors": asdict(posterior_counts(reader)),
                "bursts": [asdict(burst) for burst in bursts(reader)[-count:]],
                "events": [event_json(event) for event in reader.events(count)],
            }
        return AsciiJson(finite({**past, "adapter_version": learner.model.version, "paused": learner.paused}))

    @router.get("/v1/state")
    def now(count: Count = 300) -> AsciiJson:
        """What the page shows."""
        return AsciiJson(finite(view(service, count)))


def _add_feedback(router: APIRouter, service: Service, metrics: Metrics) -> None:
    """/v1/feedback."""
    state = service.state

    @router.post("/v1/feedback")
    def feedback(body: Feedback) -> AsciiJson:
        """Say whether an answer is right: confidences of later answers follow. The last word on an answer counts."""
        state.add_feedback(_served(state, body.record_id).record.position, body.correct, body.chance)
        metrics.count_feedback(body.correct)
        service.hear_labels()
        return AsciiJson({"record_id": body.record_id, "correct": body.correct, "labels": len(state.labels())})


def _add_control(router: APIRouter, service: Service) -> None:
    """/v1/rollback, /v1/pause and /v1/resume."""
    learner = service.learner
    only_admin = [Depends(require_admin)]

    @router.post("/v1/rollback", dependencies=only_admin)
    def rollback(body: RollbackRequest) -> AsciiJson:
        """Go back to a kept adapter version; lessons that wait are dropped."""
        try:
            dropped = learner.rollback(body.version)
        except RunError:
            numbers = ", ".join(map(str, [0, *learner.state.versions()]))
            message = f"adapter version {body.version} is not kept; kept are {numbers}."
            raise RequestError(404, message, "version_not_found", "version") from None
        follows = what_follows(service.decision, learner.paused)
        return AsciiJson({"adapter_version": body.version, "dropped": dropped, "follows": follows})

    @router.post("/v1/pause", dependencies=only_admin)
    def pause(body: PauseRequest) -> AsciiJson:
        """Pause learning; answers go on."""
        dropped = learner.pause(body.reason)
        return AsciiJson({"paused": learner.paused, "dropped": dropped})

    @router.post("/v1/resume", dependencies=only_admin)
    def resume() -> AsciiJson:
        """Resume learning."""
        learner.resume()
        return AsciiJson({"paused": learner.paused})


def plain_text(parts: Iterable[RenderableType]) -> str:
    """What the terminal shows, as text."""
    from rich.console import Console

    stream = StringIO()
    screen = Console(file=stream, width=WIDTH, markup=False, no_color=True, color_system=None)
    for part in parts:
        screen.print(part, soft_wrap=isinstance(part, str))
    return stream.getvalue()


def _served(state: ServerStore, name: str) -> Served:
    try:
        return state.served(position_of(name))
    except ParameterError:
        raise RequestError(404, f"there is no record {name[:40]!r}.", "record_not_found", "record_id") from None


def finite(value: object) -> object:
    """A value for JSON, which has no nan and no infinity: they become None.

    >>> finite({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inside) for inside in value]
    return None if isinstance(value, float) and not -float("inf") < value < float("inf") else value
