"""Free answers: several texts are written at once, token by token, between the passes that answer."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import zip_longest

from secl.errors import BusyError, ClosingError
from secl.model import Model
from secl.question import Question
from secl.server.online.queue import Answer, Request, RequestQueue
from secl.server.online.scheduler import Scheduler
from secl.writing import Piece, Writing, Written

OnPiece = Callable[[Piece], None]
Texts = Future[tuple[Answer, ...]]


class TextWriters:
    """Writes texts in threads of their own, and then has each answered for like any other question.

    A model in this process takes its turn for a few tokens, so that nobody waits for the end of somebody else's page;
    one that writes elsewhere needs no turn.

    Args:
        queue: of the answers; as many requests as it has room for may wait to be written.
        most: requests that are written at once, as far as there is memory for their texts.

    Attributes:
        promised: names of records that are still to come.
    """

    def __init__(self, model: Model, scheduler: Scheduler, queue: RequestQueue, most: int) -> None:
        self.model, self.scheduler, self.queue = model, scheduler, queue
        self.promised: set[str] = set()
        self._most, self._places = most, most + queue.most
        self._waiting: dict[Texts, Callable[[], None]] = {}
        self._begun = 0
        self._shares: dict[Texts, float] = {}
        self._stopping = False
        self._changed, self._entering = threading.Condition(), threading.Lock()
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="secl-texts")

    @property
    def active(self) -> int:
        """Requests that are written, or wait for it."""
        return len(self._waiting) + self._begun

    def submit(
        self, question: Question, writing: Writing, on_piece: OnPiece, names: Sequence[str] = (), *, rate: bool = True
    ) -> Texts:
        """Have texts written and answered for; arguments, result and errors as of `Service.write`."""
        future = Texts()

        def work() -> None:
            try:
                texts = self._written(question, writing, on_piece, future)
                if texts is not None:
                    requests = [
                        Request(asked=question, future=Future(), written=text, name=name)
                        for text, name in zip_longest(texts if rate else (), names)
                    ]
                    _settle(future.set_result, self._answered(requests))
            except Exception as problem:
                _settle(future.set_exception, problem)
            finally:
                with self._changed:
                    self._begun -= 1
                    self._begin()

        with self._changed:
            if self._stopping:
                raise ClosingError("the server is stopping; ask again when it is back.")
            if self.active >= self._places:
                raise BusyError(f"{self.active} texts are being written already; ask again in a moment.")
            self._waiting[future] = work
            self._begin()
        future.add_done_callback(self._leave)
        return future

    def _begin(self) -> None:
        """Begin what waits, as far as threads are free; the caller holds the lock."""
        while self._waiting and self._begun < self._most:
            self._pool.submit(self._waiting.pop(next(iter(self._waiting))))
            self._begun += 1
        self._changed.notify_all()

    def _leave(self, future: Texts) -> None:
        """Give up the place of a request that is done, or cancelled."""
        with self._changed:
            self._waiting.pop(future, None)
            self._changed.notify_all()

    def _answered(self, requests: Sequence[Request]) -> tuple[Answer, ...]:
        """The answers to what was written, once they are there; until then their records are promised."""
        names = {request.name for request in requests if request.name is not None}
        self.promised |= names
        try:
            waiting = [self.queue.put(request, full=True) for request in requests]  # their turn was when they began
            return tuple(each.result() for each in waiting)
        finally:
            self.promised -= names

    def stop(self) -> None:
        """Finish what was begun, and what waits."""
        with self._changed:
            self._stopping = True
            self._changed.wait_for(lambda: not self.active)
        self._pool.shutdown()

    def _written(self, question: Question, writing: Writing, on_piece: OnPiece, future: Texts) -> list[str] | None:
        """The texts; None if nobody wants them any more."""
        pieces: list[Piece] = []
        with self._turn():
            share, coming = self.model.memory_share(question, writing), self.model.write(question, writing)
        with self._room(share, future):
            while not future.cancelled():
                with self._turn() as seconds:
                    until = time.monotonic() + seconds
                    for piece in coming:
                        if future.cancelled():
                            break
                        pieces.append(piece)
                        on_piece(piece)
                        if time.monotonic() >= until:
                            break
                    else:
                        return [each.text for each in Written.of(pieces)]
        return None

    @contextlib.contextmanager
    def _room(self, share: float, future: Texts) -> Iterator[None]:
        """Context with memory for texts; requests wait for it in turn, so that none overtakes a large one for ever."""
        with self._entering, self._changed:
            self._changed.wait_for(
                lambda: future.cancelled() or not self._shares or sum(self._shares.values()) + share <= 1
            )
            self._shares[future] = share
        try:
            yield
        finally:
            with self._changed:
                del self._shares[future]
                self._changed.notify_all()

    def _turn(self) -> AbstractContextManager[float]:
        if self.model.writes_apart:
            return contextlib.nullcontext(math.inf)
        return self.scheduler.writing(max(1, len(self._shares)))


def _settle(settle: Callable[..., None], outcome: object) -> None:
    with contextlib.suppress(InvalidStateError):  # cancelled meanwhile: nobody wants it
        settle(outcome)
