"""What a server is doing now, as plain values: for the page, and for `/v1/state`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from secl.evaluation.trust import Verdict
from secl.metrics.calibration import brier, ece, reliability
from secl.server.audit.entries import Served
from secl.server.audit.wording import uninformed, weights_in_words
from secl.server.http.dashboard.shapes import (
    EventView,
    FeedbackView,
    LatestAnswer,
    LearningView,
    Point,
    PosteriorView,
    ReliabilityBin,
    VerdictView,
    VersionView,
    View,
)
from secl.server.http.health import problems
from secl.server.http.routes_chat import public_name
from secl.server.http.schemas import answer_text
from secl.server.online.learner import Learner
from secl.server.online.posterior_monitor import PosteriorMonitor
from secl.server.online.service import Service

VERSIONS = 8
"""Kept adapter versions that are listed, the newest ones."""

LATEST = 8
"""Answers that are listed with their texts."""

BEGINNING = 100
"""Characters of a question that are shown in a list."""

EVENTS = 20
"""Events that are listed, the latest ones."""


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
        "model": public_name(service.model.name),
        "started": service.started,
        "answers": service.position,
        "version": service.model.version,
        "newest": learner.model.version,
        "in_burst": decision is not None and decision.in_burst,
        "remaining": decision.remaining if decision is not None else 0,
        "statistic": defined(decision.statistic) if decision is not None else None,
        "learning": _learning(learner),
        "problems": problems(service, details=True),
        "verdict": verdict_view(service.trust.verdict),
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
        "timeline": [_point(served) for served in latest if not served.record.given],
        "latest": [_with_texts(served) for served in latest[: -LATEST - 1 : -1]],
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


def verdict_view(verdict: Verdict) -> VerdictView:
    """A verdict as plain values."""
    return {
        "level": verdict.level,
        "questions": verdict.questions,
        "graded": verdict.graded,
        "reasons": [
            {"code": each.code, "severity": each.severity, "sentence": each.sentence} for each in verdict.reasons
        ],
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
        "accepted": None if record.abstained is None else not record.abstained,
    }


def _with_texts(served: Served) -> LatestAnswer:
    record = served.record
    question = " ".join(record.question.text.split())
    shown = question if len(question) <= BEGINNING else f"{question[:BEGINNING].rstrip()} …"
    return {**_point(served), "question": shown, "answer": answer_text(record)}


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
