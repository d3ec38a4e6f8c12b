"""Shapes of what the page and `/v1/state` show: plain values, made in `secl.server.http.dashboard.view`."""

from __future__ import annotations

from typing import TypedDict

from secl.server.audit.redaction import Keep


class Point(TypedDict):
    """One answer in the timeline, with the confidence that was reported.

    `entropy` is None where it is not finite, `correct` where nobody said anything, `accepted` without a threshold.
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
    accepted: bool | None


class Listed(Point):
    """A record in a list, with the beginnings of its texts as they are kept."""

    record_id: str
    domain: str
    question: str
    answer: str


class ReliabilityBin(TypedDict):
    """Labelled answers with reported confidence in [lo, hi): how many, mean confidence, accuracy and its 95% interval.

    The last four are None where there are none.
    """

    lo: float
    hi: float
    count: int
    confidence: float | None
    accuracy: float | None
    low: float | None
    high: float | None


class RiskPoint(TypedDict):
    """Labelled answers with at least this confidence: their share of all labelled ones, how many they are, how many of
    these are wrong, and the upper bound of the share of wrong ones at a certainty of 90 %."""

    confidence: float
    coverage: float
    labels: int
    wrong: int
    upper: float


class FeedbackView(TypedDict):
    """What people's words say about the reported confidence.

    Attributes:
        n: latest labelled answers. The measures are None where it is 0.
        drawn: how many of them were drawn with a known chance; people chose the others.
        bins: ten, lowest first.
        risk: the surest answers first.
    """

    n: int
    drawn: int
    ece: float | None
    brier: float | None
    accuracy: float | None
    bins: list[ReliabilityBin]
    risk: list[RiskPoint]


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
        differs: share of them whose most probable candidate is not the model's own answer.
        weights: of the latest, in words.
    """

    answers: int
    differs: float | None
    weights: str


class ReasonView(TypedDict):
    """A reason of a verdict: a code, "note", "doubt" or "stop", and a sentence."""

    code: str
    severity: str
    sentence: str


class VerdictView(TypedDict):
    """Whether confidences may be acted on, of how many answers, how many of them labelled, and why."""

    level: str
    questions: int
    graded: int
    reasons: list[ReasonView]


class Now(TypedDict):
    """The part of a view that is in memory; `View` says what each is."""

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
    verdict: VerdictView
    failed_requests: int
    failed_lessons: int
    drift: float | None
    drift_bound: float
    shift: float | None
    shift_bound: float
    posterior: PosteriorView | None
    unreadable: int
    queue: QueueView
    keep_text: Keep
    accept: float | None


class View(Now):
    """What a service is doing now.

    Attributes:
        model: its name.
        started: when, in seconds since 1970.
        answers: how many were ever given.
        version: of the latest answer. `newest`: of the next one.
        in_burst, remaining, statistic: the gate's decision on the latest answer.
        problems: what does not work, one sentence each.
        verdict: whether the confidences of the latest answers may be acted on.
        failed_requests, failed_lessons: unexpected exceptions since the start.
        drift, shift: of the weights and of the stated confidence, each with the bound that pauses learning.
        posterior: None where no answer has one.
        lessons: how many records there are with each outcome.
        unreadable: answers since the start that could not be read.
        keep_text: what is stored of texts.
        accept: the threshold; None without one.
        timeline: the latest answers, the oldest first.
        latest: the last few of them, the newest first.
        versions: the newest kept versions, the newest first and the untouched model last; `older` counts the rest.
        events: the latest ones, the oldest first.
    """

    lessons: dict[str, int]
    timeline: list[Point]
    latest: list[Listed]
    feedback: FeedbackView
    versions: list[VersionView]
    older: int
    events: list[EventView]
