"""Requests, their answers, the request queue, and a scheduler, which decides which thread computes.

Two simultaneous passes slow each other down on the same cores: each takes several times as long as a pass alone.
Therefore threads that answer or write take turns. A lesson runs while no other thread computes. Under load, the
scheduler delays each turn a little, so that learning gets a share of the time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from secl.calibrator import Calibrator
from secl.errors import BusyError, ClosingError, GivenUpError, SeclError
from secl.fields.calls import Calls, weigh_calls
from secl.fields.extraction import Extraction, ObjectRequest, weigh_objects
from secl.fields.tools import CallRequest
from secl.model import Model, check_given
from secl.question import GivenAnswer, Question
from secl.records import Record
from secl.server.entries import new_record_id
from secl.writing import Chunk

Asked = Question | GivenAnswer | ObjectRequest | CallRequest

Found = Record | Extraction | Calls | SeclError
"""A model's result for a request."""

GATHER = 0.005
"""Seconds that the first request of a batch waits for more requests.

Clients that get their answers from one batch often send their next requests at the same time.
"""

SLICE = 0.1
"""Minimum length of a turn for writing, in seconds.

If a turn had time for only one token, a text would take too long on a server with many questions.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAnswer:
    """Result of one served question, of one rated answer, or of one part of a structured answer.

    Attributes:
        record_id: random id, which the client gets.
        stored: whether the record is on disk. If not, the next record gets the same position.
        caveat: why the confidence is missing or not from the posterior (`secl.explain.caveat`).
    """

    record: Record
    record_id: str
    stored: bool
    caveat: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A request in the queue: a question, an answer to rate, an object to write, or tools to call.

    Attributes:
        future: gives a `ServedAnswer`; for an object or calls, gives a pair: `Extraction` or `Calls`, and a tuple of an
            `ServedAnswer` for each rated part. Without `rate`, this tuple is empty.
        written: answer that the model has already written; None if the model must still write it.
        rate: whether to rate and record the parts of an object or of calls.
    """

    asked: Asked
    written: str | Chunk | None = None
    rate: bool = True
    future: Future[Any] = field(default_factory=Future)
    record_id: str = field(default_factory=new_record_id)

    @property
    def kind(self) -> tuple[type, bool]:
        """Type of the request, and `rate`. A batch has only requests of one kind."""
        return type(self.asked), self.rate

    def check(self, model: Model) -> None:
        """Raise a `QuestionError` if a model cannot answer or rate the request."""
        if isinstance(self.asked, GivenAnswer):
            check_given(model, self.asked)
        elif isinstance(self.asked, Question) and self.written is None:
            model.check(self.asked)  # if an answer is written, the model has already read the question


def answer_together(calibrator: Calibrator, batch: Sequence[QueuedRequest]) -> Sequence[Found]:
    """Compute the results of requests of one kind in shared passes. The result of a failed request is its error."""
    asked: list[Any] = [request.asked for request in batch]
    model: Any = calibrator.model
    match asked[0]:
        case GivenAnswer():
            return calibrator.rate_window(asked)
        case ObjectRequest():
            return [*weigh_objects(model, asked, calibrator.weigh, lambda: calibrator.accept)]
        case CallRequest():
            return [*weigh_calls(model, asked, calibrator.weigh, lambda: calibrator.accept)]
    return calibrator.answer_window(asked, [request.written for request in batch])


def records_of(found: Found, *, rate: bool) -> tuple[Record, ...]:
    """Return the records to store for a result; () for an error, or for an object or calls if `rate` is false."""
    if isinstance(found, Record):
        return (found,)
    return found.records if rate and not isinstance(found, SeclError) else ()


class RequestQueue:
    """A queue of at most `most` requests, taken in batches of at most `batch` requests."""

    def __init__(self, most: int, batch: int) -> None:
        self.most, self.batch = most, batch
        self._requests: deque[QueuedRequest] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: QueuedRequest, *, full: bool = False) -> Future[Any]:
        """Add a request and return its future, which the client can cancel before `take`.

        `full`: add the request even if the queue is full. Raises BusyError: the queue is full; ClosingError: the server
        is stopping.
        """
        with self._changed:
            if self._closed:
                raise ClosingError("the server is stopping; ask again when it is back.")
            if not full and len(self._requests) >= self.most:  # cancelled requests must not fill the queue
                self._requests = deque(each for each in self._requests if not each.future.cancelled())
            if not full and len(self._requests) >= self.most:
                raise BusyError(f"{self.most} questions are waiting already; ask again in a moment.")
            self._requests.append(request)
            self._changed.notify_all()
        return request.future

    def wait(self) -> bool:
        """Wait for a request, then up to `GATHER` seconds for more; return False if the queue is closed and empty."""
        with self._changed:
            while not self._requests and not self._closed:
                self._changed.wait()
            if self._requests:
                self._changed.wait_for(lambda: self._closed or len(self._requests) >= self.batch, GATHER)
            return bool(self._requests)

    def take(self) -> list[QueuedRequest]:
        """Return the next batch: requests of one kind that are not cancelled."""
        taken: list[QueuedRequest] = []
        with self._changed:
            waiting = self._requests
            while waiting and len(taken) < self.batch and (not taken or waiting[0].kind == taken[0].kind):
                taken.append(waiting.popleft())
        return [request for request in taken if request.future.set_running_or_notify_cancel()]

    def close(self) -> None:
        """Refuse further requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Scheduler:
    """Lets one thread learn while other threads answer and write in turns.

    While a lesson runs, a new turn begins only after a pause, in which the lesson computes. The pause begins at the end
    of the previous turn and lasts `share` (in [0, 1)) of that turn's duration.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share
        self._clock = clock
        self._changed = threading.Condition()
        self._turns: deque[object] = deque()
        self._answering = self._training = self._interrupted = False
        self._ended, self._took, self._batch = clock(), 0.0, 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Give the calling thread a turn for a batch of answers."""
        with self._turn():
            yield
        self._batch = self._took

    @contextmanager
    def writing(self, texts: int) -> Iterator[float]:
        """Give the calling thread a turn for a text, one of `texts`; yield the planned duration of the turn in seconds.

        The duration is the time of the latest batch divided by `texts`, but at least `SLICE`.
        """
        with self._turn():
            yield max(SLICE, self._batch / texts)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Give the calling thread a turn for the block, in order of arrival, after the pause for learning."""
        with self._changed:
            turn = object()
            self._turns.append(turn)
            while self._turns[0] is not turn:
                self._changed.wait()
            until = self._ended + self.share * self._took
            while self._training and (remaining := until - self._clock()) > 0:
                self._changed.wait(remaining)
            self._answering, began = True, self._clock()
        try:
            yield
        finally:
            with self._changed:
                self._turns.popleft()
                self._answering, self._ended = False, self._clock()
                self._took = self._ended - began
                self._changed.notify_all()

    @contextmanager
    def training(self) -> Iterator[None]:
        """Mark the body of the `with` statement as a lesson; the calling thread runs this lesson."""
        self._training = True
        try:
            yield
        finally:
            with self._changed:
                self._interrupted = self._training = False
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait inside a lesson while another thread has a turn. Raises GivenUpError: `interrupt` ended the lesson."""
        with self._changed:
            while self._answering and not self._interrupted:
                self._changed.wait()
            if self._interrupted:
                raise GivenUpError

    def interrupt(self) -> None:
        """Make the running lesson, or else the next lesson, end at its next layer, which calls `wait`."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
