"""Consistency of a state folder: stream and labels are replayed, tables compared; no model is needed."""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from secl.errors import ParameterError, RunError, SeclError
from secl.evidence import Posterior
from secl.labels import Label, LabelRule
from secl.records import Decision, Record
from secl.runs.database import read_record
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


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found.

    Attributes:
        count: records that were examined.
        posteriors: how many of them have a posterior.
        findings: what does not agree.
        largest: for "gate", "posterior" and "labels", how far numbers that agree lie apart at most.
    """

    count: int
    posteriors: int
    findings: list[Finding]
    largest: dict[str, float]


_RECORD = ("body", "alarm", "in_burst", "remaining", "statistic", "made", "before", "target", "after", "losses")
"""What a record is read from."""

_BESIDE = ("domain", "reported", "accepted", "differs", "outcome")
"""What the table `served` says of a record."""

_COLUMNS = {
    "position": "r.position", "confidence": "r.confidence", "frozen confidence": "r.frozen_confidence",
    "signal": "r.signal", "version": "r.version", "outcome": "r.outcome", "entropy": "d.entropy", "time": "s.time",
    "body": "r.body", "alarm": "d.alarm", "in_burst": "d.in_burst", "remaining": "d.remaining",
    "statistic": "d.statistic", "made": "u.version", "before": "u.before", "target": "u.target", "after": "u.after",
    "losses": "u.losses", "kept": "v.version", "made at": "m.position",
    **{f"served {name}": f"s.{name}" for name in _BESIDE},
}  # fmt: skip
"""A record with all that other tables say about it; None where they say nothing."""

_ROWS = f"""
    SELECT {", ".join(_COLUMNS.values())}
    FROM records r LEFT JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN updates u USING (position) LEFT JOIN versions v ON v.version = r.version
    LEFT JOIN updates m ON m.version = r.version ORDER BY r.position"""

_ORPHANS = """
    SELECT position FROM {table} WHERE position >= ? AND position NOT IN (SELECT position FROM records)
    ORDER BY position"""

_MAY_OUTLIVE = {"updates", "labels"}
"""Tables whose rows stay when their record is pruned."""


def examine(state: ServerStore) -> Examined:
    """Replay gate, posterior and labels over all that is stored, and compare the tables with each other.

    Args:
        state: to be examined; what has been pruned is left out.
    """
    with state.moment():
        try:
            found = _examine_records(state)
            found.findings.extend(Finding("integrity", None, detail) for detail in _miscounted(state))
        except sqlite3.DatabaseError as problem:
            raise state.store.damaged(problem) from problem
    return found


def _examine_records(state: ServerStore) -> Examined:
    replayed, labels = StreamReplay(state), LabelReplay(LabelRule(), state.label_log())
    findings = list[Finding]()
    count, posteriors, latest, first = 0, 0, 0, state.first
    previous = first - 1
    for row in (dict(zip(_COLUMNS, values, strict=True)) for values in state.read(_ROWS)):
        position = row["position"]
        if position != previous + 1:
            findings.append(Finding("integrity", position, f"positions jump from {previous} to {position}"))
        findings += [Finding("integrity", position, detail) for detail in _unsound(row, latest)]
        record = None
        try:
            record = read_record(tuple(row[name] for name in _RECORD))
        except (ValueError, KeyError, TypeError, AttributeError, SeclError) as problem:
            findings.append(Finding("integrity", position, f"it cannot be read: {problem}"))
        else:
            findings += [Finding("integrity", position, detail) for detail in _apart(row, record)]
            findings += [Finding("labels", position, detail) for detail in labels.differences(record)]
        findings += [Finding(check, position, detail) for check, detail in replayed.differences(row, record)]
        count, latest, previous = count + 1, max(latest, row["made"] or 0), position
        posteriors += record is not None and record.posterior is not None
    for table in ("decisions", "labels", "served", "updates"):
        findings += [
            Finding("integrity", position, f"the table {table} speaks of a record that is not there")
            for (position,) in state.read(_ORPHANS.format(table=table), first if table in _MAY_OUTLIVE else 0)
        ]
    return Examined(count, posteriors, findings, {**replayed.largest, "labels": labels.largest})


def _miscounted(state: ServerStore) -> Iterator[str]:
    """Counters that do not fit what they count, and labels beside the records that do not follow from their log."""
    stored, counted = state.counts(), Counter(outcome for (outcome,) in state.read("SELECT outcome FROM records"))
    for outcome in sorted({*stored, *counted}):
        kept, ever = counted[outcome], stored.get(outcome, 0)
        if kept > ever or (kept < ever and not state.first):
            yield f"{ever} records of the outcome {outcome!r} are counted, {kept} are there"
    standing = sorted(state.store.labels(), key=lambda label: label.position)
    query = "SELECT position, correct, chance FROM served WHERE correct IS NOT NULL ORDER BY position"
    of_kept = [(label.position, label.correct, label.chance) for label in standing if label.position >= state.first]
    if list(state.read(query)) != of_kept:
        yield "the labels beside the records do not follow from the log of labels"


def _unsound(row: Values, latest: int) -> Iterator[str]:
    """What is wrong with a record beside the other tables; `latest` is the last update before it."""
    made, version = row["made"], row["version"]
    if row["time"] is None:
        yield "when it was answered is missing"
    if (made is not None) != (row["outcome"] == "trained"):
        yield f"its outcome is {row['outcome']!r}, but an update of it is {'missing' if made is None else 'stored'}"
    if made is not None and made <= latest:
        yield f"its update made version {made}, which is not above the {latest} before it"
    if version and row["kept"] is None:
        yield f"version {version}, which answered, is not kept"
    if version and (row["made at"] is None or row["made at"] >= row["position"]):
        yield f"version {version}, which answered, was made by no earlier question"


def _apart(row: Values, record: Record) -> Iterator[str]:
    """Where a record says something else than the tables beside it."""
    inside: Values = {
        "position": record.position,
        "version": record.reply.version,
        "outcome": record.outcome,
        "signal": record.signal,
    }
    if record.rated:
        inside |= {
            "confidence": record.reply.confidence,
            "frozen confidence": record.frozen.confidence,
            "entropy": record.reply.entropy,
        }
    if row["time"] is not None:  # else its row in `served` is missing, which is said already
        inside |= {f"served {name}": value for name, value in columns_of(record).items()}
    for name, value in inside.items():
        if row[name] != value and not (name == "entropy" and row[name] is None):  # a missing decision is the gate's
            yield f"its {name} is {value} in the record and {row[name]} beside it"
    if record.reply.version == 0 and furthest(record.reply, record.frozen) > 0:
        yield "the untouched model answered, but its reply is another one than the frozen model's"


class StreamReplay:
    """Gate and posterior that are fed the stored entropies and evidence; it begins where pruning ended.

    Args:
        state: with the checkpoints.

    Attributes:
        largest: for each check, how far the numbers that agree lie apart at most.
    """

    def __init__(self, state: ServerStore) -> None:
        manifest = Manifest.of(state.store)
        self.state, self.gate, self.rule = state, manifest.settings.build_gate(), manifest.posterior_rule
        self.stream = stream.start(self.gate, self.rule)
        self.largest = {"gate": 0.0, "posterior": 0.0}
        self._stuck: set[str] = set()
        self._problem: str | None = None
        try:
            self.stream = stream.resume(state, self.gate, self.rule, state.first)
            if self.stream.position != state.first:
                self._problem = "the checkpoint is missing where pruning ended"
        except RunError as problem:
            self._problem = str(problem)
        if self._problem is not None:
            self._stuck = {"gate", "posterior"}

    def differences(self, row: Values, record: Record | None) -> Iterator[tuple[str, str]]:
        """What differs from the stored record, and the check that finds it; call it in order.

        Args:
            row: of the record, as of `_COLUMNS`.
            record: None if it cannot be read.
        """
        if self._problem is not None:
            yield "integrity", f"gate and posterior cannot be replayed: {self._problem}"
            self._problem = None
        yield from (("gate", detail) for detail in self._gate_differences(row))
        yield from (("posterior", detail) for detail in self._posterior_differences(row, record))
        if not self._stuck and not stream.agrees(self.state, self.stream):
            yield "integrity", "the checkpoint behind it is not where the stream stands"

    def _gate_differences(self, row: Values) -> Iterator[str]:
        if "gate" in self._stuck:
            return
        unseen = row["outcome"] in ("given", "unrated")
        if unseen or row["entropy"] is None:
            if not unseen:
                yield "its decision is missing"
            self.stream = replace(self.stream, position=self.stream.position + 1)
            return
        try:
            self.stream, now = self.stream.step(self.gate, row["entropy"])
        except ParameterError as problem:
            self._stuck.add("gate")
            yield f"the gate cannot be replayed from here on: {problem}"
            return
        then = Decision(
            alarm=bool(row["alarm"]),
            in_burst=bool(row["in_burst"]),
            remaining=row["remaining"] or 0,
            statistic=row["statistic"],
        )
        if self._exceeds("gate", furthest(now, then)):
            yield f"the gate decides {_describe(now)}, stored is {_describe(then)}"

    def _posterior_differences(self, row: Values, record: Record | None) -> Iterator[str]:
        if record is None and row["served differs"] is not None and "posterior" not in self._stuck:
            self._stuck.add("posterior")
            yield "posteriors cannot be replayed from here on"
        if "posterior" in self._stuck or record is None or not record.rated:
            return
        views = self.rule.read(record.question, record.reply, record.frozen, record.evidence)
        after, now = self.rule.step(self.stream.posterior, views)
        self.stream = replace(self.stream, posterior=after)
        if self._exceeds("posterior", furthest(now, record.posterior)):
            yield f"the evidence gives {_posterior_words(now)}, stored is {_posterior_words(record.posterior)}"

    def _exceeds(self, check: str, difference: float) -> bool:
        """Whether a difference is more than arithmetic makes; the largest of the others is kept."""
        if difference > ARITHMETIC:
            return True
        self.largest[check] = max(self.largest[check], difference)
        return False


class LabelReplay:
    """A rule that is fed the stored labels.

    Args:
        rule: of the server.
        log: all entries in order.

    Attributes:
        largest: how far the confidences that agree lie apart at most.
    """

    def __init__(self, rule: LabelRule, log: Sequence[Label]) -> None:
        self.rule, self.state = rule, rule.start()
        self.largest = 0.0
        self._left = deque(log)
        self._of_record: dict[int, list[Label]] = {}
        for label in log:
            self._of_record.setdefault(label.position, []).append(label)

    def differences(self, record: Record) -> Iterator[str]:
        """How a record's confidence, and the labels about it, differ from what is stored; call it in order."""
        for label in self._of_record.get(record.position, ()):
            said = (label.confidence, label.domain, label.reported)
            if said != (record.label_free, record.question.domain, record.confidence):
                yield f"label {label.number} is about another confidence than the record's"
        if record.labelled is None:
            return
        known = []
        while self._left and self._left[0].number <= record.labelled.until:
            known.append(self._left.popleft())
        self.state = self.rule.add(self.state, known)
        now = self.rule.rate(self.state, record.question.domain, record.label_free)
        apart = furthest(now, record.labelled)
        if apart <= ARITHMETIC:
            self.largest = max(self.largest, apart)
        else:
            yield (
                f"the labels until then give {now.confidence} ({now.low} to {now.high}), stored is "
                f"{record.labelled.confidence} ({record.labelled.low} to {record.labelled.high})"
            )


def _posterior_words(posterior: Posterior | None) -> str:
    if posterior is None:
        return "no posterior"
    chances = ", ".join(map(str, posterior.probabilities))
    weights = ", ".join(f"{name} {weight}" for name, weight in posterior.weights)
    return f"{chances} (weights {weights})"


def _describe(decision: Decision) -> str:
    what = "alarm" if decision.alarm else "burst" if decision.in_burst else "quiet"
    return f"{what} ({decision.remaining} to come, statistic {decision.statistic})"
