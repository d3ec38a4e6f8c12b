"""Check the consistency of a state folder: compute gate, posterior and labels again from the stored evidence.

The check needs no model. Another processor may add numbers in another order, and then floating-point results differ.
"""

from __future__ import annotations

import math
import sqlite3
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Literal

from secl.errors import ParameterError, RunError
from secl.evidence import Posterior
from secl.fields.weighing import with_unseen
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.records import Decision, Record
from secl.runs.manifest import Manifest
from secl.server.entries import Values, reported_numbers
from secl.server.store import ServerStore

ARITHMETIC = 1e-9
"""Largest difference between a recomputed and a stored number that rounding explains, for numbers around 1.

A floating-point operation rounds by 2^-53 (1.1e-16). Sums of some thousand numbers stay below the bound, even if a fit
multiplies their errors by 1000. Manual changes exceed the bound. So do flipped bits in the exponent of a number or in
the leading half of its mantissa.
"""

Check = Literal["gate", "posterior", "labels", "integrity", "confidence"]
"""What a finding contradicts; "integrity" stands for the tables, "confidence" for a reply computed again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A contradiction in a state folder, in one sentence."""

    check: Check
    position: int
    detail: str


@dataclass(frozen=True, slots=True)
class Rederived:
    """A reply that secl computed again, compared with the stored reply.

    Attributes:
        agrees: whether both replies agree. None if secl cannot verify the reply: its texts were not kept, it is a field
            of an object, or rounding may have led to another letter, thought or set of candidates.
        difference: largest difference between probabilities (`recompute.distance`); None without a comparison.
        detail: how the reply differs, or why secl cannot verify the reply, in one sentence; empty if it agrees.
    """

    position: int
    version: int
    agrees: bool | None
    difference: float | None
    detail: str = ""


@dataclass(slots=True)
class Verification:
    """Result of verifying a state folder.

    Attributes:
        first: position of the first kept record.
        examined: number of replayed records.
        largest: for each check, the largest difference that secl found between agreeing numbers.
        rederived: replies that secl computed again.
        tolerance: largest difference between probabilities of replies that agree.
        environment: differences of machine and libraries between this process and the server.
    """

    first: int
    examined: int = 0
    findings: list[Finding] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("gate", "posterior", "labels"), 0.0))
    rederived: list[Rederived] = field(default_factory=list)
    tolerance: float = 0.0
    environment: list[str] = field(default_factory=list)

    def find(self, check: Check, position: int, detail: str) -> None:
        self.findings.append(Finding(check, position, detail))

    def compare(self, check: Check, position: int, difference: float, detail: str) -> None:
        """Add a finding if a number differs from the stored number by more than rounding explains."""
        if difference > ARITHMETIC:
            self.find(check, position, detail)
        else:
            self.largest[check] = max(self.largest[check], difference)

    def to_json(self) -> Values:
        return {"agrees": not self.findings, **asdict(self)}


def examine(state: ServerStore) -> Verification:
    """Replay gate, posterior and labels over all kept records, and compare the other tables with the records.

    The replay ends at the first record that secl cannot read or replay.
    """
    with state.moment():
        found = Verification(state.first)
        try:
            _replay(state, found)
        except (RunError, ParameterError) as problem:
            detail = f"the record cannot be read or replayed, so the replay ends here: {problem}"
            found.find("integrity", found.first + found.examined, detail)
        except sqlite3.DatabaseError as problem:
            raise state.damaged(problem) from problem
        for detail, query in CONTRADICTIONS.items():
            for (position,) in state.rows(query, found.first):
                found.find("integrity", position, detail)
    return found


def _replay(state: ServerStore, found: Verification) -> None:
    """Replay all records through gate, posterior and labels, and add findings. Raises RunError, ParameterError."""
    manifest, first = Manifest.of(state), state.first
    gate, plan, labels = manifest.settings.build_gate(), manifest.plan, LabelReplay(state)
    now = state.stream(gate, plan.posterior, first)
    if now.position != first:
        raise RunError("the checkpoint at the first kept record is missing.")
    for record in state.records():
        position = record.position
        if position != first + found.examined:
            raise RunError(f"the next record should be {first + found.examined}, but is {position}.")
        now, decision, posterior = now.follow(record, gate, plan.posterior)
        if record.outcome == "field" and posterior is not None and record.posterior is not None:
            posterior = with_unseen(posterior, record.posterior)
        if decision is not None:
            detail = f"the gate now decides {_gate_text(decision)}; the record has {_gate_text(record.decision)}"
            found.compare("gate", position, furthest(decision, record.decision), detail)
        detail = f"the evidence now gives {_in_words(posterior)}; the record has {_in_words(record.posterior)}"
        found.compare("posterior", position, furthest(posterior, record.posterior), detail)
        found.compare("labels", position, *labels.difference(record))
        signal = plan.signal(record.question, record.reply, record.evidence)  # None if texts were not kept
        if None not in (signal, record.signal) and furthest(signal, record.signal) > ARITHMETIC:
            found.find("integrity", position, "its signal does not follow from its evidence")
        numbers = state.rows("SELECT reported, frozen, accepted FROM served WHERE position = ?", position)
        if numbers != [reported_numbers(record)]:
            found.find("integrity", position, 'its row in the table "served" is missing or contradicts the record')
        found.examined += 1


