"""Requests in the order in which they came, until the thread that answers takes some of them together."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from secl.errors import BusyError
from secl.server.online.requests import Answer, Request

GATHER = 0.005
"""Seconds that the first request waits for others: clients answered together ask again together."""


class RequestQueue:
    """Waiting requests.

    Args:
        most: requests that may wait.
        batch: most that are taken together.
    """

    def __init__(self, most: int, batch: int) -> None:
        self.most, self.batch = most, batch
        self._requests: deque[Request] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: Request, *, full: bool = False) -> Future[Answer]:
        """Add a request, if `full` even to a full queue.

        Returns:
            its future, which can be cancelled until its turn comes.

        Raises:
            BusyError: the queue is full.
        """
        with self._changed:
            if not full and len(self._requests) >= self.most:  # drop cancelled requests
                self._requests = deque(each for each in self._requests if not each.future.cancelled())
            if not full and len(self._requests) >= self.most:
                raise BusyError(f"{self.most} questions are waiting already; ask again in a moment.")
            self._requests.append(request)
            self._changed.notify_all()
        return request.future

    def wait(self) -> bool:
        """Wait for requests, and a moment for further ones; False if none will ever come."""
        with self._changed:
            while not self._requests and not self._closed:
                self._changed.wait()
            if self._requests:
                self._changed.wait_for(lambda: self._closed or len(self._requests) >= self.batch, GATHER)
            return bool(self._requests)

    def take(self) -> list[Request]:
        """The next requests, all of one kind, without cancelled ones."""
        taken: list[Request] = []
        with self._changed:
            waiting = self._requests
            while waiting and len(taken) < self.batch and (not taken or waiting[0].kind == taken[0].kind):
                taken.append(waiting.popleft())
        return [request for request in taken if request.future.set_running_or_notify_cancel()]

    def close(self) -> None:
        """Say that no more requests will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
