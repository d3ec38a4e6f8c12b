"""Chats that another server answers, because this one cannot rate what they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from secl.server.entries import Values
from secl.server.http.confidence import Secl
from secl.server.http.replies import Heading
from secl.server.http.waiting import of_service

if TYPE_CHECKING:
    from secl.backends.endpoint.client import Upstream


async def passed(upstream: Upstream, body: Values, heading: Heading, secl: Secl) -> AsyncGenerator[Values]:
    """The chunks of another server's answer under our name, with `secl` where choices end; errors as of `wait_for`."""
    chunks, loop, plain = upstream.chat(body), asyncio.get_running_loop(), secl.model_dump(mode="json")
    thread = ThreadPoolExecutor(1, thread_name_prefix="secl-passing")
    try:
        while (chunk := await loop.run_in_executor(thread, next, chunks, None)) is not None:
            choices = [dict(choice) for choice in chunk.get("choices") or ()]
            ended = [choice for choice in choices if choice.get("finish_reason") is not None]
            for choice in ended:
                choice["secl"] = plain
            marks = {"secl": plain, "warnings": heading.warnings} if ended else {}
            yield {**chunk, "model": heading.model, "choices": choices, **marks}
    except Exception as problem:
        raise of_service(problem) from None
    finally:
        thread.submit(chunks.close)  # behind a chunk that is still awaited
        thread.shutdown(wait=False)
