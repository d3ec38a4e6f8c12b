"""Consistency of a state folder: the gate is replayed and the tables are compared; no model is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from secl.errors import ParameterError, SeclError
from secl.gates import Gate
from secl.records import Decision, Record
from secl.runs.encoding import from_plain
from secl.runs.manifest import Manifest
from secl.server.audit.store import ServerStore


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not agree.

    Attributes:
        check: "gate", "integrity" or "confidence".
        position: of the record; None if it is about no single one.
        detail: one sentence.
    """

    check: str
    position: int | None
    detail: str


class StoredRow(NamedTuple):
    """A record with all that other tables say about it; None where they say nothing."""

    position: int
    confidence: float
    frozen_confidence: float
    version: int
    outcome: str
    body: str
    alarm: int | None
    in_burst: int | None
    remaining: int | None
    statistic: float | None
    entropy: float | None
    time: float | None
    update: int | None
    before: float | None
    target: float | None
    after: float | None
    losses: str | None
    stored_version: int | None
    made_at: int | None


# One statement sees one moment, also while a server goes on writing.
_ROWS = """
    SELECT r.position, r.confidence, r.frozen_confidence, r.version, r.outcome, r.body,
           d.alarm, d.in_burst, d.remaining, d.statistic, d.entropy, s.time,
           u.version, u.before, u.target, u.after, u.losses, v.version, m.position
    FROM records r LEFT JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN updates u USING (position) LEFT JOIN versions v ON v.version = r.version
    LEFT JOIN updates m ON m.version = r.version ORDER BY r.position"""

_ORPHANS = "SELECT position FROM {table} WHERE position NOT IN (SELECT position FROM records) ORDER BY position"


def examine(state: ServerStore) -> tuple[int, list[Finding]]:
    """Replay the gate over all stored entropies and compare the tables with each other.

    Returns:
        how many records were examined, and what does not agree.
    """
    replay = _Replay(Manifest.of(state).settings.build_gate())
    findings: list[Finding] = []
    count, latest, previous = 0, 0, -1
    with state.lock:
        for row in _rows(state):
            if row.position != previous + 1:
                findings.append(Finding("integrity", row.position, f"positions jump from {previous} to {row.position}"))
            findings += [Finding("integrity", row.position, detail) for detail in _unsound(row, latest)]
            findings += [Finding("gate", row.position, detail) for detail in replay.differences(row)]
            count, latest, previous = count + 1, max(latest, row.update or 0), row.position
        for table in ("decisions", "served", "updates", "feedback"):
            findings += [
                Finding("integrity", position, f"the table {table} speaks of a record that is not there")
                for (position,) in state._read(_ORPHANS.format(table=table))
            ]
    return count, findings


def _rows(state: ServerStore) -> Iterator[StoredRow]:
    return (StoredRow(*values) for values in state._read(_ROWS))


class _Replay:
    """A gate that is fed the stored entropies."""

    def __init__(self, gate: Gate) -> None:
        self.gate, self.state = gate, gate.start()
        self.stuck = False

    def differences(self, row: StoredRow) -> Iterator[str]:
        """How the gate's decision differs from the stored one."""
        if self.stuck:
            return
        if row.entropy is None:
            yield "its decision is missing"
            return
        try:
            self.state, now = self.gate.step(self.state, row.entropy)
        except ParameterError as problem:
            self.stuck = True
            yield f"the gate cannot be replayed from here on: {problem}"
            return
        then = Decision(
            alarm=bool(row.alarm), in_burst=bool(row.in_burst), remaining=row.remaining or 0, statistic=row.statistic
        )
        if now != then:
            yield f"the gate decides {_describe(now)}, stored is {_describe(then)}"


def _describe(decision: Decision) -> str:
    what = "alarm" if decision.alarm else "burst" if decision.in_burst else "quiet"
    return f"{what} ({decision.remaining} to come, statistic {decision.statistic})"


def _unsound(row: StoredRow, latest: int) -> Iterator[str]:
    """What is wrong with a record, alone and beside the other tables; `latest` is the last update before it."""
    if row.time is None:
        yield "when it was answered is missing"
    if (row.update is not None) != (row.outcome == "trained"):
        yield f"its outcome is {row.outcome!r}, but an update of it is {'missing' if row.update is None else 'stored'}"
    if row.update is not None and row.update <= latest:
        yield f"its update made version {row.update}, which is not above the {latest} before it"
    if row.version and row.stored_version is None:
        yield f"version {row.version}, which answered, is not kept"
    if row.version and (row.made_at is None or row.made_at >= row.position):
        yield f"version {row.version}, which answered, was made by no earlier question"
    try:
        record = _record(row)
    except (ValueError, KeyError, TypeError, AttributeError, SeclError) as problem:
        yield f"it cannot be read: {problem}"
        return
    pairs = {
        "confidence": (record.reply.confidence, row.confidence),
        "frozen confidence": (record.frozen.confidence, row.frozen_confidence),
        "version": (record.reply.version, row.version),
        "entropy": (record.reply.entropy, row.entropy),
        "outcome": (record.outcome, row.outcome),
        "position": (record.position, row.position),
    }
    for name, (inside, beside) in pairs.items():
        if beside is not None and inside != beside:
            yield f"its {name} is {inside} in the record and {beside} beside it"


def _record(row: StoredRow) -> Record:
    update = {"version": row.update, "before": row.before, "target": row.target, "after": row.after}
    decision = {"alarm": False, "in_burst": False, "remaining": 0, "statistic": None}
    losses = None if row.losses is None else json.loads(row.losses)
    stored = None if losses is None else {**update, "losses": losses}
    return from_plain({**json.loads(row.body), "decision": decision, "update": stored})
