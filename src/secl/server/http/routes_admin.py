"""The routes that look back and that steer: records, history, feedback; roll back, pause and resume."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from secl.errors import ParameterError, RequestError, RunError
from secl.server.audit.entries import Served, position_of
from secl.server.audit.history import bursts
from secl.server.audit.store import ServerStore
from secl.server.http.errors import AsciiJson
from secl.server.http.metrics import Metrics
from secl.server.http.routes_chat import ERRORS
from secl.server.http.schemas import Feedback, FreezeRequest, RollbackRequest, event_json, served_json
from secl.server.online.service import Service

Count = Annotated[int, Query(ge=1, le=1000, description="How many of the latest.")]


def admin(request: Request) -> None:
    """Let only those pass who may steer."""
    if request.scope.get("secl_role") != "admin":
        raise RequestError(403, "this needs a key with the role admin.", "admin_only")


def control_router(service: Service, metrics: Metrics) -> APIRouter:
    """/v1/records, /v1/history, /v1/state, /v1/feedback, /v1/rollback, /v1/pause and /v1/resume."""
    router = APIRouter(tags=["control"], responses=ERRORS)
    only_admin = [Depends(admin)]
    state, learner = service.state, service.learner

    def found(name: str) -> Served:
        try:
            return state.served(position_of(name))
        except ParameterError:
            raise RequestError(404, f"there is no record {name[:40]!r}.", "record_not_found", "record_id") from None

    @router.get("/v1/records/{record_id}")
    def record(record_id: str) -> AsciiJson:
        """Why an answer got its number: reply, bins, gate, evidence, update, and what people said of it."""
        return AsciiJson(finite(served_json(found(record_id))))

    @router.get("/v1/history")
    def history(count: Count = 100) -> AsciiJson:
        """What happened to learning: versions kept, lessons by kind, the latest bursts and events."""
        with ServerStore(state.folder) as seen:  # a connection of its own, so that no answer waits for a long look back
            past = {
                "answers": len(seen),
                "versions": [0, *seen.versions()],
                "lessons": seen.counts(),
                "bursts": [asdict(burst) for burst in bursts(seen)[-count:]],
                "events": [event_json(event) for event in seen.events(count)],
            }
        return AsciiJson(finite({**past, "adapter_version": learner.model.version, "paused": learner.paused}))

    @router.get("/v1/state")
    def now(count: Count = 300) -> AsciiJson:
        """What the page shows."""
        from secl.server.http.dashboard.view import view

        return AsciiJson(finite(view(service, count)))

    @router.post("/v1/feedback")
    def feedback(said: Feedback) -> AsciiJson:
        """Say whether an answer is right; a later word replaces an earlier one. It is never learned from."""
        position = found(said.record_id).record.position
        state.add_feedback(position, said.correct)
        metrics.judged(said.correct)
        return AsciiJson({"record_id": said.record_id, "correct": said.correct})

    @router.post("/v1/rollback", dependencies=only_admin)
    def rollback(wanted: RollbackRequest) -> AsciiJson:
        """Go back to a kept adapter version; lessons that wait are dropped."""
        try:
            learner.rollback(wanted.version)
        except RunError:
            kept = ", ".join(map(str, [0, *state.versions()]))
            message = f"adapter version {wanted.version} is not kept; kept are {kept}."
            raise RequestError(404, message, "version_not_found", "version") from None
        return AsciiJson({"adapter_version": wanted.version})

    @router.post("/v1/pause", dependencies=only_admin)
    def pause(why: FreezeRequest) -> AsciiJson:
        """Learn no more; answers go on."""
        learner.pause(why.reason)
        return AsciiJson({"paused": learner.paused})

    @router.post("/v1/resume", dependencies=only_admin)
    def resume() -> AsciiJson:
        """Learn again."""
        learner.resume()
        return AsciiJson({"paused": learner.paused})

    return router


def finite(value: Any) -> Any:
    """A value for JSON, which has no nan and no infinity: they become None.

    >>> finite({"a": (1.5, float("nan"))})
    {'a': [1.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inside) for inside in value]
    return None if isinstance(value, float) and not -float("inf") < value < float("inf") else value
