"""Chats that another server answers, because this one cannot rate what they ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator

from secl.server.entries import Values
from secl.server.http.confidence import Secl
from secl.server.http.replies import Heading
from secl.server.http.waiting import Events
from secl.server.online.texts import PassingJob


def unrated(reason: str) -> Secl:
    """In place of a confidence that this server cannot give."""
    return Secl(confidence=None, record_id=None, reason=reason)


def marked(answer: Values, heading: Heading, secl: Secl) -> Values:
    """An answer of another server, or a chunk of one, under our model's name and with `secl` where choices end."""
    answer = {**answer, "model": heading.model}
    plain = secl.model_dump(mode="json")
    choices = [dict(choice) for choice in answer.get("choices") or ()]
    for choice in choices:
        if choice.get("finish_reason") is not None:
            choice["secl"] = plain
            answer |= {"secl": plain, "warnings": heading.warnings}
    return {**answer, "choices": choices}


async def marked_chunks(
    heading: Heading, events: Events[PassingJob], first: Values, secl: Secl
) -> AsyncIterator[Values]:
    """The chunks of an answer, each as of `marked`."""
    yield marked(first, heading, secl)
    async for chunk in events.chunks():
        yield marked(chunk, heading, secl)
