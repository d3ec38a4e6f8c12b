"""Consistency of a state folder: stream and labels are replayed, tables compared; no model is needed."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from secl.errors import SeclError
from secl.labels import LabelRule
from secl.records import Record
from secl.runs.encoding import from_plain
from secl.runs.manifest import Manifest
from secl.server.audit.closeness import furthest
from secl.server.audit.index import IndexCheck
from secl.server.audit.labels import LabelReplay
from secl.server.audit.posteriors import posterior_row
from secl.server.audit.store import ServerStore
from secl.server.audit.stream_replay import StreamReplay


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not agree.

    Attributes:
        check: "gate", "posterior", "labels", "integrity" or "confidence".
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
    signal: float | None
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
    group: str | None
    reported: float | None
    differs: int | None


_ROWS = """
    SELECT r.position, r.confidence, r.frozen_confidence, r.signal, r.version, r.outcome, r.body,
           d.alarm, d.in_burst, d.remaining, d.statistic, d.entropy, s.time,
           u.version, u.before, u.target, u.after, u.losses, v.version, m.position,
           p.views, p.confidence, p.differs
    FROM records r LEFT JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN updates u USING (position) LEFT JOIN versions v ON v.version = r.version
    LEFT JOIN updates m ON m.version = r.version LEFT JOIN posteriors p USING (position) ORDER BY r.position"""

_ORPHANS = """
    SELECT position FROM {table} WHERE position >= ? AND position NOT IN (SELECT position FROM records)
    ORDER BY position"""

_MAY_OUTLIVE = {"updates", "labels"}
"""Tables whose rows stay when their record is pruned."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found.

    Attributes:
        count: records that were examined.
        findings: what does not agree.
        largest: for "gate", "posterior" and "labels", how far numbers that agree lie apart at most.
    """

    count: int
    findings: list[Finding]
    largest: dict[str, float]


def examine(state: ServerStore) -> tuple[int, list[Finding]]:
    """How many records were examined, and what does not agree; see `examination`."""
    found = examination(state)
    return found.count, found.findings


def examination(state: ServerStore) -> Examined:
    """Replay gate, posterior and labels over all that is stored, and compare the tables with each other.

    Args:
        state: to be examined; what has been pruned is left out.
    """
    with state.moment():
        try:
            found = _examine_records(state)
            found.findings.extend(Finding("integrity", None, detail) for detail in _miscounted(state))
        except sqlite3.DatabaseError as problem:
            raise state.damaged(problem) from problem
    return found


def _examine_records(state: ServerStore) -> Examined:
    manifest = Manifest.of(state)
    stream, labels = StreamReplay(state, manifest), LabelReplay(LabelRule(), state.label_log())
    index, findings = IndexCheck(state), list[Finding]()
    count, latest, first = 0, 0, state.first
    previous = first - 1
    for row in (StoredRow(*values) for values in state.read(_ROWS)):
        if row.position != previous + 1:
            findings.append(Finding("integrity", row.position, f"positions jump from {previous} to {row.position}"))
        record, problem = _read(row)
        unsound = _unsound(row, latest) if record is None else (*_unsound(row, latest), *_apart(row, record))
        findings += [Finding("integrity", row.position, detail) for detail in (*unsound, *problem)]
        findings += [Finding(check, row.position, detail) for check, detail in stream.differences(row, record)]
        if record is not None:
            findings += [Finding("labels", row.position, detail) for detail in labels.differences(record)]
            findings += [Finding("integrity", row.position, detail) for detail in index.differences(record)]
        count, latest, previous = count + 1, max(latest, row.update or 0), row.position
    for table in ("decisions", "labels", "posteriors", "served", "updates"):
        findings += [
            Finding("integrity", position, f"the table {table} speaks of a record that is not there")
            for (position,) in state.read(_ORPHANS.format(table=table), first if table in _MAY_OUTLIVE else 0)
        ]
    return Examined(count, findings, {**stream.largest, "labels": labels.largest})


def _miscounted(state: ServerStore) -> Iterator[str]:
    """Counters that do not fit what they count, and a table of standing labels that does not follow from their log."""
    stored, counted = state.counts(), Counter(outcome for (outcome,) in state.read("SELECT outcome FROM records"))
    for outcome in sorted({*stored, *counted}):
        kept, ever = counted[outcome], stored.get(outcome, 0)
        if kept > ever or (kept < ever and not state.first):
            yield f"{ever} records of the outcome {outcome!r} are counted, {kept} are there"
    standing = sorted(state.labels(), key=lambda label: label.position)
    if [(label.reported, label.correct) for label in standing] != state.labelled():
        yield "the labels that stand do not follow from the log of labels"
    query = "SELECT position, correct, chance FROM answers WHERE correct IS NOT NULL ORDER BY position"
    of_kept = [(label.position, label.correct, label.chance) for label in standing if label.position >= state.first]
    if list(state.read(query)) != of_kept:
        yield "the labels in the index do not follow from the log of labels"


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


def _apart(row: StoredRow, record: Record) -> Iterator[str]:
    """Where a record says something else than the tables beside it."""
    pairs: dict[str, tuple[object, object]] = {
        "confidence": (record.reply.confidence, row.confidence),
        "frozen confidence": (record.frozen.confidence, row.frozen_confidence),
        "version": (record.reply.version, row.version),
        "entropy": (record.reply.entropy, row.entropy),
        "outcome": (record.outcome, row.outcome),
        "signal": (record.signal, row.signal),
        "position": (record.position, row.position),
    }
    stored = posterior_row(record)
    if stored is not None:
        _, group, reported, differs = stored
        pairs |= {
            "views": (group, row.group or "missing"),
            "reported confidence": (reported, row.reported),
            "best answer's being another one": (differs, row.differs),
        }
    elif row.group is not None:
        yield "a posterior is stored beside it that it does not have"
    if record.reply.version == 0 and furthest(record.reply, record.frozen) > 0:
        yield "the untouched model answered, but its reply is another one than the frozen model's"
    for name, (inside, beside) in pairs.items():
        if beside is not None and inside != beside:
            yield f"its {name} is {inside} in the record and {beside} beside it"


def _read(row: StoredRow) -> tuple[Record | None, tuple[str, ...]]:
    """The record, or why it cannot be read."""
    try:
        return _record(row), ()
    except (ValueError, KeyError, TypeError, AttributeError, SeclError) as problem:
        return None, (f"it cannot be read: {problem}",)


def _record(row: StoredRow) -> Record:
    update = {"version": row.update, "before": row.before, "target": row.target, "after": row.after}
    decision = {"alarm": False, "in_burst": False, "remaining": 0, "statistic": None}
    losses = None if row.losses is None else json.loads(row.losses)
    stored = None if losses is None else {**update, "losses": losses}
    return from_plain({**json.loads(row.body), "decision": decision, "update": stored})
