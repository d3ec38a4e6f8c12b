"""Verify a run or a state folder: compare all rows with their hashes, and recompute confidences from stored evidence.

secl replays gate, posterior and labels, and needs no model. Another processor may add numbers in another order, and
then floating-point results differ.
"""

from __future__ import annotations

import math
import sqlite3
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Literal

from secl.calibrator import StreamState
from secl.errors import ParameterError, RunError
from secl.evidence import Posterior
from secl.fields.weighing import with_unseen
from secl.gates import Gate
from secl.labels.label import Label, LabelKey
from secl.labels.state import LabelState
from secl.records import Decision, Record
from secl.runs import chain
from secl.runs.extracting import FAILURES
from secl.runs.folder import DAMAGE
from secl.runs.manifest import Manifest
from secl.runs.store import SCHEMA, Store
from secl.server.entries import TABLES, JsonObject, listed_values
from secl.server.store import ServerStore

ARITHMETIC = 1e-9
"""Largest difference between a recomputed and a stored number that rounding explains, for numbers around 1.

A floating-point operation rounds by 2^-53 (1.1e-16). Sums of some thousand numbers stay below the bound, even if a fit
multiplies their errors by 1000. Manual changes exceed the bound. So do flipped bits in the exponent of a number or in
the leading half of its mantissa.
"""

FindingKind = Literal["chain", "gate", "posterior", "labels", "integrity"]
"""What a finding contradicts: the chain of hashes, a result computed again, or ("integrity") another table."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A contradiction in a folder, in one sentence. `position`: of the record, if the finding is about a record."""

    check: FindingKind
    position: int | None
    detail: str


@dataclass(slots=True)
class Verification:
    """Result of verifying a run or a state folder.

    Attributes:
        first: position of the first kept record.
        examined: number of replayed records.
        head: hash of the last entry of the chain (`secl.runs.chain.head`).
        largest: for each check, the largest difference that secl found between agreeing numbers.
    """

    first: int = 0
    examined: int = 0
    head: str = ""
    findings: list[Finding] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("gate", "posterior", "labels"), 0.0))

    def find(self, check: FindingKind, position: int | None, detail: str) -> None:
        self.findings.append(Finding(check, position, detail))

    def compare(self, check: FindingKind, position: int, difference: float, detail: str) -> None:
        """Add a finding if a number differs from the stored number by more than rounding explains."""
        if difference > ARITHMETIC:
            self.find(check, position, detail)
        else:
            self.largest[check] = max(self.largest[check], difference)

    def to_json(self) -> JsonObject:
        return {"agrees": not self.findings, **asdict(self)}


def examine(store: Store, gate: str | None = None, noted: str | None = None) -> Verification:
    """Compare all rows with the chain of hashes, and replay gate, posterior and labels over all kept records.

    The replay ends at the first record that secl cannot read or replay.

    Args:
        gate: the gate of the run if it is a Python file, which secl then executes.
        noted: an earlier head of the chain.

    Raises:
        RunError: the manifest cannot be read, or names a Python file as gate that `gate` does not name.
    """
    found = Verification()
    with store.moment():
        manifest = Manifest.of(store)
        built = manifest.gate(gate)
        try:
            found.first = store.first
            _compare_hashes(store, manifest, found, noted)
            try:
                _replay(store, manifest, built, found)
            except (RunError, ParameterError) as problem:
                detail = f"the record cannot be read or replayed, so the replay ends here: {problem}"
                found.find("integrity", found.first + found.examined, detail)
        except (RunError, *DAMAGE) as problem:
            found.find("integrity", None, str(problem))
    return found


