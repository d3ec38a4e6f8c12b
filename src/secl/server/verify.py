"""Consistency of a state folder: stream and labels are replayed, tables compared; no model is needed."""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from secl.errors import ParameterError, RunError
from secl.evidence import Posterior
from secl.labels import Label, LabelRule
from secl.records import Decision, Record
from secl.runs.manifest import Manifest
from secl.server import stream
from secl.server.closeness import ARITHMETIC, furthest
from secl.server.entries import Values
from secl.server.store import ServerStore
from secl.server.tables import columns_of


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


@dataclass(slots=True)
class Examined:
    """What an examination found.

    Attributes:
        count: records that were examined.
        findings: what does not agree.
        largest: for "gate", "posterior" and "labels", how far numbers that agree lie apart at most.
    """

    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=lambda: {"gate": 0.0, "posterior": 0.0, "labels": 0.0})


_BESIDE = """
    SELECT r.confidence, r.frozen_confidence, r.signal, r.version, r.outcome, d.entropy, s.time,
           s.domain, s.reported, s.accepted, s.outcome, v.version, m.position
    FROM records r JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN versions v ON v.version = r.version LEFT JOIN updates m ON m.version = r.version WHERE r.position = ?"""

_COPIES = (
    "confidence", "frozen confidence", "signal", "version", "outcome", "entropy", "time",
    "served domain", "served reported", "served accepted", "served outcome", "kept", "made at",
)  # fmt: skip
"""What the tables beside a record say about it; None where they say nothing."""

_ORPHANS = """
    SELECT position FROM {table} WHERE position >= ? AND position NOT IN (SELECT position FROM records)
    ORDER BY position"""

_MAY_OUTLIVE = {"updates", "labels"}
"""Tables whose rows stay when their record is pruned."""


def examine(state: ServerStore) -> Examined:
    """Replay gate, posterior and labels over all that is stored, and compare the tables with each other.

    What has been pruned is left out. Where a record cannot be read or replayed, nothing behind it is replayed.
    """
    examined = Examined()
    with state.moment():
        try:
            examined.findings += _examine_records(state, examined)
            examined.findings += _examine_tables(state)
        except sqlite3.DatabaseError as problem:
            raise state.store.damaged(problem) from problem
    return examined


def _examine_records(state: ServerStore, examined: Examined) -> Iterator[Finding]:
    latest, previous = 0, state.first - 1
    try:
        replay = Replay(state, examined.largest)
        for record in state.store.records("1"):
            position = record.position
            if position != previous + 1:
                yield Finding("integrity", position, f"positions jump from {previous} to {position}")
            yield from (Finding("integrity", position, detail) for detail in _apart(state, record, latest))
            yield from (Finding(check, position, detail) for check, detail in replay.differences(record))
            latest = latest if record.update is None else record.update.version
            previous, examined.count = position, examined.count + 1
    except (RunError, ParameterError) as problem:
        yield Finding("integrity", previous + 1, f"it cannot be read or replayed, nor what is behind it: {problem}")


def _examine_tables(state: ServerStore) -> Iterator[Finding]:
    """Rows about records that are not there, counters that are wrong, and labels that do not follow from their log."""
    for table in ("decisions", "labels", "served", "updates"):
        orphans = state.read(_ORPHANS.format(table=table), state.first if table in _MAY_OUTLIVE else 0)
        for (position,) in orphans:
            yield Finding("integrity", position, f"the table {table} speaks of a record that is not there")
    stored, there = state.counts(), Counter(outcome for (outcome,) in state.read("SELECT outcome FROM records"))
    for outcome in sorted({*stored, *there}):
        kept, ever = there[outcome], stored.get(outcome, 0)
        if kept > ever or (kept < ever and not state.first):
            yield Finding("integrity", None, f"{ever} records of the outcome {outcome!r} are counted, {kept} are there")
    standing = sorted(state.store.labels(), key=lambda label: label.position)
    query = "SELECT position, correct, chance FROM served WHERE correct IS NOT NULL ORDER BY position"
    of_kept = [(label.position, label.correct, label.chance) for label in standing if label.position >= state.first]
    if list(state.read(query)) != of_kept:
        yield Finding("integrity", None, "the labels beside the records do not follow from the log of labels")


