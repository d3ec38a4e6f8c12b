"""Replies as streams of server-sent events.

role of each choice -> pieces, as they are written -> for each choice why it ended, and its `secl` -> usage -> [DONE]
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from secl.errors import SeclError
from secl.server.http.errors import describe_failure, error_json, to_request_error
from secl.server.http.openai_replies import Shown, usage_of
from secl.server.http.shapes import PREFIX, Shape
from secl.server.http.waiting import Texts
from secl.writing import Piece

GRACE = 0.5
"""Seconds that the end of a stream waits for the confidence; clients take a longer silence for a fault."""

log = logging.getLogger("secl.server")


class Chunks:
    """The chunks of one reply.

    Args:
        identifier: of the reply.
        shape: of its choices.
        with_usage: whether usage comes last.
    """

    def __init__(self, identifier: str, shape: Shape, *, with_usage: bool) -> None:
        self.shape, self.with_usage = shape, with_usage
        self._head = {
            "id": f"{PREFIX}-{identifier}",
            "object": "chat.completion.chunk",
            "created": shape.created,
            "model": shape.model,
        }

    def first(self, count: int) -> list[dict[str, Any]]:
        """The beginning of each of `count` choices."""
        return [self._chunk(self.shape.first(index)) for index in range(count)]

    def piece(self, piece: Piece) -> list[dict[str, Any]]:
        """A piece, unless it has nothing to show."""
        return [self._chunk(self.shape.piece(piece))] if piece.text or piece.tokens else []

    def last(self, shown: Sequence[Shown]) -> list[dict[str, Any]]:
        """Why each choice ended, with its confidence; then usage, if it is wanted."""
        chunks = []
        for index, each in enumerate(shown):
            secl = each.secl.model_dump(mode="json")
            chunk = self._chunk(self.shape.last(index, each) | {"secl": secl})
            chunks.append(chunk | {"secl": secl, "warnings": self.shape.warnings})
        if self.with_usage:
            chunks.append({**self._head, "choices": [], "usage": usage_of(shown).model_dump()})
        return chunks

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        return {**self._head, "choices": [choice], **({"usage": None} if self.with_usage else {})}


async def stream_at_once(chunks: Chunks, shown: Sequence[Shown]) -> AsyncIterator[str]:
    """The stream of answers that are all there."""
    whole = [Piece(choice=index, text=each.text, tokens=each.tokens) for index, each in enumerate(shown)]
    pieces = [chunk for piece in whole for chunk in chunks.piece(piece)]
    for chunk in (*chunks.first(len(shown)), *pieces, *chunks.last(shown)):
        yield _event(chunk)
    yield "data: [DONE]\n\n"


async def stream_live(chunks: Chunks, texts: Texts) -> AsyncIterator[str]:
    """The stream of texts as they are written; what fails on the way is its last event.

    It ends soon after the last word. A confidence that takes longer is in the record, whose name it ends with.
    """
    try:
        for chunk in chunks.first(texts.writing.n):
            yield _event(chunk)
        async for piece in texts.pieces():
            for chunk in chunks.piece(piece):
                yield _event(chunk)
        answers = await texts.answers_within(GRACE)
        shown = (
            [Shown.before(text, name) for text, name in zip(texts.written, texts.names, strict=True)]
            if answers is None
            else [Shown.of(answer, None) for answer in answers]
        )
        for chunk in chunks.last(shown):
            yield _event(chunk)
    except SeclError as problem:
        yield _event(error_json(to_request_error(problem)))
    except Exception as problem:
        log.error("a stream failed: %s", describe_failure(problem))
        yield _event(error_json(to_request_error(SeclError())))
    finally:
        texts.cancel()  # the client may have gone
    yield "data: [DONE]\n\n"


def _event(content: object) -> str:
    return f"data: {json.dumps(content, allow_nan=False)}\n\n"
