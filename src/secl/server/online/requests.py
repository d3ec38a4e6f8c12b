"""A question in a service's queue, and what comes of it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from secl.evaluation.trust import Verdict
from secl.records import Question, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of one served question.

    Attributes:
        record: the reply with everything known about it so far.
        stored: whether the record is on disk; if not, its position will be used again.
        batch: how many questions were answered in the same pass.
        seconds: from the request to the reply.
        remark: what one must know to read its confidence, in one sentence; None if there is nothing to say.
        verdict: on the confidences of the latest answers, this one among them if it is stored.
    """

    record: Record
    stored: bool
    batch: int
    seconds: float
    remark: str | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question in the queue.

    Attributes:
        question: as asked.
        time: when it was asked (`time.perf_counter`).
        future: receives the answer.
    """

    question: Question
    time: float
    future: Future[Answer]
