"""Health: what does not work now, in words; whether the process works, and whether questions are accepted."""

from __future__ import annotations

from fastapi import APIRouter, Response

from secl.server.http.errors import AsciiJson
from secl.server.online.service import Service


def problems(service: Service, *, details: bool = False) -> list[str]:
    """What does not work now, one sentence each; empty if all is well.

    `details` adds the error behind each problem, which can name folders and addresses, so it is not for everybody.
    """
    learner = service.learner
    answers_fail = service.last_error is not None and not service.storage_fails
    lessons_fail = learner.last_error is not None and not learner.storage_fails
    stopped = "the server is stopping" if service.alive else "the answering thread has ended"
    checks = (
        (not service.ready, f"no questions are accepted: {stopped}", None),
        (service.storage_fails, "answers are not stored: writing to disk fails", service.last_error),
        (answers_fail, "the latest questions, or a new version, failed", service.last_error),
        (service.labels_error is not None, "new labels move no confidence", service.labels_error),
        (service.ready and not learner.alive, "nothing is learned: the learning thread has ended", None),
        (learner.storage_fails, "lessons wait: writing to disk fails", learner.last_error),
        (service.pruner.last_error is not None, "old records are not pruned", service.pruner.last_error),
        (lessons_fail, "the latest lesson failed", learner.last_error),
    )
    return [f"{text} ({error})" if details and error else text for applies, text, error in checks if applies]


def learning_state(service: Service) -> str:
    """ "on", "paused", or "off" where this server does not learn or cannot."""
    learner = service.learner
    if learner.paused is not None:
        return "paused"
    return "on" if learner.active and learner.alive else "off"


def health_router(service: Service) -> APIRouter:
    """/healthz and /readyz. They need no key, so they name no folder and quote no question."""
    router = APIRouter(tags=["health"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    def healthz() -> dict[str, str | list[str]]:
        """The process works. What does not work is named: answers go on where learning or the disk fails.

        `verdict` says whether the confidences of the latest answers may be acted on, `trouble` why not.
        """
        names, verdict = problems(service), service.monitor.verdict
        trouble: list[str] = [reason.code for reason in verdict.stops]
        return {
            "status": "degraded" if names or trouble else "ok",
            "learning": learning_state(service),
            "problems": names,
            "verdict": verdict.level,
            "trouble": trouble,
        }

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", responses={503: {"description": "No questions are accepted."}})
    def readyz() -> Response:
        """Whether questions are accepted."""
        return AsciiJson({"ready": service.ready, "problems": problems(service)}, 200 if service.ready else 503)

    return router
