"""Consistency of a state folder: stream and labels are replayed, tables compared; no model is needed."""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from secl.errors import ParameterError, RunError
from secl.evaluation.json_values import defined
from secl.evidence import Posterior
from secl.labels import Label, LabelRule
from secl.records import Decision, Record
from secl.runs.manifest import Manifest
from secl.server import stream
from secl.server.closeness import ARITHMETIC, furthest
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


def examine(state: ServerStore) -> Examination:
    """Replay gate, posterior and labels over all that is stored, and compare the tables with each other.

    What has been pruned is left out. Where a record cannot be read or replayed, nothing behind it is replayed.
    """
    examination = Examination(state)
    with state.moment():
        try:
            examination.findings += examination.records()
            examination.findings += examination.tables()
        except sqlite3.DatabaseError as problem:
            raise state.store.damaged(problem) from problem
    return examination


_BESIDE = """
    SELECT r.confidence, r.frozen_confidence, r.signal, r.version, r.outcome, d.entropy,
           s.domain, s.reported, s.accepted, s.outcome, v.version, m.position
    FROM records r LEFT JOIN decisions d USING (position) LEFT JOIN served s USING (position)
    LEFT JOIN versions v ON v.version = r.version LEFT JOIN updates m ON m.version = r.version WHERE r.position = ?"""

_WITHOUT = """
    SELECT position FROM {table} WHERE position >= ? AND position NOT IN (SELECT position FROM {other})
    ORDER BY position"""


class Examination:
    """What is stored, fed to gate, posterior and labels again; it begins where pruning ended.

    Attributes:
        count: records that were examined.
        findings: what does not agree.
        largest: for "gate", "posterior" and "labels", how far numbers that agree lie apart at most.
    """

    def __init__(self, state: ServerStore) -> None:
        self.state, self.count = state, 0
        self.findings: list[Finding] = []
        self.largest = {"gate": 0.0, "posterior": 0.0, "labels": 0.0}

    def records(self) -> Iterator[Finding]:
        """Where a record does not follow from those before it, or contradicts the tables beside it."""
        state, latest, previous = self.state, 0, self.state.first - 1
        try:
            manifest = Manifest.of(state.store)
            gate, rule, labels = manifest.settings.build_gate(), manifest.posterior_rule, LabelsAgain(state)
            now = stream.resume(state, gate, rule, state.first)
            if now.position != state.first:
                raise RunError("the checkpoint is missing where pruning ended.")
            for record in state.store.records("1"):
                position = record.position
                if position != previous + 1:
                    yield Finding("integrity", position, f"positions jump from {previous} to {position}")
                yield from (Finding("integrity", position, detail) for detail in _apart(state, record, latest))
                now, decision, posterior = stream.after(now, record, gate, rule)
                if decision is not None and self._exceeds("gate", furthest(decision, record.decision)):
                    detail = f"the gate decides {_described(decision)}, stored is {_described(record.decision)}"
                    yield Finding("gate", position, detail)
                if record.rated and self._exceeds("posterior", furthest(posterior, record.posterior)):
                    detail = f"the evidence gives {_in_words(posterior)}, stored is {_in_words(record.posterior)}"
                    yield Finding("posterior", position, detail)
                difference, detail = labels.difference(record)
                if self._exceeds("labels", difference):
                    yield Finding("labels", position, detail)
                if not stream.agrees(state, now):
                    yield Finding("integrity", position, "the checkpoint behind it is not where the stream stands")
                latest = latest if record.update is None else record.update.version
                previous, self.count = position, self.count + 1
        except (RunError, ParameterError) as problem:
            detail = f"it cannot be read or replayed, nor what is behind it: {problem}"
            yield Finding("integrity", previous + 1, detail)

    def _exceeds(self, check: str, difference: float) -> bool:
        """Whether a difference is more than arithmetic makes; the largest of the others is noted."""
        if difference > ARITHMETIC:
            return True
        self.largest[check] = max(self.largest[check], difference)
        return False

    def tables(self) -> Iterator[Finding]:
        """Rows without their counterpart, counters that are wrong, and labels that do not follow from their log."""
        state = self.state
        everywhere = [(table, "records", 0) for table in ("decisions", "served")]
        everywhere += [("records", table, 0) for table in ("decisions", "served")]
        outliving = [(table, "records", state.first) for table in ("labels", "updates")]  # rows of pruned records stay
        for table, other, since in everywhere + outliving:
            for (position,) in state.rows(_WITHOUT.format(table=table, other=other), since):
                yield Finding("integrity", position, f"it is in the table {table}, but not in {other}")
        counted, there = state.counts(), Counter(outcome for (outcome,) in state.rows("SELECT outcome FROM records"))
        for outcome in sorted({*counted, *there}):
            now, ever = there[outcome], counted.get(outcome, 0)
            if now > ever or (now < ever and not state.first):
                detail = f"{ever} records of the outcome {outcome!r} are counted, {now} are there"
                yield Finding("integrity", None, detail)
        standing = sorted(state.store.labels(), key=lambda label: label.position)
        query = "SELECT position, correct, chance FROM served WHERE correct IS NOT NULL ORDER BY position"
        expected = [(each.position, each.correct, each.chance) for each in standing if each.position >= state.first]
        if state.rows(query) != expected:
            yield Finding("integrity", None, "the labels beside the records do not follow from the log of labels")


