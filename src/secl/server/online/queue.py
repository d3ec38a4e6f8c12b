"""Requests and their answers, the queue that is answered in batches, and the turns of the threads that compute.

Two simultaneous passes share the cores badly: each takes several times as long as a pass alone. Therefore answering and
writing take turns. Learning gets the idle time, and a share of the time under load.
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
from secl.model import Model
from secl.question import GivenAnswer, Question
from secl.records import Record
from secl.server.entries import new_record_id
from secl.writing import Piece

Asked = Question | GivenAnswer | ObjectRequest | CallRequest

Found = Record | Extraction | Calls | SeclError
"""A model's result for a request."""

GATHER = 0.005
"""Seconds that the first request waits for others. Clients whose answers shared a batch ask again at the same time."""

SLICE = 0.1
"""Shortest turn of a text, in seconds. With only one token between two batches, a text would take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of one served question, of one rated answer, or of one part of a structured answer.

    Attributes:
        record_id: random id, which the client gets.
        stored: whether the record is on disk. If not, the next record gets the same position.
        remark: sentence about the confidence; None without a remark.
    """

    record: Record
    record_id: str
    stored: bool
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request in the queue: a question, an answer to rate, an object to write, or tools to call.

    Attributes:
        future: an `Answer`; for an object or calls, a pair of the result and the answers for its rated parts. Without
            `rate`, the pair has no such answers.
        written: answer that the model has already written.
        rate: whether to rate and record the parts of an object or of calls.
    """

    asked: Asked
    written: str | Piece | None = None
    rate: bool = True
    future: Future[Any] = field(default_factory=Future)
    record_id: str = field(default_factory=new_record_id)

    @property
    def kind(self) -> tuple[type, bool]:
        """Kind of the request. Only requests of one kind share passes."""
        return type(self.asked), self.rate

    def check(self, model: Model) -> None:
        """Raise a `QuestionError` if a model cannot answer or rate the request."""
        if isinstance(self.asked, GivenAnswer):
            model.check_given(self.asked)
        elif isinstance(self.asked, Question) and self.written is None:
            model.check(self.asked)  # with a written text, the model has read the question already


def answer_together(calibrator: Calibrator, batch: Sequence[Request]) -> Sequence[Found]:
    """Return results for requests of one kind, which share passes; a failed request does not affect the others."""
    asked: list[Any] = [request.asked for request in batch]
    model: Any = calibrator.model
    match asked[0]:
        case GivenAnswer():
            return calibrator.rate_window(asked)
        case ObjectRequest():
            return [*weigh_objects(model, asked, calibrator.weigh, accept=calibrator.accept)]
        case CallRequest():
            return [*weigh_calls(model, asked, calibrator.weigh, accept=calibrator.accept)]
    return calibrator.answer_window(asked, [request.written for request in batch])


def records_of(found: Found, *, rate: bool) -> tuple[Record, ...]:
    """Return the records of a result: one record, or one for each rated part of an object or of calls; or none."""
    if isinstance(found, Record):
        return (found,)
    return found.records if rate and not isinstance(found, SeclError) else ()


class RequestQueue:
    """A queue of at most `most` requests, taken in batches of at most `batch` requests."""

    def __init__(self, most: int, batch: int) -> None:
        self.most, self.batch = most, batch
        self._requests: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: Request, *, full: bool = False) -> Future[Any]:
        """Add a request, with `full` even to a full queue. The returned future can be cancelled before its turn.

        Raises BusyError: the queue is full; ClosingError: the server is stopping.
        """
        with self._changed:
            if self._closed:
                raise ClosingError("the server is stopping; ask again when it is back.")
            if not full and len(self._requests) >= self.most:  # drop cancelled requests
                self._requests = deque(each for each in self._requests if not each.future.cancelled())
            if not full and len(self._requests) >= self.most:
                raise BusyError(f"{self.most} questions are waiting already; ask again in a moment.")
            self._requests.append(request)
            self._changed.notify_all()
        return request.future

    def wait(self) -> bool:
        """Wait for a request, then a moment for further requests; return False once the closed queue is empty."""
        with self._changed:
            while not self._requests and not self._closed:
                self._changed.wait()
            if self._requests:
                self._changed.wait_for(lambda: self._closed or len(self._requests) >= self.batch, GATHER)
            return bool(self._requests)

    def take(self) -> list[Request]:
        """Return the next batch: requests of one kind that are not cancelled."""
        taken: list[Request] = []
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

    After each turn, learning gets a `share`, in [0, 1), of the turn's time.
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
        """Within the block, the calling thread computes a batch of answers."""
        with self._turn():
            yield
        self._batch = self._took

    @contextmanager
    def writing(self, texts: int) -> Iterator[float]:
        """Within the block, one of `texts` texts has its turn; yield the turn's length in seconds.

        All texts together get the time of the latest batch, but each at least `SLICE`.
        """
        with self._turn():
            yield max(SLICE, self._batch / texts)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Within the block, the calling thread has its turn: in order of arrival, after a lesson's share of time."""
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
        """Within the block, the calling thread runs a lesson."""
        self._training = True
        try:
            yield
        finally:
            with self._changed:
                self._interrupted = self._training = False
                self._changed.notify_all()

    def wait(self) -> None:
        """Block a lesson while another thread has its turn. Raises GivenUpError: the lesson must end."""
        with self._changed:
            while self._answering and not self._interrupted:
                self._changed.wait()
            if self._interrupted:
                raise GivenUpError

    def interrupt(self) -> None:
        """End the running or the next lesson at its next layer."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