def _apart(state: ServerStore, record: Record, latest: int) -> Iterator[str]:
    """Where a record and the tables beside it contradict each other; `latest` is the last update before it."""
    beside = dict(zip(_COPIES, next(state.read(_BESIDE, record.position), ()), strict=True))
    reply, update, version = record.reply, record.update, record.reply.version
    inside: Values = {"version": version, "outcome": record.outcome, "signal": record.signal}
    if record.rated:
        inside |= {
            "confidence": reply.confidence,
            "frozen confidence": record.frozen.confidence,
            "entropy": reply.entropy,
        }
    if beside["time"] is None:
        yield "when it was answered is missing"
    else:
        inside |= {f"served {name}": value for name, value in columns_of(record).items()}
    for name, value in inside.items():
        if beside[name] != value:
            yield f"its {name} is {value} in the record and {beside[name]} beside it"
    if (update is not None) != (record.outcome == "trained"):
        yield f"its outcome is {record.outcome!r}, but an update of it is {'stored' if update else 'missing'}"
    if update is not None and update.version <= latest:
        yield f"its update made version {update.version}, which is not above the {latest} before it"
    if version and beside["kept"] is None:
        yield f"version {version}, which answered, is not kept"
    if version and (beside["made at"] is None or beside["made at"] >= record.position):
        yield f"version {version}, which answered, was made by no earlier question"
    if not version and furthest(reply, record.frozen) > 0:
        yield "the untouched model answered, but its reply is another one than the frozen model's"


class Replay:
    """Gate, posterior and labels that are fed what is stored; it begins where pruning ended.

    Args:
        state: with checkpoints and labels.
        largest: for each check, how far the numbers that agree lie apart at most; it is brought up to date.

    Raises:
        RunError: the checkpoint where pruning ended is missing or damaged.
    """

    def __init__(self, state: ServerStore, largest: dict[str, float]) -> None:
        manifest = Manifest.of(state.store)
        self.state, self.largest = state, largest
        self.gate, self.rule = manifest.settings.build_gate(), manifest.posterior_rule
        self.stream = stream.resume(state, self.gate, self.rule, state.first)
        if self.stream.position != state.first:
            raise RunError("the checkpoint is missing where pruning ended.")
        self.label_rule = LabelRule()
        self.labels = self.label_rule.start()
        log = state.label_log()
        self._left = deque(log)
        self._of_record: dict[int, list[Label]] = {}
        for label in log:
            self._of_record.setdefault(label.position, []).append(label)

    def differences(self, record: Record) -> Iterator[tuple[str, str]]:
        """The checks that find a difference from the stored record, each with what it is; call it in order.

        Raises:
            ParameterError: the gate does not take the stored entropy.
        """
        yield from (("gate", detail) for detail in self._of_gate(record))
        if record.rated:
            yield from (("posterior", detail) for detail in self._of_posterior(record))
        yield from (("labels", detail) for detail in self._of_labels(record))
        if not stream.agrees(self.state, self.stream):
            yield "integrity", "the checkpoint behind it is not where the stream stands"

    def _of_gate(self, record: Record) -> Iterator[str]:
        if record.given or not record.rated:
            self.stream = replace(self.stream, position=self.stream.position + 1)
            return
        self.stream, now = self.stream.step(self.gate, record.reply.entropy)
        if self._exceeds("gate", furthest(now, record.decision)):
            yield f"the gate decides {_described(now)}, stored is {_described(record.decision)}"

    def _of_posterior(self, record: Record) -> Iterator[str]:
        views = self.rule.read(record.question, record.reply, record.frozen, record.evidence)
        after, now = self.rule.step(self.stream.posterior, views)
        self.stream = replace(self.stream, posterior=after)
        if self._exceeds("posterior", furthest(now, record.posterior)):
            yield f"the evidence gives {_in_words(now)}, stored is {_in_words(record.posterior)}"

    def _of_labels(self, record: Record) -> Iterator[str]:
        about = (record.label_free, record.question.domain, record.confidence)
        for label in self._of_record.get(record.position, ()):
            if (label.confidence, label.domain, label.reported) != about:
                yield f"label {label.number} is about another confidence than the record's"
        if (stored := record.labelled) is None:
            return
        known = []
        while self._left and self._left[0].number <= stored.until:
            known.append(self._left.popleft())
        self.labels = self.label_rule.add(self.labels, known)
        now = self.label_rule.rate(self.labels, record.question.domain, record.label_free)
        if self._exceeds("labels", furthest(now, stored)):
            yield (
                f"the labels until then give {now.confidence} ({now.low} to {now.high}), stored is "
                f"{stored.confidence} ({stored.low} to {stored.high})"
            )

    def _exceeds(self, check: str, difference: float) -> bool:
        """Whether a difference is more than arithmetic makes; the largest of the others is kept."""
        if difference > ARITHMETIC:
            return True
        self.largest[check] = max(self.largest[check], difference)
        return False


def _in_words(posterior: Posterior | None) -> str:
    if posterior is None:
        return "no posterior"
    chances = ", ".join(map(str, posterior.probabilities))
    weights = ", ".join(f"{name} {weight}" for name, weight in posterior.weights)
    return f"{chances} (weights {weights})"


def _described(decision: Decision) -> str:
    what = "alarm" if decision.alarm else "burst" if decision.in_burst else "quiet"
    return f"{what} ({decision.remaining} to come, statistic {decision.statistic})"
