"""The present state of a server: /healthz, /readyz, metrics for Prometheus, and `ServerState` for the overview page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from pydantic import BaseModel
from starlette.types import Scope
from typing_extensions import TypedDict

from secl.evaluation.json_values import defined
from secl.evaluation.symptoms import Code, Reason
from secl.evaluation.trust import Level
from secl.metrics.measures import brier, ece
from secl.model import version_of
from secl.records import answers_in
from secl.server.entries import Event, Keep
from secl.server.online.learner import DISK
from secl.server.online.queue import ServedAnswer
from secl.server.online.service import STORAGE, Service
from secl.server.records import LabelledAnswer, Point, labelled_answers, latest_points
from secl.server.settings import MAX_DRIFT, public_name
from secl.server.store import ServerStore, at_one_moment

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BINS = tuple(k / 10 for k in range(1, 11))

POINTS = 300
"""Number of latest answers in the chart of the overview."""

SHOWN_VERSIONS = 8
"""Number of newest stored versions in the overview."""

LABELLED_ANSWERS = 1000
"""Number of latest labelled answers from which the overview computes accuracy, Brier score and ECE."""

EVENTS = 20
"""Number of latest events in the overview."""


def problems(service: Service, *, details: bool = False) -> list[str]:
    """Return a sentence for each current problem; `details` adds errors, which may name folders and addresses."""
    parts: dict[str, str] = {}
    if not service.ready:
        stopped = "the server is stopping" if service.alive else "the answering thread has ended"
        parts[f"the server accepts no questions: {stopped}"] = ""
    elif not service.learner.alive:
        parts["the server does not learn: the learning thread has ended"] = ""
    parts |= service.problems | service.learner.problems | service.pruner.problems
    return [f"{text} ({error})" if details and error else text for text, error in parts.items()]


class Readiness(TypedDict):
    """Whether the server accepts questions. problems: a sentence for each current problem."""

    ready: bool
    problems: list[str]


class Health(TypedDict):
    """State of the server.

    learning: "off" if the server does not learn or its learner fails. problems: a sentence for each current
    problem. trouble: codes of the reasons not to act on confidences.
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
        self._confidence = Histogram(
            "secl_confidence", "Reported confidence of an answer or a fact.", buckets=BINS, registry=self.registry
        )
        self._accepted = Counter(
            "secl_accepted",
            "Answers and facts, by whether the threshold accepts them.",
            ("accepted",),
            registry=self.registry,
        )

    def count_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a finished request under the pattern of its route, so that paths with ids add no time series."""
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_answer(self, answer: ServedAnswer) -> None:
        """Count a readable answer of this model, or its facts; answers from elsewhere do not count."""
        if answer.record.kind == "given" or answer.record.answer is None:
            return
        for part in answers_in([answer.record]):
            if not math.isnan(part.confidence):
                self._confidence.observe(part.confidence)
            if part.accepted is not None:
                self._accepted.labels(str(part.accepted).lower()).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield metrics of the service's current state."""
        service, learner, gauge, count = self.service, self.service.learner, GaugeMetricFamily, CounterMetricFamily
        level, failed = get_args(Level).index(service.verdict.level), service.failures
        learns, disk = learner.active and learner.alive, STORAGE in service.problems or DISK in learner.problems
        drift = learner.relative_norm
        yield gauge("secl_verdict", "Verdict: 0 fine, 1 unproven, 2 do not act on the confidences.", level)
        yield gauge("secl_ready", "Whether the server accepts questions.", service.ready)
        yield gauge("secl_queue", "Requests in the queue.", service.waiting)
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
        trouble = [reason.code for reason in verdict.reasons if reason.severity == "stop"]
        return {
            "status": "degraded" if names or trouble else "ok",
            "learning": learning if learner.paused is None else "paused",
            "problems": names,
            "verdict": verdict.level,
            "trouble": trouble,
        }

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", responses={503: {"description": "The server accepts no questions.", "model": Readiness}})
    def readyz(response: Response) -> Readiness:
        """Return whether the server accepts questions (200 or 503)."""
        response.status_code = 200 if service.ready else 503
        return {"ready": service.ready, "problems": problems(service)}

    @router.get("/metrics", response_class=PlainTextResponse)
    def numbers() -> Response:
        """Return metrics for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


class VersionRow(BaseModel):
    """A version of the weights, with position and time of its first answer."""

    version: int
    position: int | None = None
    time: float | None = None


class LearningState(BaseModel):
    """State of learning.

    version: version of the learned weights. paused: reason for a pause; null without a pause. waiting: number of
    pending lessons. in_burst, remaining, statistic: what the gate decided for the latest question. drift: norm of the
    learned change over the norm of the weights. lessons: number of records by outcome of learning. versions: the newest
    stored versions, the newest first, the frozen model last.
    """

    version: int
    paused: str | None
    waiting: int
    in_burst: bool
    remaining: int
    statistic: float | None
    drift: float | None
    drift_bound: float
    lessons: dict[str, int]
    versions: list[VersionRow]


class Labels(BaseModel):
    """Measures of the reported confidences on the latest labelled answers.

    count: number of labels. drawn: number of labels of answers that were chosen for rating with a known probability.
    """

    count: int
    drawn: int
    accuracy: float | None
    brier: float | None
    ece: float | None


class Trust(BaseModel):
    """Verdict on the confidences of the latest answers. questions: number of answers. graded: number of labels."""

    level: Level
    questions: int
    graded: int
    reasons: tuple[Reason, ...]


class ServerState(BaseModel):
    """The present state of a server.

    answers: number of records, pruned ones included. version: version of the weights that answer. waiting: number of
    requests in the queue. failed_requests: number of unexpected exceptions since the start. unreadable: number of
    unreadable answers since the start. accept: lowest accepted confidence by the present labels, in a domain without a
    map of its own; null without a threshold. timeline, events: the latest answers and events, the oldest first.
    learning: null if the server does not learn.
    """

    model: str
    answers: int
    version: int
    waiting: int
    failed_requests: int
    unreadable: int
    problems: list[str]
    keep_text: Keep
    accept: float | None
    verdict: Trust
    labels: Labels
    timeline: list[Point]
    events: list[Event]
    learning: LearningState | None


def view(service: Service) -> ServerState:
    """Return the present state of a service, in a time that does not grow with the number of records."""
    with at_one_moment(service.state.folder) as reader:
        labelled = labelled_answers(reader, LABELLED_ANSWERS)
        timeline, events = latest_points(reader, POINTS), reader.events(EVENTS)
        learning = _learning(service, reader) if service.learner.calibrator.learns else None
    return ServerState(
        model=public_name(service.model.name),
        answers=service.position,
        version=version_of(service.model),
        waiting=service.waiting,
        failed_requests=service.failures,
        unreadable=service.unreadable,
        problems=problems(service, details=True),
        keep_text=service.state.keep_text,
        accept=service.calibrator.accept,
        verdict=Trust.model_validate(service.verdict, from_attributes=True),
        labels=label_measures(labelled),
        timeline=timeline,
        events=events,
        learning=learning,
    )


def label_measures(labelled: Sequence[LabelledAnswer]) -> Labels:
    """Return measures of labelled answers.

    >>> label_measures([LabelledAnswer(0.75, True, 0.5), LabelledAnswer(0.75, False, 0.5)]).ece
    0.25
    """
    confidence, correct = [each.confidence for each in labelled], [each.correct for each in labelled]
    return Labels(
        count=len(labelled),
        drawn=sum(each.chance is not None for each in labelled),
        accuracy=float(np.mean(correct)) if labelled else None,
        brier=defined(brier(confidence, correct)),
        ece=defined(ece(confidence, correct)),
    )


def _learning(service: Service, reader: ServerStore) -> LearningState:
    learner, gate = service.learner, service.calibrator.state.decision
    newest, kept = learner.version, {each["version"]: each for each in reader.kept_versions(SHOWN_VERSIONS)}
    numbers = [*sorted({*kept, newest} - {0}, reverse=True), 0]
    rows = [VersionRow(**kept.get(number, {"version": number})) for number in numbers]
    return LearningState(
        version=newest,
        paused=learner.paused,
        waiting=learner.waiting,
        in_burst=gate is not None and gate.in_burst,
        remaining=0 if gate is None else gate.remaining,
        statistic=None if gate is None else defined(gate.statistic),
        drift=defined(learner.relative_norm),
        drift_bound=MAX_DRIFT,
        lessons=reader.counts(),
        versions=rows,
    )
