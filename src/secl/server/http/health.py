"""Health probes: failing parts in words, whether the server accepts questions, and metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from starlette.types import Scope
from typing_extensions import TypedDict

from secl.evaluation.symptoms import Code
from secl.evaluation.trust import Level
from secl.server.online.learner import DISK
from secl.server.online.queue import Answer
from secl.server.online.service import STORAGE, Service

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BINS = tuple(k / 10 for k in range(1, 11))


def problems(service: Service, *, details: bool = False) -> list[str]:
    """Return a sentence for each failing part; `details` adds errors, which may name folders and addresses."""
    parts: dict[str, str] = {}
    if not service.ready:
        stopped = "the server is stopping" if service.alive else "the answering thread has ended"
        parts[f"the server accepts no questions: {stopped}"] = ""
    elif not service.learner.alive:
        parts["the server does not learn: the learning thread has ended"] = ""
    parts |= service.problems | service.learner.problems | service.pruner.problems
    return [f"{text} ({error})" if details and error else text for text, error in parts.items()]


class Readiness(TypedDict):
    """Whether the server accepts questions; problems: a sentence for each failing part."""

    ready: bool
    problems: list[str]


class Health(TypedDict):
    """State of the server.

    learning: "off" if the server does not learn or its learner fails. problems: a sentence for each failing part.
    trouble: reasons not to act on confidences.
    """

    status: Literal["ok", "degraded"]
    learning: Literal["on", "paused", "off"]
    problems: list[str]
    verdict: Level
    trouble: list[Code]


class Metrics(Collector):
    """The metrics of a server, in their own Prometheus registry."""

    def __init__(self, service: Service) -> None:
        self.service, self.registry = service, CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(self)
        service.on_answer = self.observe_answer
        self._requests = Counter("secl_requests", "Requests.", ("route", "status"), registry=self.registry)
        self._seconds = Histogram(
            "secl_request_seconds", "Time of a request.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self._confidence = Histogram("secl_confidence", "Reported confidence.", buckets=BINS, registry=self.registry)
        self._accepted = Counter(
            "secl_accepted", "Answers, by whether the threshold accepts them.", ("accepted",), registry=self.registry
        )

    def count_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a finished request under the pattern of its route, so that single paths make no new time series."""
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_answer(self, answer: Answer) -> None:
        """Count a readable answer of this model; answers from elsewhere do not count."""
        if answer.record.given or answer.record.answer is None:
            return
        self._confidence.observe(answer.record.confidence)
        if answer.record.accepted is not None:
            self._accepted.labels(str(answer.record.accepted).lower()).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield metrics of the service's current state."""
        service, learner, gauge, count = self.service, self.service.learner, GaugeMetricFamily, CounterMetricFamily
        level, failed = get_args(Level).index(service.verdict.level), service.failures
        learns, disk = learner.active and learner.alive, STORAGE in service.problems or DISK in learner.problems
        drift = learner.relative_norm
        yield gauge("secl_verdict", "0 fine, 1 unproven, 2 do not act on it.", level)
        yield gauge("secl_ready", "Whether questions are accepted.", service.ready)
        yield gauge("secl_queue", "Questions that wait for their answer.", service.waiting)
        yield gauge("secl_drift", "Norm of the adapter's change over the norm of the changed weights.", drift)
        yield gauge("secl_learning", "Whether the server learns: 0 while paused or off.", learns)
        yield gauge("secl_storage_trouble", "Whether writing to disk fails.", disk)
        yield count("secl_unreadable", "Answers that could not be read.", service.unreadable)
        yield count("secl_failed_requests", "Questions without an answer because of an unexpected exception.", failed)
        yield count("secl_failed_lessons", "Lessons that failed.", learner.failures)


def health_router(metrics: Metrics) -> APIRouter:
    """Return the routes /metrics, /healthz and /readyz.

    /healthz and /readyz need no key, so their replies name no folder and quote no question.
    """
    router, service = APIRouter(tags=["health"]), metrics.service

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    def healthz() -> Health:
        """Return the state of the server; the status is 200 while the process runs."""
        names, verdict, learner = problems(service), service.verdict, service.learner
        learning: Literal["on", "off"] = "on" if learner.active and learner.alive else "off"
        trouble = [reason.code for reason in verdict.stops]
        return {
            "status": "degraded" if names or trouble else "ok",
            "learning": learning if learner.paused is None else "paused",
            "problems": names,
            "verdict": verdict.level,
            "trouble": trouble,
        }

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", responses={503: {"description": "No questions are accepted.", "model": Readiness}})
    def readyz(response: Response) -> Readiness:
        """Return whether the server accepts questions (200 or 503)."""
        response.status_code = 200 if service.ready else 503
        return {"ready": service.ready, "problems": problems(service)}

    @router.get("/metrics", response_class=PlainTextResponse)
    def numbers() -> Response:
        """Return metrics for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router
