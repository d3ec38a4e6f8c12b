"""What a server is doing now, as plain values: for the page, and for `/v1/state`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from secl.evaluation.json_values import defined
from secl.evaluation.trust import Verdict
from secl.metrics.calibration import Bin, brier, ece, reliability
from secl.metrics.shares import wilson
from secl.server.entries import Values
from secl.server.explain import weights_in_words
from secl.server.history import kept_versions
from secl.server.http.health import problems
from secl.server.online.learner import Learner
from secl.server.online.monitors import PosteriorMonitor
from secl.server.online.service import Service
from secl.server.records import Search, latest_points, listed, search
from secl.server.settings import public_name
from secl.server.store import ServerStore, at_one_moment

VERSIONS = 8
"""Kept adapter versions that are listed, the newest ones."""

LATEST = 8
"""Answers that are listed with their texts."""

LABELLED = 1000
"""Latest labelled answers that reliability is about."""

EVENTS = 20
"""Events that are listed, the latest ones."""


def view(service: Service, count: int = 300, now: Values | None = None) -> Values:
    """What a service is doing now. What it reads depends on no number of records.

    Args:
        service: running or not.
        count: most answers in the timeline.
        now: its part in memory, if that is known already.

    Returns:
        `now_of`, and: lessons, how many records have each outcome; timeline, the latest answers, the oldest first, and
        latest, the last few of them with their texts, the newest first; feedback, what people's words say; versions,
        the newest kept ones, the newest first and the untouched model last, of which `older` counts the rest; events,
        the latest ones, the oldest first.
    """
    current = now_of(service) if now is None else now
    with at_one_moment(service.state.folder) as reader:
        points = latest_points(reader, count)
        latest = listed(reader, search(reader, Search(count=LATEST)).positions)
        labelled = reader.labelled(LABELLED)
        lessons, events = reader.counts(), [event.to_json() for event in reader.events(EVENTS)]
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
    """The part of a view that needs no file.

    Returns:
        version: of the latest answer. newest: of the next one. in_burst, remaining, statistic: the gate's decision on
        the latest answer. problems: what does not work, one sentence each. failed_requests, failed_lessons: unexpected
        exceptions since the start. drift, shift: of the weights and of the stated confidence, each with the bound that
        pauses learning. unreadable: answers since the start that could not be read. The other names say what they are.
    """
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


def _versions(state: ServerStore, newest: int) -> tuple[list[Values], int]:
    """The newest kept versions with their first answer, and how many older ones are kept."""
    kept = kept_versions(state, VERSIONS)
    first = {number: (position, time) for number, position, time, _ in kept}
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
    ((total,),) = state.rows("SELECT count(*) FROM versions")
    return versions, total - len(kept)
