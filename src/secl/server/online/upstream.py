"""A server with OpenAI's API behind this one, which gets what this one cannot rate."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secl.server.entries import Values

if TYPE_CHECKING:
    from secl.backends.endpoint.client import Endpoint


@dataclass(frozen=True, slots=True)
class Upstream:
    """The server that answers in place of this process.

    Attributes:
        chat: sends the body of a chat request there and yields the chunks of the answer; several threads may use it.
            The whole answer to a request without "stream" is the only chunk.
        takes_all: whether rated texts come from there by the same route, so that every parameter holds for them.
    """

    chat: Callable[[Values], Generator[Values]]
    takes_all: bool

    @classmethod
    def at(cls, endpoint: Endpoint, model: str, *, takes_all: bool) -> Upstream:
        """The server at an endpoint, whose name for the model is `model`."""
        from secl.backends.endpoint.chat import ROUTE  # only a server behind another one has the package openai

        def chat(body: Values) -> Generator[Values]:
            request = {**body, "model": model}
            if request.get("stream"):
                yield from endpoint.stream(ROUTE, request)
            else:
                yield endpoint.post(ROUTE, request)

        return cls(chat, takes_all)
