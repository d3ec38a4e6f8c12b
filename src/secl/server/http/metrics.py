"""What Prometheus reads at /metrics, and the two questions of whoever runs the server: alive? ready?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from starlette.types import Scope

from secl.server.http.errors import AsciiJson
from secl.server.online.service import Answer, Service

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BINS = tuple(k / 10 for k in range(1, 11))


class Metrics:
    """The numbers of one server, in a registry of their own."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(Gauges(service))
        self._requests = Counter("secl_requests", "Requests.", ("route", "status"), registry=self.registry)
        self._seconds = Histogram(
            "secl_request_seconds", "Time of a request.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self._confidence = Histogram("secl_confidence", "Stated confidence.", buckets=BINS, registry=self.registry)
        self._frozen = Histogram(
            "secl_frozen_confidence", "Confidence of the frozen model.", buckets=BINS, registry=self.registry
        )
        self._batch = Histogram(
            "secl_batch", "Questions in one pass.", buckets=(1, 2, 4, 8, 16, 32, 64), registry=self.registry
        )
        self._feedback = Counter("secl_feedback", "Feedback.", ("correct",), registry=self.registry)

    def count_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request that is over. Routes are named by pattern, so that no path can make a new series."""
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_answer(self, answer: Answer) -> None:
        """Count an answer and its confidence."""
        self._confidence.observe(answer.record.reply.confidence)
        self._frozen.observe(answer.record.frozen.confidence)
        self._batch.observe(answer.batch)

    def count_feedback(self, correct: bool) -> None:
        """Count a person's word on whether an answer is right."""
        self._feedback.labels(str(correct).lower()).inc()


class Gauges(Collector):
    """What the service is doing now, read when it is asked for."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Any]:
        service, learner = self.service, self.service.learner
        decision = service.decision
        numbers = {
            "secl_ready": ("Whether questions are taken.", service.ready),
            "secl_queue": ("Questions that wait for their answer.", service.waiting),
            "secl_adapter_version": ("Adapter version that answers.", service.model.version),
            "secl_drift": ("Norm of the adapter over that of what it changes.", learner.relative_norm),
            "secl_shift": ("Mean of stated less frozen confidence, latest answers.", service.watch.shift),
            "secl_in_burst": ("Whether a burst is on.", decision is not None and decision.in_burst),
            "secl_gate_statistic": ("Of the gate.", decision.statistic if decision is not None else None),
            "secl_learning": ("Whether questions of bursts get lessons.", learner.active),
            "secl_lessons_waiting": ("Questions that wait for their lesson.", learner.waiting),
            "secl_storage_trouble": ("Whether the disk refuses.", bool(service.last_error or learner.last_error)),
        }
        for name, (meaning, value) in numbers.items():
            if value is not None:
                yield GaugeMetricFamily(name, meaning, float(value))
        yield CounterMetricFamily("secl_records", "Answers on record, ever.", service.position)
        yield CounterMetricFamily("secl_unreadable", "Answers that could not be read.", service.unreadable)


def health_router(service: Service, metrics: Metrics) -> APIRouter:
    """/healthz, /readyz and /metrics. The first two need no key, so they name no folder."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    def healthz() -> dict[str, Any]:
        """The process works. What does not is named in words: answers go on where learning or the disk does not."""
        learner = service.learner
        learning = "paused" if learner.paused is not None else "on" if learner.active else "off"
        last_error = []
        if service.last_error is not None:
            last_error.append("answers are not stored: the disk refuses")
        if learner.last_error is not None:
            last_error.append("lessons wait: the disk refuses")
        if not service.ready:
            last_error.append("no questions are taken")
        return {"status": "last_error" if last_error else "ok", "learning": learning, "last_error": last_error}

    @router.get("/readyz", responses={503: {"description": "No questions are taken."}})
    def readyz() -> Response:
        """Whether questions are taken."""
        return AsciiJson({"ready": service.ready}, 200 if service.ready else 503)

    @router.get("/metrics", response_class=PlainTextResponse)
    def numbers() -> Response:
        """Numbers for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router
