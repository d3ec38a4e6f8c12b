"""What a server is doing now, as plain values: for the page, and for `/v1/state`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from secl.metrics.calibration import brier, ece, reliability
from secl.server.audit.entries import Served
from secl.server.audit.wording import uninformed, weights_in_words
from secl.server.http.health import problems
from secl.server.online.learner import Learner
from secl.server.online.posterior_monitor import PosteriorMonitor
from secl.server.online.service import Service

VERSIONS = 8
"""Kept adapter versions that are listed, the newest ones."""

EVENTS = 20
"""Events that are listed, the latest ones."""


class Point(TypedDict):
    """One answer in the timeline, with the confidence that was reported.

    `entropy` is None where it is not finite, `correct` where nobody said anything.
    """

    position: int
    time: float
    confidence: float
    frozen_confidence: float
    entropy: float | None
    alarm: bool
    in_burst: bool
    version: int
    outcome: str
    correct: bool | None


class ReliabilityBin(TypedDict):
    """Labelled answers with reported confidence in [lo, hi): how many, mean confidence and accuracy; None if none."""

    lo: float
    hi: float
    count: int
    confidence: float | None
    accuracy: float | None


class FeedbackView(TypedDict):
    """What people's words say about the reported confidence, and ten bins, lowest first; None where n is 0."""

    n: int
    ece: float | None
    brier: float | None
    accuracy: float | None
    bins: list[ReliabilityBin]


class LearningView(TypedDict):
    """Whether this server learns at all (`on`) and now (`active`), why it is paused, and its waiting lessons."""

    on: bool
    active: bool
    paused: str | None
    waiting: int
    backlog: int


class VersionView(TypedDict):
    """A version: position and time of its first answer, whether it can be gone back to, whether it is in use."""

    version: int
    position: int | None
    time: float | None
    kept: bool
    current: bool


class EventView(TypedDict):
    """Something that happened to learning, at which record and version, in one sentence."""

    time: float
    kind: str
    position: int | None
    version: int
    detail: str


class QueueView(TypedDict):
    """Questions that wait, and the most that may."""

    waiting: int
    most: int


class PosteriorView(TypedDict):
    """What the posteriors of the latest answers say.

    Attributes:
        answers: how many of the latest answers have one.
        uninformed: share of them where the model shows no sign of knowing anything.
        differs: share of them whose most probable candidate is not the model's own answer.
        weights: of the latest, in words.
        remark: what one must know to read the latest, in one sentence; None if there is nothing to say.
    """

    answers: int
    uninformed: float | None
    differs: float | None
    weights: str
    remark: str | None


class View(TypedDict):
    """What a service is doing now.

    Attributes:
        model: its name.
        started: when, in seconds since 1970.
        answers: how many were ever given.
        version: of the latest answer. `newest`: of the next one.
        in_burst, remaining, statistic: the gate's decision on the latest answer.
        problems: what does not work, one sentence each.
        failed_requests, failed_lessons: unexpected exceptions since the start.
        drift, shift: of the weights and of the stated confidence, each with the bound that pauses learning.
        posterior: None where no answer has one.
        lessons: how many records there are with each outcome.
        unreadable: answers since the start that could not be read.
        timeline: the latest answers, the oldest first.
        versions: the newest kept versions, the newest first and the untouched model last; `older` counts the rest.
        events: the latest ones, the oldest first.
    """

    model: str
    started: float
    answers: int
    version: int
    newest: int
    in_burst: bool
    remaining: int
    statistic: float | None
    learning: LearningView
    problems: list[str]
    failed_requests: int
    failed_lessons: int
    drift: float | None
    drift_bound: float
    shift: float | None
    shift_bound: float
    posterior: PosteriorView | None
    lessons: dict[str, int]
    unreadable: int
    queue: QueueView
    timeline: list[Point]
    feedback: FeedbackView
    versions: list[VersionView]
    older: int
    events: list[EventView]


