"""Waiting for an answer, or for the events of texts, until a timeout or until the client disconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from fastapi import Request

from secl.errors import REQUEST_ERRORS, RequestError, SeclError, UnavailableError
from secl.question import Question
from secl.server.http.errors import RETRY_SOON, describe_failure, to_request_error
from secl.server.online.texts import Ended, Event, WritingJob
from secl.writing import Piece, Writing

log = logging.getLogger("secl.server")

T = TypeVar("T")


async def wait_for(pending: Future[T], request: Request, timeout: float) -> T:
    """Wait for an answer, until the timeout or until the client disconnects.

    Raises RequestError (499, 503 or 500), or one of `REQUEST_ERRORS` for an unusable request.
    """
    try:
        return await unless_gone(request, asyncio.wait_for(asyncio.wrap_future(pending), timeout))
    except TimeoutError:
        raise _too_late(timeout, "answer") from None
    except Exception as problem:
        raise of_service(problem) from None


class TextEvents(WritingJob):
    """Texts of a chat with their events; each event may take `timeout` seconds."""

    def __init__(self, question: Question, writing: Writing, timeout: float, *, rate: bool) -> None:
        self._loop, self._timeout = asyncio.get_running_loop(), timeout
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        super().__init__(question, writing, self._put, rate=rate)

    def _put(self, event: Event) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next(self) -> Piece | Ended:
        """Wait for the next event. Raises the errors of `wait_for`."""
        event = await self.next_within(self._timeout)
        if event is None:
            raise _too_late(self._timeout, "further token, or confidence,")
        return event

    async def next_within(self, seconds: float) -> Piece | Ended | None:
        """Return the next event, or None after so many seconds. Raises the errors of `next`."""
        try:
            async with asyncio.timeout(seconds):
                event = await self._events.get()
        except TimeoutError:
            return None
        if isinstance(event, Exception):
            raise of_service(event) from None
        return event

    async def whole(self) -> Ended:
        """Return the texts with their answers. Raises the errors of `next`."""
        while not isinstance(event := await self.next(), Ended) or event.answers is None:
            pass
        return event


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of a task; cancel the task when the client disconnects (`RequestError` 499)."""
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
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_late(timeout: float, what: str) -> RequestError:
    sentence = f"no {what} within {timeout:g} seconds; ask again later."
    return RequestError(503, sentence, "timeout", headers=RETRY_SOON)


def of_service(problem: Exception) -> SeclError:
    """Return the error for the client after a failure of the service."""
    if isinstance(problem, (*REQUEST_ERRORS, RequestError)):
        return problem
    if isinstance(problem, UnavailableError):
        return RequestError(503, str(problem), "no_endpoint", headers=RETRY_SOON)
    log.error("the model failed on a question: %s", describe_failure(problem))
    return to_request_error(SeclError())
