"""The overview, rendered once for all who look at it, and again only when something has changed."""

from __future__ import annotations

import hashlib
import threading

from secl.server.audit.entries import Values
from secl.server.http.dashboard.rendering import render
from secl.server.http.dashboard.view import now_of, view
from secl.server.online.service import Service


class Snapshot:
    """The latest overview of a service.

    Args:
        service: that it shows.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._known: tuple[int, Values] | None = None
        self._tag, self._text = "", ""

    def now(self) -> tuple[str, str]:
        """The overview and its entity tag, which changes with it."""
        with self._lock:
            known = (self.service.state.changes, now_of(self.service))
            if known != self._known:
                self._text = render(view(self.service, now=known[1]))
                self._tag = f'"{hashlib.sha256(self._text.encode()).hexdigest()[:32]}"'
                self._known = known
            return self._tag, self._text
