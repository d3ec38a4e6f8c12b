"""The current state of a server, for the page and `/v1/state`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from secl.evaluation.json_values import defined
from secl.evaluation.symptoms import Code, Severity
from secl.evaluation.trust import Level
from secl.metrics.measures import brier, ece
from secl.reports.verdict import sentence_of
from secl.server.entries import Event, Keep
from secl.server.http.health import problems
from secl.server.online.service import Service
from secl.server.records import Point, labelled_answers, latest_points
from secl.server.settings import MAX_DRIFT, public_name
from secl.server.store import ServerStore, at_one_moment

POINTS = 300
"""Latest answers in the timeline."""

VERSIONS = 8
"""Newest kept versions to list."""

LABELLED = 1000
"""Latest labelled answers for the measures."""

EVENTS = 20
"""Latest events to list."""


class VersionRow(BaseModel):
    """A version of the weights, with position and time of its first answer."""

    version: int
    position: int | None = None
    time: float | None = None


class Learning(BaseModel):
    """State of learning.

    version: of the next answer. waiting: number of pending lessons. in_burst, remaining, statistic: the gate's decision
    on the latest answer. drift: norm of the learned change over the norm of the weights. lessons: number of records by
    outcome. versions: the newest kept versions, the newest first, the frozen model last.
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
    """Measures of the reported confidences on the latest labelled answers; drawn: labels with a known chance."""

    count: int
    drawn: int
    accuracy: float | None
    brier: float | None
    ece: float | None


class Why(BaseModel):
    """A reason for a verdict, as a code and in words."""

    code: Code
    severity: Severity
    sentence: str


class Trust(BaseModel):
    """Verdict on the confidences of the latest answers; graded: number of labels."""

    level: Level
    questions: int
    graded: int
    reasons: list[Why]


class State(BaseModel):
    """The present state of a server.

    version: of the latest answer. waiting: questions in the queue. failed_requests, unreadable: unexpected exceptions
    and unreadable answers since the start. timeline, events: the latest answers and events, the oldest first. learning:
    null if the server does not learn.
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
    learning: Learning | None


def view(service: Service) -> State:
    """Return the present state of a service, in a time that does not depend on the number of records."""
    verdict = service.verdict
    with at_one_moment(service.state.folder) as reader:
        labelled = labelled_answers(reader, LABELLED)
        timeline, events = latest_points(reader, POINTS), reader.events(EVENTS)
        learning = _learning(service, reader) if service.learner.calibrator.learns else None
    return State(
        model=public_name(service.model.name),
        answers=service.position,
        version=service.model.version,
        waiting=service.waiting,
        failed_requests=service.failures,
        unreadable=service.unreadable,
        problems=problems(service, details=True),
        keep_text=service.state.keep_text,
        accept=service.calibrator.accept,
        verdict=Trust(
            level=verdict.level,
            questions=verdict.questions,
            graded=verdict.graded,
            reasons=[Why(code=r.code, severity=r.severity, sentence=sentence_of(r)) for r in verdict.reasons],
        ),
        labels=measured(labelled),
        timeline=timeline,
        events=events,
        learning=learning,
    )


def measured(labelled: Sequence[tuple[float, bool, float, float | None]]) -> Labels:
    """Return measures on the results of `labelled_answers`.

    >>> measured([(0.75, True, 0.5, None), (0.75, False, 0.5, 1.0)]).ece
    0.25
    """
    confidence, correct = [label[0] for label in labelled], [label[1] for label in labelled]
    return Labels(
        count=len(labelled),
        drawn=sum(chance is not None for *_, chance in labelled),
        accuracy=float(np.mean(correct)) if labelled else None,
        brier=defined(brier(confidence, correct)),
        ece=defined(ece(confidence, correct)),
    )


def _learning(service: Service, reader: ServerStore) -> Learning:
    learner, gate = service.learner, service.calibrator.state.decision
    newest, kept = learner.model.version, {each["version"]: each for each in reader.kept_versions(VERSIONS)}
    numbers = [*sorted({*kept, newest} - {0}, reverse=True), 0]
    rows = [VersionRow(**kept.get(number, {"version": number})) for number in numbers]
    return Learning(
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
