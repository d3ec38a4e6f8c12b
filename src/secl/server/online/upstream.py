"""A server with OpenAI's API behind this one, which answers what this one cannot rate."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secl.server.entries import Values

if TYPE_CHECKING:
    from secl.backends.endpoint.client import Endpoint


@dataclass(frozen=True, slots=True)
class Upstream:
    """The server that answers in place of this process.

    Attributes:
        model: name of the model there.
        takes_all: whether rated texts come from there by the same route, so that every parameter holds for them.
    """

    endpoint: Endpoint
    model: str
    takes_all: bool

    def chat(self, body: Values) -> Generator[Values]:
        """Yield the chunks of the answer to a chat request; the only chunk is the answer itself without "stream"."""
        request = {**body, "model": self.model}
        if body.get("stream"):
            yield from self.endpoint.stream("/chat/completions", request)
        else:
            yield self.endpoint.post("/chat/completions", request)
