"""Waiting for what another thread is about to do, or for its end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from secl.server.online.service import Service
from secl.server.store import ServerStore
from secl.server.verify import Finding, examine


def until(condition: Any, seconds: float = 120) -> None:
    """Wait for what another thread is about to do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def settled(service: Service) -> None:
    """Wait for all lessons."""
    until(lambda: service.learner.waiting == 0 and "waiting" not in service.state.counts())


def close(service: Service) -> Path:
    """Stop a service; its folder."""
    service.stop()
    service.state.close()
    return service.state.folder


def examined(state: ServerStore) -> tuple[int, list[Finding]]:
    """How many records an examination looked at, and what does not agree."""
    found = examine(state)
    return found.count, found.findings
