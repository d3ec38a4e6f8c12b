"""What a server is doing now, as plain values: for the page, and for `/v1/state`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from secl.evaluation.json_values import defined
from secl.metrics.calibration import brier, ece
from secl.server.entries import Values
from secl.server.history import versions
from secl.server.http.health import problems
from secl.server.online.service import Service
from secl.server.records import labelled_answers, latest_points
from secl.server.settings import MAX_DRIFT, public_name
from secl.server.store import ServerStore, at_one_moment

POINTS = 300
"""Latest answers in the timeline."""

VERSIONS = 8
"""Kept adapter versions that are listed, the newest ones."""

LABELLED = 1000
"""Latest labelled answers that the measures are about."""

EVENTS = 20
"""Events that are listed, the latest ones."""


def view(service: Service) -> Values:
    """What a service, running or not, is doing now. What it reads depends on no number of records.

    Returns:
        version: of the latest answer. newest: of the next one. in_burst, remaining, statistic: the gate's decision on
        the latest answer. problems: what does not work, one sentence each. failed_requests, unreadable: unexpected
        exceptions, and answers that could not be read, since the start. drift: of the weights, with the bound beyond
        which learning pauses. lessons: how many records have each outcome. timeline: the latest answers, the oldest
        first. feedback: what people's words say. versions: the newest kept ones, the newest first and the untouched
        model last. events: the latest ones, the oldest first. The other names say what they are.
    """
    learner, decision = service.learner, service.decision
    verdict, newest = service.monitor.verdict, service.learner.model.version
    with at_one_moment(service.state.folder) as reader:
        labelled = labelled_answers(reader, LABELLED)
        stored: Values = {
            "lessons": reader.counts(),
            "timeline": latest_points(reader, POINTS),
            "versions": _versions(reader, newest),
            "events": [event.to_json() for event in reader.events(EVENTS)],
        }
    drawn = sum(chance is not None for *_, chance in labelled)
    return stored | {
        "model": public_name(service.model.name),
        "answers": service.position,
        "version": service.model.version,
        "newest": newest,
        "in_burst": decision is not None and decision.in_burst,
        "remaining": decision.remaining if decision is not None else 0,
        "statistic": defined(decision.statistic) if decision is not None else None,
        "learning": {
            "on": learner.calibrator.learns,
            "paused": learner.paused,
            "waiting": learner.waiting,
        },
        "problems": problems(service, details=True),
        "verdict": {
            "level": verdict.level,
            "questions": verdict.questions,
            "graded": verdict.graded,
            "reasons": [asdict(reason) for reason in verdict.reasons],
        },
        "failed_requests": service.failures,
        "drift": defined(learner.relative_norm),
        "drift_bound": MAX_DRIFT,
        "unreadable": service.unreadable,
        "waiting": service.waiting,
        "keep_text": service.state.keep_text,
        "feedback": feedback([(confidence, right) for confidence, right, *_ in labelled], drawn),
    }


def feedback(labelled: Sequence[tuple[float, bool]], drawn: int = 0) -> Values:
    """What labels, of which `drawn` were drawn with a known chance, say about the reported confidences.

    >>> measures = feedback([(0.75, True), (0.75, False)])
    >>> measures["n"], measures["ece"], measures["accuracy"]
    (2, 0.25, 0.5)
    """
    confidence, correct = [reported for reported, _ in labelled], [right for _, right in labelled]
    return {
        "n": len(labelled),
        "drawn": drawn,
        "ece": defined(ece(confidence, correct)),
        "brier": defined(brier(confidence, correct)),
        "accuracy": float(np.mean(correct)) if labelled else None,
    }


def _versions(state: ServerStore, newest: int) -> list[Values]:
    """The newest kept versions with their first answer, that of the next answer, and the untouched model."""
    first = {each["version"]: each for each in versions(state, VERSIONS)}
    listed: list[Values] = []
    for number in [*sorted({*first, newest} - {0}, reverse=True), 0]:
        place = {name: first[number][name] if number in first else None for name in ("position", "time")}
        usable = {"kept": number == 0 or number in first, "current": number == newest}
        listed.append({"version": number, **place, **usable})
    return listed