def view(service: Service, count: int = 300) -> View:
    """What a service is doing now.

    Args:
        service: running or not.
        count: most answers in the timeline.
    """
    state, learner, decision = service.state, service.learner, service.decision
    bounds = service.monitor.bounds
    with state.lock:  # one moment for everything that is read
        latest = state.latest(count, until=service.position - 1)
        lessons, labelled = state.counts(), state.labelled()
        events = _events(service)
        versions, older = _versions(service)
    return {
        "model": service.model.name,
        "started": service.started,
        "answers": service.position,
        "version": service.model.version,
        "newest": learner.model.version,
        "in_burst": decision is not None and decision.in_burst,
        "remaining": decision.remaining if decision is not None else 0,
        "statistic": defined(decision.statistic) if decision is not None else None,
        "learning": _learning(learner),
        "problems": problems(service, details=True),
        "failed_requests": service.failures,
        "failed_lessons": learner.failures,
        "drift": defined(learner.relative_norm),
        "drift_bound": bounds.drift,
        "shift": defined(service.monitor.shift),
        "shift_bound": bounds.shift,
        "posterior": _posterior(service.posteriors),
        "lessons": lessons,
        "unreadable": service.unreadable,
        "queue": {"waiting": service.waiting, "most": service.limits.queue},
        "timeline": [_point(served) for served in latest],
        "feedback": feedback(labelled),
        "versions": versions,
        "older": older,
        "events": events,
    }


def defined(value: float | None) -> float | None:
    """A number, or None where it is not finite.

    >>> defined(0.5), defined(float("nan")), defined(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def feedback(labelled: Sequence[tuple[float, bool]]) -> FeedbackView:
    """What people's words say about the reported confidence.

    Args:
        labelled: reported confidence and correctness of each labelled answer.

    >>> measures = feedback([(0.75, True), (0.75, False)])
    >>> measures["n"], measures["ece"], measures["accuracy"], measures["bins"][7]["count"]
    (2, 0.25, 0.5, 2)
    """
    confidence, correct = [stated for stated, _ in labelled], [right for _, right in labelled]
    bins: list[ReliabilityBin] = [
        {
            "lo": each.lo,
            "hi": each.hi,
            "count": each.count,
            "confidence": defined(each.confidence),
            "accuracy": defined(each.accuracy),
        }
        for each in reliability(confidence, correct)
    ]
    return {
        "n": len(labelled),
        "ece": defined(ece(confidence, correct)),
        "brier": defined(brier(confidence, correct)),
        "accuracy": float(np.mean(correct)) if labelled else None,
        "bins": bins,
    }


def _learning(learner: Learner) -> LearningView:
    return {
        "on": learner.calibrator.learns,
        "active": learner.active and learner.alive,
        "paused": learner.paused,
        "waiting": learner.waiting,
        "backlog": learner.backlog,
    }


def _posterior(monitor: PosteriorMonitor) -> PosteriorView | None:
    latest = monitor.latest
    if latest is None:
        return None
    return {
        "answers": len(monitor),
        "uninformed": monitor.uninformed,
        "differs": monitor.differs,
        "weights": weights_in_words(latest),
        "remark": None if latest.informed else uninformed(latest),
    }


def _point(served: Served) -> Point:
    record = served.record
    return {
        "position": record.position,
        "time": served.time,
        "confidence": record.confidence,
        "frozen_confidence": record.frozen.confidence,
        "entropy": defined(record.reply.entropy),
        "alarm": record.decision.alarm,
        "in_burst": record.decision.in_burst,
        "version": record.reply.version,
        "outcome": record.outcome,
        "correct": served.correct,
    }


def _events(service: Service) -> list[EventView]:
    return [
        {
            "time": event.time,
            "kind": event.kind,
            "position": event.position,
            "version": event.version,
            "detail": event.detail,
        }
        for event in service.state.events(EVENTS)
    ]


def _versions(service: Service) -> tuple[list[VersionView], int]:
    """The newest kept versions with their first answer, and how many older ones are kept."""
    state, newest = service.state, service.learner.model.version
    kept = state.versions()
    shown = kept[-VERSIONS:]
    # A version is kept with its first answer.
    condition = "r.position IN (SELECT position FROM versions ORDER BY version DESC LIMIT ?)"
    first_positions = {record.reply.version: record.position for record in state.records(condition, VERSIONS)}
    versions: list[VersionView] = []
    for number in [*sorted({*shown, newest} - {0}, reverse=True), 0]:
        position = first_positions.get(number)
        versions.append(
            {
                "version": number,
                "position": position,
                "time": None if position is None else state.served(position).time,
                "kept": number == 0 or number in shown,
                "current": number == newest,
            }
        )
    return versions, len(kept) - len(shown)
