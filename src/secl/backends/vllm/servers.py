"""One or several vLLM servers of the same model: a request that one of them fails goes to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from secl.backends.vllm.client import Endpoint
from secl.errors import NotLoadedError, ParameterError, UnavailableError

ROUNDS, WAIT = 3, 0.5
"""A request that fails that often on each server is given up; seconds between the rounds."""

PAUSE = 5.0
"""Seconds for which a server that failed is asked only where the others have failed, too."""

T = TypeVar("T")


class Servers:
    """Sends each request to the server with the fewest under way; several behind a load balancer are one.

    Args:
        endpoints: the servers.

    Attributes:
        endpoints: those servers.
        failures: requests that had to be sent again.

    Raises:
        ParameterError: no endpoint, or one of them twice.
    """

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        urls = [endpoint.url for endpoint in endpoints]
        if not urls or len(set(urls)) < len(urls):
            raise ParameterError("a fleet needs at least one endpoint, and each of them once.")
        self.endpoints = endpoints
        self.failures = 0
        self._busy = [0] * len(endpoints)
        self._failed = [-PAUSE] * len(endpoints)
        self._lock = threading.Lock()

    def meet(self) -> list[Endpoint]:
        """The servers that answer now.

        Raises:
            UnavailableError: none does.
        """
        met, problems = [], []
        for endpoint in self.endpoints:
            try:
                endpoint.refresh()
                met.append(endpoint)
            except UnavailableError as problem:
                problems.append(str(problem))
        if not met:
            raise UnavailableError(f"no vLLM server can be used: {' '.join(problems)}")
        return met

    def ask(self, send: Callable[[Endpoint], T]) -> T:
        """What a server answers to a request that `send` sends to it.

        Raises:
            UnavailableError: none answers, or none finds the adapter.
            ModelError: the request is refused.
        """
        problems: dict[str, str] = {}
        for turn in range(ROUNDS):
            time.sleep(WAIT if turn else 0)  # for servers that start anew, and file systems that show a version late
            for _ in self.endpoints:
                with self._chosen() as number:
                    try:
                        return send(self.endpoints[number])
                    except (UnavailableError, NotLoadedError) as problem:
                        problems[self.endpoints[number].url] = str(problem)
                        with self._lock:
                            self.failures += 1
                            self._failed[number] = time.monotonic()
        raise UnavailableError(f"no vLLM server can be used: {' '.join(problems.values())}")

    @contextmanager
    def _chosen(self) -> Iterator[int]:
        """The number of a server that has not failed lately, or longest ago, with the fewest requests under way."""
        with self._lock:
            well = time.monotonic() - PAUSE
            number = min(range(len(self.endpoints)), key=lambda i: (max(self._failed[i], well), self._busy[i]))
            self._busy[number] += 1
        try:
            yield number
        finally:
            with self._lock:
                self._busy[number] -= 1

    def close(self) -> None:
        """Close all connections."""
        for endpoint in self.endpoints:
            endpoint.close()