CONTRADICTIONS = {
    'the table "served" has this record, but the table "records" does not': """
        SELECT position FROM served WHERE position >= ? AND position NOT IN (SELECT position FROM records)""",
    "its outcome and its stored update contradict each other": """
        SELECT position FROM records WHERE position >= ? AND (outcome = 'trained') != (learned IS NOT NULL)""",
    "the version of its update is not higher than the version of the previous update": """
        SELECT position FROM (
            SELECT position, learned, lag(learned) OVER (ORDER BY position) AS before FROM records
            WHERE learned IS NOT NULL)
        WHERE position >= ? AND learned <= before""",
    "the adapter version that answered is not stored": """
        SELECT position FROM records
        WHERE position >= ? AND version > 0 AND version NOT IN (SELECT version FROM versions)""",
    "no earlier record made the adapter version that answered": """
        SELECT position FROM records r WHERE position >= ?1 AND version > 0
        AND NOT EXISTS (SELECT 1 FROM records u WHERE u.learned = r.version AND u.position < r.position)
        AND (?1 = 0 OR version >= (SELECT min(learned) FROM records))""",
    "a label names this record, which does not exist": """
        SELECT position FROM labels WHERE position >= ? AND position NOT IN (SELECT position FROM records)""",
}
"""Queries for the positions of contradictory records. Each key is the sentence of the finding.

The parameter is the position of the first kept record. The queries accept versions that pruned records made.
"""


class LabelReplay:
    """Recomputes calibrated confidences from the labels in the log that the server knew when it answered."""

    def __init__(self, state: ServerStore) -> None:
        self._log = deque(state.label_log())
        self._about: dict[int, list[Label]] = {}
        for label in self._log:
            self._about.setdefault(label.position, []).append(label)
        self._state = LabelState.start(Manifest.of(state).calibration)

    def difference(self, record: Record) -> tuple[float, str]:
        """Return the difference between recomputed and stored calibrated confidence, and a sentence about it."""
        confidences = (record.label_free, record.question.domain, record.expected_grade)
        for label in self._about.get(record.position, ()):
            if (label.confidence, label.domain, label.reported) != confidences:
                return float("inf"), f"label {label.number} and the record have different confidences or domains"
        if (stored := record.labelled) is None:
            return 0.0, ""
        known = []
        while self._log and self._log[0].number <= stored.until:
            known.append(self._log.popleft())
        self._state = self._state.add(known)
        now = self._state.rate(record.question.domain, record.label_free, record.threshold)
        return furthest(now, stored), (
            f"the labels known at this answer give {now.confidence} ({now.low} to {now.high}); the record has "
            f"{stored.confidence} ({stored.low} to {stored.high})"
        )


def _in_words(posterior: Posterior | None) -> str:
    if posterior is None:
        return "no posterior"
    chances = ", ".join(map(str, posterior.probabilities))
    weights = ", ".join(f"{name} {weight}" for name, weight in posterior.weights)
    return f"{chances} (weights {weights})"


def _gate_text(decision: Decision) -> str:
    what = "alarm" if decision.alarm else "burst" if decision.in_burst else "quiet"
    return f"{what} (questions to come: {decision.remaining}, statistic: {decision.statistic})"


def furthest(now: object, then: object) -> float:
    """Return the largest difference between the numbers in two nested values; infinity if anything else differs.

    Numbers above 1 are compared relative to their size; whole numbers, texts, infinities and nan must be equal.

    >>> furthest({"p": (0.25, 0.5)}, {"p": [0.25, 0.75]}), furthest([1, "a"], [2, "a"]), furthest(None, 0.1)
    (0.25, inf, inf)
    """
    now, then = (asdict(each) if is_dataclass(each) and not isinstance(each, type) else each for each in (now, then))
    if isinstance(now, float) and isinstance(then, float):
        if math.isfinite(now) and math.isfinite(then):
            return abs(now - then) / max(1.0, abs(now), abs(then))
        return 0.0 if now == then or (math.isnan(now) and math.isnan(then)) else math.inf
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        if now.keys() != then.keys():
            return math.inf
        return max((furthest(now[key], then[key]) for key in now), default=0.0)
    if isinstance(now, (list, tuple)) and isinstance(then, (list, tuple)):
        if len(now) != len(then):
            return math.inf
        return max((furthest(a, b) for a, b in zip(now, then, strict=True)), default=0.0)
    return 0.0 if type(now) is type(then) and now == then else math.inf
