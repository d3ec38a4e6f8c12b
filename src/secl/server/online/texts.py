"""Free answers: several texts are written at once, token by token, between the passes that answer."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from secl.errors import BusyError
from secl.model import Model
from secl.question import Question
from secl.server.online.scheduler import Scheduler
from secl.writing import Piece, Writing, Written

OnPiece = Callable[[Piece], None]
T = TypeVar("T")


class TextWriters:
    """Writes texts in threads of their own.

    A model in this process takes its turn for a few tokens, so that nobody waits for the end of somebody else's page;
    one that writes elsewhere needs no turn.

    Args:
        model: writes.
        scheduler: gives the turns.
        most: requests that are written at once.
        queue: requests that may wait beyond them.
    """

    def __init__(self, model: Model, scheduler: Scheduler, most: int, queue: int) -> None:
        self.model, self.scheduler = model, scheduler
        self._most = most + queue
        self._active = self._writing = 0
        self._changed = threading.Lock()
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="secl-texts")

    @property
    def active(self) -> int:
        """Requests that are written, or wait for it."""
        return self._active

    def submit(
        self, question: Question, writing: Writing, on_piece: OnPiece, then: Callable[[tuple[Written, ...]], T]
    ) -> Future[T]:
        """Have texts written; a future that is cancelled stops before its next token.

        Args:
            question: of a free form.
            writing: how.
            on_piece: is called with every piece, in a thread of its own; what it raises ends the texts.
            then: what comes of the finished texts is what it makes of them.

        Raises:
            BusyError: too many wait.
        """
        with self._changed:
            if self._active >= self._most:
                raise BusyError(f"{self._active} texts are being written already; ask again in a moment.")
            self._active += 1
        future: Future[T] = Future()

        def work() -> None:
            with self._changed:
                self._writing += 1
            try:
                written = None if future.cancelled() else self._written(question, writing, on_piece, future)
                if written is not None:
                    _settle(future.set_result, then(written))
            except Exception as problem:
                _settle(future.set_exception, problem)
            finally:
                with self._changed:
                    self._writing -= 1
                    self._active -= 1

        self._pool.submit(work)
        return future

    def stop(self) -> None:
        """Finish what was begun."""
        self._pool.shutdown()

    def _written(
        self, question: Question, writing: Writing, on_piece: OnPiece, future: Future[Any]
    ) -> tuple[Written, ...] | None:
        """The texts; None if nobody wants them any more."""
        pieces: list[Piece] = []
        with contextlib.closing(self._pieces(question, writing)) as written:
            for piece in written:
                if future.cancelled():
                    return None
                pieces.append(piece)
                on_piece(piece)
        return Written.of(pieces)

    def _pieces(self, question: Question, writing: Writing) -> Generator[Piece]:
        with self._turn():
            pieces = self.model.write(question, writing)
        while True:
            with self._turn() as seconds:
                until = time.monotonic() + seconds
                for piece in pieces:
                    yield piece
                    if time.monotonic() >= until:
                        break
                else:
                    return

    def _turn(self) -> AbstractContextManager[float]:
        if self.model.writes_apart:
            return contextlib.nullcontext(math.inf)
        return self.scheduler.writing(self._writing)


def _settle(settle: Callable[..., None], outcome: object) -> None:
    with contextlib.suppress(InvalidStateError):  # cancelled meanwhile: nobody wants it
        settle(outcome)
