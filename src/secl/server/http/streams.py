"""Wait for the service, and reply to chats with one JSON object or with a stream of server-sent events.

Events of a stream: role of each choice -> pieces of text, while the model writes -> finish reason and `secl` of each
choice -> usage -> [DONE]. A stream has an object or a call in one event.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request

from secl.client import Secl
from secl.errors import REQUEST_ERRORS, RequestError, SeclError, UnavailableError
from secl.question import Question
from secl.server.entries import JsonObject
from secl.server.http.errors import RETRY_SOON, ascii_json, describe_failure, error_json, to_request_error
from secl.server.http.replies import (
    LATER,
    UNWANTED,
    Choice,
    Completion,
    Usage,
    choice_of,
    log_probs,
    marked,
    secl_of,
    unrated,
    usage_of,
)
from secl.server.online.texts import Ended, TextEvent, WritingJob
from secl.writing import Chunk, SamplingParameters

if TYPE_CHECKING:
    from secl.backends.endpoint.client import Upstream

GRACE = 0.5
"""Seconds that a stream waits for the confidence after its text. After a longer wait, some clients report an error."""

SHARE_OF_TEXT = 0.2
"""Further wait, as a share of the time of the text. Reading the facts takes about a tenth of this time."""

log = logging.getLogger("secl.server")

T = TypeVar("T")


async def wait_for(pending: Future[T], request: Request, timeout: float) -> T:
    """Wait for an answer, until the timeout or until the client disconnects.

    Raises RequestError (499, 503 or 500), or one of `REQUEST_ERRORS` for an unusable request.
    """
    try:
        return await unless_gone(request, asyncio.wait_for(asyncio.wrap_future(pending), timeout))
    except TimeoutError:
        raise _timeout_error(timeout, "answer") from None
    except Exception as problem:
        raise of_service(problem) from None


class TextEvents(WritingJob):
    """Texts of a chat, and a queue of their events. Waiting for one event takes at most `timeout` seconds."""

    def __init__(self, question: Question, sampling: SamplingParameters, timeout: float, *, rate: bool) -> None:
        self._loop, self._timeout = asyncio.get_running_loop(), timeout
        self._events: asyncio.Queue[TextEvent] = asyncio.Queue()
        super().__init__(question, sampling, self._put, rate=rate)

    def _put(self, event: TextEvent) -> None:
        with suppress(RuntimeError):  # the event loop has closed, so no reader is left
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next(self) -> Chunk | Ended:
        """Wait for the next event. Raises the errors of `wait_for`."""
        event = await self.next_within(self._timeout)
        if event is None:
            raise _timeout_error(self._timeout, "new token or confidence")
        return event

    async def next_within(self, seconds: float) -> Chunk | Ended | None:
        """Return the next event; None if it does not arrive within `seconds`. Raises the errors of `next`."""
        try:
            async with asyncio.timeout(seconds):
                event = await self._events.get()
        except TimeoutError:
            return None
        if isinstance(event, Exception):
            raise of_service(event) from None
        return event

    async def whole(self) -> Ended:
        """Wait for all texts and their answers. Raises the errors of `next`."""
        while not isinstance(event := await self.next(), Ended) or event.answers is None:
            pass
        return event


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`. If the client disconnects first, cancel `work` and raise a `RequestError` (499)."""
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


def _timeout_error(timeout: float, what: str) -> RequestError:
    sentence = f"no {what} within {timeout:g} seconds; ask again later."
    return RequestError(503, sentence, "timeout", headers=RETRY_SOON)


def of_service(problem: Exception) -> SeclError:
    """Map an exception of the service to the error that the client gets."""
    if isinstance(problem, (*REQUEST_ERRORS, RequestError, UnavailableError)):
        return problem
    log.error("the model failed on a question: %s", describe_failure(problem))
    return to_request_error(SeclError())


