"""Free answers: several texts are written at once, token by token, between the passes that answer."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import zip_longest

from secl.errors import BusyError
from secl.model import Model
from secl.question import Question
from secl.server.online.queue import Answer, Request, RequestQueue
from secl.server.online.scheduler import Scheduler
from secl.writing import Piece, Writing, Written

OnPiece = Callable[[Piece], None]


class TextWriters:
    """Writes texts in threads of their own, and then has each answered for like any other question.

    A model in this process takes its turn for a few tokens, so that nobody waits for the end of somebody else's page;
    one that writes elsewhere needs no turn.

    Args:
        model: writes.
        scheduler: gives the turns.
        queue: of the answers; as many requests as it has room for may wait to be written.
        most: requests that are written at once.

    Attributes:
        promised: names of records that are still to come.
    """

    def __init__(self, model: Model, scheduler: Scheduler, queue: RequestQueue, most: int) -> None:
        self.model, self.scheduler, self.queue = model, scheduler, queue
        self.promised: set[str] = set()
        self._most = most + queue.most
        self._active = self._writing = 0
        self._changed = threading.Lock()
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="secl-texts")

    @property
    def active(self) -> int:
        """Requests that are written, or wait for it."""
        return self._active

    def submit(
        self, question: Question, writing: Writing, on_piece: OnPiece, names: Sequence[str] = (), *, rate: bool = True
    ) -> Future[tuple[Answer, ...]]:
        """Have texts written and answered for; arguments, result and errors as of `Service.write`."""
        with self._changed:
            if self._active >= self._most:
                raise BusyError(f"{self._active} texts are being written already; ask again in a moment.")
            self._active += 1
        future: Future[tuple[Answer, ...]] = Future()

        def work() -> None:
            with self._changed:
                self._writing += 1
            try:
                texts = None if future.cancelled() else self._written(question, writing, on_piece, future)
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
                    self._writing -= 1
                    self._active -= 1

        self._pool.submit(work)
        return future

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
        """Finish what was begun."""
        self._pool.shutdown()

    def _written(
        self, question: Question, writing: Writing, on_piece: OnPiece, future: Future[tuple[Answer, ...]]
    ) -> list[str] | None:
        """The texts; None if nobody wants them any more."""
        pieces: list[Piece] = []
        with self._turn():
            coming = self.model.write(question, writing)
        while True:
            with self._turn() as seconds:
                until = time.monotonic() + seconds
                for piece in coming:
                    if future.cancelled():
                        return None
                    pieces.append(piece)
                    on_piece(piece)
                    if time.monotonic() >= until:
                        break
                else:
                    return [each.text for each in Written.of(pieces)]

    def _turn(self) -> AbstractContextManager[float]:
        if self.model.writes_apart:
            return contextlib.nullcontext(math.inf)
        return self.scheduler.writing(self._writing)


def _settle(settle: Callable[..., None], outcome: object) -> None:
    with contextlib.suppress(InvalidStateError):  # cancelled meanwhile: nobody wants it
        settle(outcome)