def _apart(state: ServerStore, record: Record, latest: int) -> Iterator[str]:
    """Where a record and the tables beside it contradict each other; `latest` is the last update before it."""
    reply, update, version = record.reply, record.update, record.reply.version
    inside = {
        "confidence": defined(reply.confidence),
        "frozen confidence": defined(record.frozen.confidence),
        "signal": record.signal,
        "version": version,
        "outcome": record.outcome,
        "entropy": defined(reply.entropy),
        **{f"served {name}": value for name, value in columns_of(record).items()},
    }
    row = next(iter(state.rows(_BESIDE, record.position)), (None,) * (len(inside) + 2))
    *beside, kept, made_at = row
    for (name, value), other in zip(inside.items(), beside, strict=True):
        if other != value:
            yield f"its {name} is {value} in the record and {other} beside it"
    if (update is not None) != (record.outcome == "trained"):
        yield f"its outcome is {record.outcome!r}, but an update of it is {'stored' if update else 'missing'}"
    if update is not None and update.version <= latest:
        yield f"its update made version {update.version}, which is not above the {latest} before it"
    if version and kept is None:
        yield f"version {version}, which answered, is not kept"
    if version and (made_at is None or made_at >= record.position):
        yield f"version {version}, which answered, was made by no earlier question"
    if not version and furthest(reply, record.frozen) > 0:
        yield "the untouched model answered, but its reply is another one than the frozen model's"


class LabelsAgain:
    """The log of labels, taken into account again as far as each record knew of it."""

    def __init__(self, state: ServerStore) -> None:
        self._log = deque(state.label_log())
        self._about: dict[int, list[Label]] = {}
        for label in self._log:
            self._about.setdefault(label.position, []).append(label)
        self._rule = LabelRule()
        self._state = self._rule.start()

    def difference(self, record: Record) -> tuple[float, str]:
        """How far what labels made of a record is from what they make of it now, and that in a sentence."""
        confidences = (record.label_free, record.question.domain, record.confidence)
        for label in self._about.get(record.position, ()):
            if (label.confidence, label.domain, label.reported) != confidences:
                return float("inf"), f"label {label.number} is about another confidence than the record's"
        if (stored := record.labelled) is None:
            return 0.0, ""
        known = []
        while self._log and self._log[0].number <= stored.until:
            known.append(self._log.popleft())
        self._state = self._rule.add(self._state, known)
        now = self._rule.rate(self._state, record.question.domain, record.label_free)
        return furthest(now, stored), (
            f"the labels until then give {now.confidence} ({now.low} to {now.high}), stored is "
            f"{stored.confidence} ({stored.low} to {stored.high})"
        )


def _in_words(posterior: Posterior | None) -> str:
    if posterior is None:
        return "no posterior"
    chances = ", ".join(map(str, posterior.probabilities))
    weights = ", ".join(f"{name} {weight}" for name, weight in posterior.weights)
    return f"{chances} (weights {weights})"


def _described(decision: Decision) -> str:
    what = "alarm" if decision.alarm else "burst" if decision.in_burst else "quiet"
    return f"{what} ({decision.remaining} to come, statistic {decision.statistic})"