class ChatReply:
    """Builds the reply to one chat, whole or in chunks.

    Attributes:
        model: the model's name for clients.
        full: whether the object `secl` has the whole record.
        with_usage: whether a stream ends with the numbers of tokens.
        warnings: sentences about fields that have no effect or that the server changes.
    """

    def __init__(self, model: str, *, full: bool, with_usage: bool) -> None:
        self.model, self.full, self.with_usage = model, full, with_usage
        self.warnings: list[str] = []
        self.id, self.created = f"chatcmpl-{secrets.token_hex(16)}", int(time.time())

    def whole(self, choices: list[Choice], usage: Usage) -> Completion:
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "usage": usage,
            "secl": marked(choices[0]["secl"]),
            "warnings": self.warnings,
        }

    def texts(self, ended: Ended, missing: Sequence[Secl] = ()) -> Completion:
        """Return the whole reply. `missing`: object `secl` of each text, used if `ended` has no answers yet."""
        rated = [
            secl_of(answer, full=self.full, content=text.text)
            for text, answer in zip(ended.texts, ended.answers or (), strict=False)
        ]
        pairs = zip(ended.texts, rated or missing or [UNWANTED] * len(ended.texts), strict=True)
        choices = [
            choice_of(text.text, text.finish or "length", secl, tokens=text.tokens, index=index, thought=text.thought)
            for index, (text, secl) in enumerate(pairs)
        ]
        usage = usage_of(ended.texts[0].prompt_tokens, sum(text.completion_tokens for text in ended.texts))
        return self.whole(choices, usage)

    async def chunks_of(self, texts: TextEvents, seconds: float | None = None) -> AsyncGenerator[JsonObject]:
        """Yield the chunks of the reply while the model writes.

        A confidence that takes longer than `seconds` is only in the record, not in the stream. By default, the stream
        waits for `GRACE`, or for `SHARE_OF_TEXT` of the time of the text.
        """
        began = time.monotonic()
        event = await texts.next()
        for index in range(texts.sampling.n):
            yield self._chunk(index, {"role": "assistant", "content": ""})
        while isinstance(event, Chunk):
            if event.thought:
                yield self._chunk(event.choice, {"reasoning_content": event.thought})
            if event.text or event.tokens:
                yield self._chunk(event.choice, {"content": event.text}, logprobs=log_probs(event.tokens))
            event = await texts.next()
        waits = max(GRACE, SHARE_OF_TEXT * (time.monotonic() - began)) if seconds is None else seconds
        rated = await texts.next_within(waits)
        late = [unrated(LATER.format(name), name) for name in texts.record_ids]
        for chunk in self._last_chunks(self.texts(rated if isinstance(rated, Ended) else event, late)):
            yield chunk

    async def chunks_at_once(self, reply: Completion) -> AsyncGenerator[JsonObject]:
        """Yield the chunks of a reply whose text is already complete."""
        (choice,) = reply["choices"]
        delta: JsonObject = {**choice["message"]}
        if "tool_calls" in delta:
            delta["tool_calls"] = [{**call, "index": number} for number, call in enumerate(delta["tool_calls"])]
        yield self._chunk(0, delta)
        for chunk in self._last_chunks(reply):
            yield chunk

    async def passed(self, upstream: Upstream, body: JsonObject, secl: Secl) -> AsyncGenerator[JsonObject]:
        """Yield the chunks of an upstream server's answer, and add `secl` to the last chunk of each choice.

        Raises the errors of `wait_for`.
        """
        chunks, loop = upstream.chat(body), asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="secl-passing")
        try:
            while (chunk := await loop.run_in_executor(thread, next, chunks, None)) is not None:
                choices = [dict(choice) for choice in chunk.get("choices") or ()]
                ended = [choice for choice in choices if choice.get("finish_reason") is not None]
                for choice in ended:
                    choice["secl"] = secl
                marks = {"secl": secl, "warnings": self.warnings} if ended else {}
                yield {**chunk, "model": self.model, "choices": choices, **marks}
        except Exception as problem:
            raise of_service(problem) from None
        finally:
            thread.submit(chunks.close)  # runs after the chunk for which the thread may still wait
            thread.shutdown(wait=False)

    def _add_head(self, chunk: JsonObject) -> JsonObject:
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}
        return {**head, **({"usage": None} if self.with_usage else {}), **chunk}

    def _chunk(self, index: int, delta: JsonObject, **more: object) -> JsonObject:
        """Return a chunk of one choice."""
        choice = {"index": index, "delta": delta, "finish_reason": None, "logprobs": None, **more}
        return self._add_head({"choices": [choice]})

    def _last_chunks(self, reply: Completion) -> Iterator[JsonObject]:
        for choice in reply["choices"]:
            secl = choice["secl"]
            chunk = self._chunk(choice["index"], {}, finish_reason=choice["finish_reason"], secl=secl)
            yield chunk | {"secl": secl, "warnings": self.warnings}
        if self.with_usage:
            yield self._add_head({"choices": [], "usage": reply["usage"]})


async def sent(first: JsonObject, chunks: AsyncIterator[JsonObject], cancel: Callable[[], None]) -> AsyncIterator[str]:
    """Yield chunks as server-sent events, then the end of the stream; an error is the last event before the end."""
    try:
        yield f"data: {ascii_json(first)}\n\n"
        async for chunk in chunks:
            yield f"data: {ascii_json(chunk)}\n\n"
    except Exception as problem:
        yield f"data: {ascii_json(error_json(to_request_error(of_service(problem))))}\n\n"
    finally:
        cancel()  # if the client disconnected, the model stops writing
    yield "data: [DONE]\n\n"
