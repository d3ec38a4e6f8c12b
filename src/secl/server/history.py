"""What a server has done so far, read from its state folder; nothing here needs the model or changes anything."""

from __future__ import annotations

from collections import Counter

from secl.runs.manifest import Manifest
from secl.server.entries import Values
from secl.server.records import label_count
from secl.server.store import OWN, ServerStore


def history(state: ServerStore) -> Values:
    """Everything that happened in a state folder, as plain values.

    Returns:
        answers: how many records there ever were; first: position of the first that is kept, and what follows is about
        the kept ones. began, ended: when the first and the last were given, in seconds since 1970; None without any.
        version: at which learning stands. learns: whether this server's method learns at all. paused: why learning is
        paused; None while it is not. lessons: how many records there ever were of each outcome. labelled: how many
        answers people said something about. bursts and versions: as of the functions of these names. events: of
        learning, in order.

    Raises:
        RunError: the file is damaged.
    """
    settings = Manifest.of(state.store).settings
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
        "bursts": bursts(state),
        "versions": versions(state),
        "events": [event.to_json() for event in state.events()],
    }


_BURSTS = """
    SELECT d.position, s.time, d.alarm, d.statistic, d.remaining, r.outcome, u.version
    FROM decisions d JOIN records r USING (position) JOIN served s USING (position) LEFT JOIN updates u USING (position)
    WHERE d.in_burst ORDER BY d.position"""

_BETWEEN = f"SELECT 1 FROM records WHERE {OWN} AND position > ? AND position < ? LIMIT 1"


def bursts(state: ServerStore) -> list[Values]:
    """All bursts in order: neighbouring questions that were meant for learning.

    An alarm right after a burst opens another one; an answer that the gate did not see ends none. `statistic` is that
    of the gate at its first question, `remaining` counts the questions still to come, `lessons` those of each outcome,
    and `versions` are the first and the last one made from it, None while there is none.
    """
    groups: list[Values] = []
    with state.lock:
        for position, time, alarm, statistic, remaining, outcome, version in state.rows(_BURSTS):
            if not groups or alarm or state.rows(_BETWEEN, groups[-1]["last"], position):
                begin = {"first": position, "began": time, "alarm": bool(alarm), "statistic": statistic}
                groups.append({**begin, "lessons": Counter(), "versions": None})
            burst = groups[-1]
            burst |= {"last": position, "ended": time, "remaining": remaining}
            burst["lessons"][outcome] += 1
            if version is not None:
                burst["versions"] = ((burst["versions"] or (version,))[0], version)
    return groups


_VERSIONS = f"""
    SELECT v.version, v.position, s.time, v.drift, count(r.position), avg(r.confidence - r.frozen_confidence)
    FROM (SELECT version, position, drift FROM versions UNION ALL SELECT 0, NULL, 0.0) v
    LEFT JOIN served s USING (position) LEFT JOIN records r ON r.version = v.version AND r.{OWN}
    GROUP BY v.version ORDER BY v.version"""


def versions(state: ServerStore) -> list[Values]:
    """The untouched model (0) and all kept versions, in order.

    `position` and `began` are of its first answer, None for the untouched model; `answers` counts those it gave,
    `shift` is the mean of stated less frozen confidence over them, `drift` how far it is from the untouched weights.
    """
    current = version_now(state)
    names = ("number", "position", "began", "drift", "answers", "shift")
    rows = (dict(zip(names, row, strict=True)) for row in state.rows(_VERSIONS))
    return [{**row, "current": row["number"] == current} for row in rows]


_KEPT = """
    SELECT v.version, v.position, s.time FROM versions v LEFT JOIN served s USING (position)
    ORDER BY v.version DESC LIMIT ?"""


def kept_versions(state: ServerStore, count: int) -> list[tuple[int, int, float | None]]:
    """The newest kept versions, the newest first: number, position and time of the first answer."""
    return state.rows(_KEPT, count)


def version_now(state: ServerStore) -> int:
    """The adapter version at which learning stands: of the latest update, or of a rollback after it.

    A rollback drops the lessons that wait, so an update after it belongs to a later question than any before it.
    """
    rows = state.rows("SELECT version, position FROM updates ORDER BY version DESC LIMIT 1")
    version, position = rows[0] if rows else (0, -1)
    for back in state.events(1, "rollback"):
        if back.position is None or back.position >= position:
            return back.version
    return int(version)
