"""Routes that look back at learning and control it: history and state; rollback, pause and resume."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from secl.errors import RequestError, RunError
from secl.records import Decision
from secl.server.audit.history import RECENT, bursts
from secl.server.audit.posteriors import posterior_counts
from secl.server.audit.retention import Retention
from secl.server.audit.search import at_one_moment
from secl.server.http.dashboard.view import view
from secl.server.http.errors import AsciiJson
from secl.server.http.routes_chat import ERROR_RESPONSES
from secl.server.http.schemas import PauseRequest, PruneRequest, RollbackRequest, event_json
from secl.server.online.service import Service

Count = Annotated[int, Query(ge=1, le=1000, description="How many of the latest.")]


PRUNING = 10.0
"""Seconds that one request for pruning takes at most."""


def what_follows(decision: Decision | None, paused: str | None) -> str:
    """When a server that was rolled back learns again, in one sentence.

    Args:
        decision: of the gate on the latest answer; None before the first.
        paused: why learning is paused; None if it is not.
    """
    if paused is not None:
        return "Learning is paused; nothing is learned until it is resumed."
    if decision is not None and decision.in_burst and decision.remaining:
        coming = "question" if decision.remaining == 1 else f"{decision.remaining} questions"
        return f"The burst goes on: it learns again from the next {coming}."
    return "It learns again when the gate sees the next shift; until then this version answers."


def require_admin(request: Request) -> None:
    """Require the admin role.

    Raises:
        RequestError: 403.
    """
    if request.scope.get("secl_role") != "admin":
        raise RequestError(403, "this needs a key with the role admin.", "admin_only")


def admin_router(service: Service) -> APIRouter:
    """All routes of this module."""
    router = APIRouter(tags=["control"], responses=ERROR_RESPONSES)
    _add_reading(router, service)
    _add_control(router, service)
    return router


def _add_reading(router: APIRouter, service: Service) -> None:
    """/v1/history and /v1/state."""
    state, learner = service.state, service.learner

    @router.get("/v1/history")
    def history(count: Count = 100) -> AsciiJson:
        """What happened to learning: versions, outcomes of lessons, latest bursts and events; counts of posteriors."""
        with at_one_moment(state.folder) as reader:
            past = {
                "answers": len(reader),
                "versions": [0, *reader.versions()],
                "lessons": reader.counts(),
                "posteriors": asdict(posterior_counts(reader)),
                "bursts": [asdict(burst) for burst in bursts(reader, RECENT)[-count:]],
                "events": [event_json(event) for event in reader.events(count)],
            }
        return AsciiJson({**past, "adapter_version": learner.model.version, "paused": learner.paused})

    @router.get("/v1/state")
    def now(count: Count = 300) -> AsciiJson:
        """What the page shows."""
        return AsciiJson(view(service, count))


def _add_control(router: APIRouter, service: Service) -> None:
    """/v1/rollback, /v1/pause, /v1/resume and /v1/prune."""
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

    @router.post("/v1/prune", dependencies=only_admin)
    def prune(body: PruneRequest) -> AsciiJson:
        """Prune old records and versions for some seconds; call it again until it is `done`."""
        policy = Retention.of(body.keep_records, body.keep_versions)
        return AsciiJson(asdict(service.pruner.prune(policy, PRUNING)))
