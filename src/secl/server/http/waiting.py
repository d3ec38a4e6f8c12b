"""What a request waits for: an answer, or the pieces of its texts, until a timeout or until the client has gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import TypeVar

from fastapi import Request

from secl.errors import QuestionError, RequestError, SeclError, UnavailableError
from secl.question import GivenAnswer, Question
from secl.server.entries import promised_name
from secl.server.http.errors import RETRY_SOON, describe_failure, to_request_error
from secl.server.online.queue import Answer
from secl.server.online.service import Service
from secl.writing import Piece, Writing, Written

log = logging.getLogger("secl.server")

T = TypeVar("T")


async def wait_for_answer(service: Service, asked: Question | GivenAnswer, request: Request, timeout: float) -> Answer:
    """Ask a question, or have an answer rated, and wait until the timeout or until the client disconnects.

    Raises:
        RequestError: 499, 503 or 500; of an unexpected exception nothing but its type and place is logged.
        QuestionError: the model cannot answer this question.
    """
    future = asyncio.wrap_future(service.submit(asked))

    async def answer() -> Answer:
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise _too_late(timeout, "answer") from None
        except Exception as problem:
            raise _of_service(problem) from None

    return await unless_gone(request, answer())


class Texts:
    """Texts that are written for one request; `timeout` seconds may pass before each piece.

    Attributes:
        names: under which their records can be asked for before they are there; none without confidences.
    """

    def __init__(self, service: Service, question: Question, writing: Writing, timeout: float, *, rate: bool) -> None:
        loop = asyncio.get_running_loop()
        self.writing, self._timeout = writing, timeout
        self.names = [promised_name() for _ in range(writing.n if rate else 0)]
        self._seen: list[Piece] = []
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._ahead: list[Piece | None] = []

        def on_piece(piece: Piece) -> None:
            loop.call_soon_threadsafe(self._pieces.put_nowait, piece)

        self._answers = asyncio.wrap_future(service.write(question, writing, on_piece, self.names, rate=rate))
        # The loop comes to this after all pieces, which the same thread has sent before.
        self._answers.add_done_callback(lambda _: self._pieces.put_nowait(None))

    async def begin(self) -> None:
        """Wait for the first piece.

        Raises:
            RequestError: as `wait_for_answer`.
            QuestionError: the model cannot answer this question.
        """
        self._ahead.append(await self._next())

    async def pieces(self) -> AsyncIterator[Piece]:
        """The pieces as they come, until all texts are at their end; errors as in `begin`."""
        unfinished = self.writing.n
        while unfinished and (piece := self._ahead.pop() if self._ahead else await self._next()) is not None:
            unfinished -= piece.finish is not None
            yield piece

    @property
    def written(self) -> tuple[Written, ...]:
        """What the pieces make up that have come so far."""
        return Written.of(self._seen)

    async def answers_within(self, seconds: float) -> tuple[Answer, ...] | None:
        """The answers, if they are there by then, and none if none are wanted; errors as in `begin`."""
        await asyncio.wait([self._answers], timeout=seconds)
        return self._result() if self._answers.done() else None

    async def answers(self) -> tuple[Answer, ...]:
        """The answers, once everything is written; errors as in `begin`."""
        while await self._next() is not None:
            pass
        return self._result()

    def cancel(self) -> None:
        """Write no more; what has been written to its end becomes a record all the same."""
        self._answers.cancel()

    async def _next(self) -> Piece | None:
        try:
            async with asyncio.timeout(self._timeout):
                piece = await self._pieces.get()
        except TimeoutError:
            self.cancel()
            raise _too_late(self._timeout, "further token, or confidence,") from None
        if piece is None:
            self._result()
        else:
            self._seen.append(piece)
        return piece

    def _result(self) -> tuple[Answer, ...]:
        try:
            return self._answers.result()
        except Exception as problem:
            raise _of_service(problem) from None


async def unless_gone(request: Request, work: Coroutine[object, object, T]) -> T:
    """The result of some work, which is cancelled when the client disconnects.

    Raises:
        RequestError: 499; it has disconnected.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    waiting: set[asyncio.Future[T] | asyncio.Future[None]] = {task, gone}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        task.cancel()
        gone.cancel()
    raise RequestError(499, "the client has gone.", "gone")


async def _disconnected(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_late(timeout: float, what: str) -> RequestError:
    sentence = f"no {what} within {timeout:g} seconds; ask again later."
    return RequestError(503, sentence, "timeout", headers=RETRY_SOON)


def _of_service(problem: Exception) -> SeclError:
    """What the client is told about a failure behind the service's queue."""
    if isinstance(problem, QuestionError):
        return problem
    if isinstance(problem, UnavailableError):
        return RequestError(503, str(problem), "no_endpoint", headers=RETRY_SOON)
    # A `SeclError` too is not the client's fault here.
    log.error("the model failed on a question: %s", describe_failure(problem))
    return to_request_error(SeclError())
