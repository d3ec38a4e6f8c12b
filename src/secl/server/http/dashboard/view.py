"""What a server is doing now, as plain values: for the page, and for whoever asks over HTTP."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from secl.metrics.calibration import brier, ece, reliability
from secl.server.audit.entries import Served
from secl.server.online.service import Service

VERSIONS = 8
"""Kept adapter versions that are listed, the newest ones."""

EVENTS = 20
"""Events that are listed, the latest ones."""

View = dict[str, Any]
"""Plain values that JSON can hold; what is undefined is None."""


def view(service: Service, count: int = 300) -> View:
    """What a service is doing now.

    Args:
        service: running or not.
        count: most answers in the timeline.

    Returns:
        model: its name.
        answers: how many were ever given.
        version: of the latest answer. `newest`: of the next one.
        in_burst, remaining, statistic: what the gate made of the latest answer.
        learning: `on` (this server learns at all), `active`, `paused` (the reason, or None), `waiting` lessons of
            at most `backlog`.
        last_error: what keeps answers or lessons from being written, in one sentence, or None.
        drift, shift: of the weights and of the stated confidence, each with the bound that pauses learning.
        lessons: how many records there are of each kind of lesson.
        unreadable: answers since the start that could not be read.
        queue: questions that wait, and the most that may.
        timeline: the latest answers, the oldest first.
        feedback: answers that people said something about: how many, their measures and ten reliability bins.
        versions: the newest kept adapter versions, the newest first and the untouched model last; `older` counts the
            rest.
        events: the latest ones, the oldest first.
    """
    state, learner = service.state, service.learner
    decision = service.decision
    with state.lock:  # one moment for all that is read
        latest = state.latest(count, until=service.position - 1)
        lessons, events, labelled = state.counts(), state.events(EVENTS), state.labelled()
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
        "learning": {
            "on": learner.calibrator.learns,
            "active": learner.active,
            "paused": learner.paused,
            "waiting": learner.waiting,
            "backlog": learner.backlog,
        },
        "last_error": service.last_error or learner.last_error,
        "drift": defined(learner.relative_norm),
        "drift_bound": service.watch.bounds.drift,
        "shift": defined(service.watch.shift),
        "shift_bound": service.watch.bounds.shift,
        "lessons": lessons,
        "unreadable": service.unreadable,
        "queue": {"waiting": service.waiting, "most": service.limits.queue},
        "timeline": [_point(served) for served in latest],
        "feedback": feedback(labelled),
        "versions": versions,
        "older": older,
        "events": [
            {"time": e.time, "kind": e.kind, "position": e.position, "version": e.version, "detail": e.detail}
            for e in events
        ],
    }


def defined(value: float | None) -> float | None:
    """A number, or None where it is not finite.

    >>> defined(0.5), defined(float("nan")), defined(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def feedback(labelled: list[tuple[float, bool]]) -> View:
    """What people's judgements say about the stated confidence.

    Args:
        labelled: stated confidence and correctness of each judged answer.

    Returns:
        n, ece, brier and accuracy, and ten reliability bins, lowest first; measures of nothing are None.

    >>> found = feedback([(0.75, True), (0.75, False)])
    >>> found["n"], found["ece"], found["accuracy"], found["bins"][7]["count"], found["bins"][0]["accuracy"]
    (2, 0.25, 0.5, 2, None)
    """
    confidence, correct = [stated for stated, _ in labelled], [right for _, right in labelled]
    bins = [
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


def _point(served: Served) -> View:
    record = served.record
    return {
        "position": record.position,
        "time": served.time,
        "confidence": record.reply.confidence,
        "frozen_confidence": record.frozen.confidence,
        "entropy": defined(record.reply.entropy),
        "alarm": record.decision.alarm,
        "in_burst": record.decision.in_burst,
        "version": record.reply.version,
        "outcome": record.outcome,
        "correct": served.correct,
    }


def _versions(service: Service) -> tuple[list[View], int]:
    """The newest kept versions with their first answer, and how many older ones are kept."""
    state, newest = service.state, service.learner.model.version
    kept = state.versions()
    shown = kept[-VERSIONS:]
    # A version is kept with its first answer.
    places = "r.position IN (SELECT position FROM versions ORDER BY version DESC LIMIT ?)"
    first = {record.reply.version: record.position for record in state.records(places, VERSIONS)}
    numbers = sorted({*shown, newest} - {0}, reverse=True)
    found: list[View] = []
    for number in [*numbers, 0]:
        place = first.get(number)
        found.append(
            {
                "version": number,
                "position": place,
                "time": None if place is None else state.served(place).time,
                "kept": number == 0 or number in shown,
                "current": number == newest,
            }
        )
    return found, len(kept) - len(shown)
