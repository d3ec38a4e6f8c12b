"""Requests to a server that are under way together."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from secl.backends.generation import TOP_P
from secl.backends.openai.abilities import WORD_TOKENS, Abilities
from secl.backends.openai.client import Endpoint
from secl.backends.openai.reading import Completion, read_completion
from secl.prompts.templates import Prompt

Pending = Future[Completion]
"""What a request will give."""


class Requests:
    """Sends requests. Several threads may use it at once.

    What a request gives may be a `QuestionError` where the server refuses what is in it, and an `UnavailableError`
    where it does not answer now.

    Args:
        endpoint: the server.
        abilities: what it can do.
        workers: requests that are under way together.
    """

    def __init__(self, endpoint: Endpoint, abilities: Abilities, workers: int) -> None:
        self.endpoint, self.abilities = endpoint, abilities
        self._workers = workers
        self._pool = self._new_pool()

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers, thread_name_prefix="secl-requests")

    def send(self, prompt: Prompt, tokens: int = WORD_TOKENS, *, seed: int | None = None) -> Pending:
        """Send a request.

        Args:
            prompt: to be answered.
            tokens: most of the answer.
            seed: of a draw at temperature 1 with top-p 0.95; None for the greedy answer.
        """
        body = self.abilities.chat(prompt, tokens)
        if seed is not None:
            body |= {"temperature": 1, "top_p": TOP_P, "seed": seed % 2**31}
        return self._pool.submit(lambda: read_completion(self.endpoint.post("/chat/completions", body)))

    def abandon(self) -> None:
        """Send no more of the requests that wait; whoever waits for one of them gets a `CancelledError`."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new_pool()

    def close(self) -> None:
        """Drop what is not under way yet, and wait for the rest."""
        self._pool.shutdown(cancel_futures=True)
