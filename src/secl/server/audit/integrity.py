"""Consistency of a state folder: gate, posterior and labels are replayed, the tables compared; no model is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from secl.errors import ParameterError, SeclError
from secl.evidence import Posterior
from secl.gates import Gate, gap_of
from secl.labels import LabelRule
from secl.posterior.rule import PosteriorRule
from secl.records import Decision, Record
from secl.runs.encoding import from_plain
from secl.runs.manifest import Manifest
from secl.server.audit.labels import LabelReplay
from secl.server.audit.posteriors import posterior_row
from secl.server.audit.store import ServerStore


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
    informed: int | None
    differs: int | None


# One statement sees one moment, also while a server goes on writing.
_ROWS = """
    SELECT r.position, r.confidence, r.frozen_confidence, r.version, r.outcome, r.body,
           d.alarm, d.in_burst, d.remaining, d.statistic, d.entropy, s.time,
           u.version, u.before, u.target, u.after, u.losses, v.version, m.position, {posteriors}
    FROM records r LEFT JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN updates u USING (position) LEFT JOIN versions v ON v.version = r.version
    LEFT JOIN updates m ON m.version = r.version {join} ORDER BY r.position"""

_POSTERIORS = "p.views, p.confidence, p.informed, p.differs"

_ORPHANS = "SELECT position FROM {table} WHERE position NOT IN (SELECT position FROM records) ORDER BY position"


def examine(state: ServerStore) -> tuple[int, list[Finding]]:
    """Replay gate, posterior and labels over all that is stored, and compare the tables with each other.

    Returns:
        how many records were examined, and what does not agree.
    """
    settings = Manifest.of(state).settings
    gates, posteriors = _GateReplay(settings.build_gate()), _PosteriorReplay(PosteriorRule(settings.posterior))
    labels = LabelReplay(LabelRule(settings.label), state.label_log())
    findings: list[Finding] = []
    count, latest, previous = 0, 0, -1
    with state.lock:
        for row in _rows(state):
            if row.position != previous + 1:
                findings.append(Finding("integrity", row.position, f"positions jump from {previous} to {row.position}"))
            record, problem = _read(row)
            unsound = _unsound(row, latest) if record is None else (*_unsound(row, latest), *_apart(row, record))
            findings += [Finding("integrity", row.position, detail) for detail in (*unsound, *problem)]
            findings += [Finding("gate", row.position, detail) for detail in gates.differences(row, record)]
            findings += [Finding("posterior", row.position, detail) for detail in posteriors.differences(row, record)]
            if record is not None:
                findings += [Finding("labels", row.position, detail) for detail in labels.differences(record)]
            count, latest, previous = count + 1, max(latest, row.update or 0), row.position
        for table in sorted(state.tables & {"decisions", "served", "updates", "labels", "posteriors"}):
            findings += [
                Finding("integrity", position, f"the table {table} speaks of a record that is not there")
                for (position,) in state._read(_ORPHANS.format(table=table))
            ]
    return count, findings


def _rows(state: ServerStore) -> Iterator[StoredRow]:
    if state.has_posteriors:
        query = _ROWS.format(posteriors=_POSTERIORS, join="LEFT JOIN posteriors p USING (position)")
    else:
        query = _ROWS.format(posteriors="NULL, NULL, NULL, NULL", join="")
    return (StoredRow(*values) for values in state._read(query))


class _PosteriorReplay:
    """A posterior's rule that is fed the stored evidence."""

    def __init__(self, rule: PosteriorRule) -> None:
        self.rule, self.state = rule, rule.start()
        self.stuck = False

    def differences(self, row: StoredRow, record: Record | None) -> Iterator[str]:
        """How the posterior of a record differs from the stored one; None for a record that cannot be read."""
        if record is None and row.group is not None and not self.stuck:
            self.stuck = True
            yield "posteriors cannot be replayed from here on"
        if self.stuck or record is None:
            return
        views = self.rule.read(record.question, record.reply, record.frozen, record.evidence)
        self.state, now = self.rule.step(self.state, views)
        if now != record.posterior:
            yield f"the evidence gives {_posterior_words(now)}, stored is {_posterior_words(record.posterior)}"


def _posterior_words(posterior: Posterior | None) -> str:
    if posterior is None:
        return "no posterior"
    chances = ", ".join(map(str, posterior.probabilities))
    weights = ", ".join(f"{name} {weight}" for name, weight in posterior.weights)
    return f"{chances} (weights {weights}; {'informed' if posterior.informed else 'uninformed'})"


class _GateReplay:
    """A gate that is fed the stored entropies, and the gaps if it watches them."""

    def __init__(self, gate: Gate) -> None:
        self.gate, self.state = gate, gate.start()
        self.stuck = False

    def differences(self, row: StoredRow, record: Record | None) -> Iterator[str]:
        """How the gate's decision differs from the stored one; None for a record that cannot be read."""
        if self.stuck or row.outcome == "given":  # the gate does not see what others answered
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
        if record is not None and (gap := gap_of(record)) is not None:
            self.state = self.gate.observe(self.state, gap)
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


def _apart(row: StoredRow, record: Record) -> Iterator[str]:
    """Where a record says something else than the tables beside it."""
    pairs: dict[str, tuple[object, object]] = {
        "confidence": (record.reply.confidence, row.confidence),
        "frozen confidence": (record.frozen.confidence, row.frozen_confidence),
        "version": (record.reply.version, row.version),
        "entropy": (record.reply.entropy, row.entropy),
        "outcome": (record.outcome, row.outcome),
        "position": (record.position, row.position),
    }
    stored = posterior_row(record)
    if stored is not None:
        _, group, reported, informed, differs = stored
        pairs |= {
            "group of questions": (group, row.group or "missing"),
            "reported confidence": (reported, row.reported),
            "posterior's being informed": (informed, row.informed),
            "best answer's being another one": (differs, row.differs),
        }
    elif row.group is not None:
        yield "a posterior is stored beside it that it does not have"
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