def _compare_hashes(store: Store, manifest: Manifest, found: Verification, noted: str | None) -> None:
    for (line,) in store.db.execute("PRAGMA integrity_check"):
        if line != "ok":
            found.find("integrity", None, str(line))
    tables = (SCHEMA, chain.TABLE, TABLES if store.is_server else FAILURES if manifest.mode == "extract" else "")
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript("".join(tables))
        for kind, name, _ in {*store.db.execute(_DEFINED)} ^ {*new.execute(_DEFINED)}:
            found.find("integrity", None, f"the {kind} {name} of the database is missing, or secl did not define it")
    for name, key, problem in chain.changes(store.db):
        position = key if isinstance(key, int) and name in chain.BY_POSITION else None
        found.find("chain", position, f"the row {key!r} of the table {name} {problem}")
    found.head = chain.head(store.db)
    if noted is not None and not chain.holds(store.db, noted):
        detail = "the chain has no entry with this hash: earlier rows were changed, an older copy was restored, or "
        found.find("chain", None, f"{detail}pruning removed the entry ({noted})")


_DEFINED = r"SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'"
"""Query for the definitions of the database, except those that depend on the version of SQLite."""


def _replay(store: Store, manifest: Manifest, gate: Gate, found: Verification) -> None:
    """Replay all records through gate, posterior and labels, and add findings. Raises RunError, ParameterError."""
    first, plan, labels = store.first, manifest.plan, LabelReplay(store, manifest)
    now = StreamState(gate=gate.start(), posterior=plan.posterior.start())
    if isinstance(store, ServerStore):
        now = store.stream(gate, plan.posterior, first)
    if now.position != first:
        raise RunError("the checkpoint at the first kept record is missing.")
    for record in store.records():
        position = record.position
        if position != first + found.examined:
            raise RunError(f"the next record should be {first + found.examined}, but is {position}.")
        now, decision, posterior = now.follow(record, gate, plan.posterior)
        if record.kind == "field" and posterior is not None and record.posterior is not None:
            posterior = with_unseen(posterior, record.posterior)
        if decision is not None:
            detail = f"the gate now decides {_gate_text(decision)}; the record has {_gate_text(record.decision)}"
            found.compare("gate", position, furthest(decision, record.decision), detail)
        weighed = [(record, posterior)]
        weighed += [(fact, plan.posterior.follow(now.posterior, fact)[1]) for fact in record.facts or ()]
        for part, again in weighed:
            about = f"fact {part.fact}: " if part.fact else ""
            detail = f"{about}the evidence now gives {_in_words(again)}; the record has {_in_words(part.posterior)}"
            found.compare("posterior", position, furthest(again, part.posterior), detail)
            difference, detail = labels.difference(part)
            found.compare("labels", position, difference, about + detail)
        signal = plan.signal.of(record)  # None if texts were not kept
        if None not in (signal, record.signal) and furthest(signal, record.signal) > ARITHMETIC:
            found.find("integrity", position, "its signal does not follow from its evidence")
        if isinstance(store, ServerStore):
            listed = store.rows("SELECT reported, frozen, accepted, words FROM served WHERE position = ?", position)
            if listed != [listed_values(record, store.keep_text)]:
                found.find("integrity", position, 'its row in the table "served" is missing or contradicts the record')
        found.examined += 1


class LabelReplay:
    """Recomputes calibrated confidences from the labels in the log that the server knew when it answered."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._log = deque(store.label_log())
        self._about: dict[LabelKey, list[Label]] = {}
        for label in self._log:
            self._about.setdefault(label.key, []).append(label)
        self._state = LabelState.start(manifest.calibration)

    def difference(self, record: Record) -> tuple[float, str]:
        """Return the difference between recomputed and stored calibrated confidence, and a sentence about it."""
        confidences = (record.confidences.uncalibrated, record.question.domain)
        for label in self._about.get(record.key, ()):
            if (label.confidence, label.domain) != confidences:
                return float("inf"), f"label {label.number} and the record have different confidences or domains"
        if (stored := record.labelled) is None:
            return 0.0, ""
        known = []
        while self._log and self._log[0].number <= stored.until:
            known.append(self._log.popleft())
        self._state = self._state.add(known)
        now = self._state.rate(record.question.domain, record.confidences.uncalibrated, record.threshold)
        return furthest(now, stored), (
            f"the labels known at this answer give {now.calibrated} ({now.low} to {now.high}); the record has "
            f"{stored.calibrated} ({stored.low} to {stored.high})"
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
