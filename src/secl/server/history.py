"""The history of a server, read from its state folder without the model."""

from __future__ import annotations

from dataclasses import asdict

from secl.runs.manifest import Manifest
from secl.server.entries import Values
from secl.server.records import label_count
from secl.server.store import ServerStore


def history(state: ServerStore) -> Values:
    """Everything that happened in a state folder, as plain values.

    Returns:
        answers: how many records there ever were; first: position of the first that is kept. began, ended: times of the
        first kept one and of the last, in seconds since 1970; None without any. version: at which learning stands.
        lessons: number of records by outcome. labelled: number of labelled answers.
    """
    settings = Manifest.of(state).settings
    ((began, ended),) = state.rows("SELECT min(time), max(time) FROM served")
    return {
        "model": settings.model.name,
        "answers": len(state),
        "first": state.first,
        "began": began,
        "ended": ended,
        "version": version_now(state),
        "learns": settings.named_method.learns,
        "paused": state.paused(),
        "lessons": state.counts(),
        "labelled": label_count(state),
        "versions": versions(state),
        "events": [asdict(event) for event in state.events()],
    }


_VERSIONS = """
    SELECT v.version, v.position, s.time, v.drift FROM versions v LEFT JOIN served s USING (position)
    ORDER BY v.version DESC LIMIT ?"""


def versions(state: ServerStore, count: int = -1) -> list[Values]:
    """Return the newest kept versions; `position` and `time` of their first answers, `drift` of their weights."""
    names = ("version", "position", "time", "drift")
    return [dict(zip(names, row, strict=True)) for row in state.rows(_VERSIONS, count)]


def version_now(state: ServerStore) -> int:
    """Return the adapter version at which learning stands: of the latest update, or of a rollback after it."""
    rows = state.rows("SELECT version FROM learner")
    return int(rows[0][0]) if rows else 0
