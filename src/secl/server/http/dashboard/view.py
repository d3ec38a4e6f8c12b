"""What a server is doing now, as plain values: for the page, and for `/v1/state`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from secl.evaluation.json_values import defined
from secl.evaluation.trust import Verdict
from secl.metrics.calibration import Bin, brier, ece, reliability
from secl.metrics.risk_control import risk_bound, risk_coverage
from secl.metrics.shares import wilson
from secl.server.audit.entries import Values
from secl.server.audit.search import Filter, at_one_moment, kept_versions, latest_answered, latest_labelled, search
from secl.server.audit.store import ServerStore
from secl.server.audit.wording import weights_in_words
from secl.server.http.dashboard.listing import listed, point
from secl.server.http.health import problems
from secl.server.http.routes_chat import public_name
from secl.server.online.learner import Learner
from secl.server.online.posterior_monitor import PosteriorMonitor
from secl.server.online.service import Service

VERSIONS = 8
"""Kept adapter versions that are listed, the newest ones."""

LATEST = 8
"""Answers that are listed with their texts."""

LABELLED = 1000
"""Latest labelled answers that reliability and risk are about."""

STEPS = 50
"""Most points of the curve of risk over coverage."""

CERTAINTY = 0.9
"""Certainty of its upper bound."""

EVENTS = 20
"""Events that are listed, the latest ones."""


def view(service: Service, count: int = 300, now: Values | None = None) -> Values:
    """What a service is doing now. What it reads depends on no number of records.

    Args:
        service: running or not.
        count: most answers in the timeline.
        now: its part in memory, if that is known already.
    """
    current = now_of(service) if now is None else now
    with at_one_moment(service.state.folder) as reader:
        points = [point(row) for row in latest_answered(reader, count)]
        latest = listed(reader, search(reader, Filter(), LATEST).positions)
        labelled = latest_labelled(reader, LABELLED)
        lessons, events = reader.counts(), _events(reader)
        versions, older = _versions(reader, current["newest"])
    drawn = sum(chance is not None for *_, chance in labelled)
    return {
        **current,
        "lessons": lessons,
        "timeline": points,
        "latest": latest,
        "feedback": feedback([(confidence, right) for confidence, right, _ in labelled], drawn),
        "versions": versions,
        "older": older,
        "events": events,
    }


def now_of(service: Service) -> Values:
    """The part of a view that needs no file."""
    learner, decision, bounds = service.learner, service.decision, service.monitor.bounds
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
        "unreadable": service.unreadable,
        "queue": {"waiting": service.waiting, "most": service.limits.queue},
        "keep_text": service.state.keep_text,
        "accept": service.calibrator.loop.accept,
    }


def feedback(labelled: Sequence[tuple[float, bool]], drawn: int = 0) -> Values:
    """What people's words say about the reported confidence.

    Args:
        labelled: reported confidence and correctness of each labelled answer.
        drawn: how many of them were drawn with a known chance.

    >>> measures = feedback([(0.75, True), (0.75, False)])
    >>> measures["n"], measures["ece"], measures["accuracy"], measures["bins"][7]["count"]
    (2, 0.25, 0.5, 2)
    """
    confidence, correct = [stated for stated, _ in labelled], [right for _, right in labelled]
    return {
        "n": len(labelled),
        "drawn": drawn,
        "ece": defined(ece(confidence, correct)),
        "brier": defined(brier(confidence, correct)),
        "accuracy": float(np.mean(correct)) if labelled else None,
        "bins": [_bin(each) for each in reliability(confidence, correct)],
        "risk": _risk(confidence, correct),
    }


def _bin(each: Bin) -> Values:
    low, high = wilson(each.accuracy, each.count) if each.count else (None, None)
    return {
        "lo": each.lo,
        "hi": each.hi,
        "count": each.count,
        "confidence": defined(each.confidence),
        "accuracy": defined(each.accuracy),
        "low": low,
        "high": high,
    }


def _risk(confidence: Sequence[float], correct: Sequence[bool]) -> list[Values]:
    """Wrong answers among the surest ones, for `STEPS` shares of them at most."""
    curve = risk_coverage(confidence, correct)
    upper = risk_bound(curve.wrong, curve.labels, CERTAINTY)
    kept = np.unique(np.linspace(0, len(upper) - 1, min(STEPS, len(upper))).round().astype(int))
    return [
        {
            "confidence": float(curve.confidence[k]),
            "coverage": float(curve.coverage[k]),
            "labels": int(curve.labels[k]),
            "wrong": int(curve.wrong[k]),
            "upper": float(upper[k]),
        }
        for k in kept
    ]


def verdict_view(verdict: Verdict) -> Values:
    """A verdict as plain values."""
    return {
        "level": verdict.level,
        "questions": verdict.questions,
        "graded": verdict.graded,
        "reasons": [
            {"code": each.code, "severity": each.severity, "sentence": each.sentence} for each in verdict.reasons
        ],
    }


def _learning(learner: Learner) -> Values:
    return {
        "on": learner.calibrator.learns,
        "active": learner.active and learner.alive,
        "paused": learner.paused,
        "waiting": learner.waiting,
        "backlog": learner.backlog,
    }


def _posterior(monitor: PosteriorMonitor) -> Values | None:
    latest = monitor.latest
    if latest is None:
        return None
    return {
        "answers": len(monitor),
        "differs": monitor.differs,
        "weights": weights_in_words(latest),
    }


def _events(state: ServerStore) -> list[Values]:
    return [
        {
            "time": event.time,
            "kind": event.kind,
            "position": event.position,
            "version": event.version,
            "detail": event.detail,
        }
        for event in state.events(EVENTS)
    ]


def _versions(state: ServerStore, newest: int) -> tuple[list[Values], int]:
    """The newest kept versions with their first answer, and how many older ones are kept."""
    kept, total = kept_versions(state, VERSIONS)
    first = {number: (position, time) for number, position, time in kept}
    versions: list[Values] = []
    for number in [*sorted({*first, newest} - {0}, reverse=True), 0]:
        position, time = first.get(number, (None, None))
        versions.append(
            {
                "version": number,
                "position": position,
                "time": time,
                "kept": number == 0 or number in first,
                "current": number == newest,
            }
        )
    return versions, total - len(kept)
