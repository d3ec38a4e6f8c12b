"""The stream of a state folder, replayed from what is stored: gate, posterior and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from secl.errors import ParameterError, RunError
from secl.evidence import Posterior
from secl.records import Decision, Record
from secl.runs.manifest import Manifest
from secl.server.audit import checkpoint
from secl.server.audit.closeness import ARITHMETIC, furthest
from secl.server.audit.store import ServerStore

if TYPE_CHECKING:
    from secl.server.audit.integrity import StoredRow


class StreamReplay:
    """Gate and posterior that are fed the stored entropies and evidence; it begins where pruning ended.

    Args:
        state: with the checkpoints.
        manifest: of the server.

    Attributes:
        largest: for each check, how far the numbers that agree lie apart at most.
    """

    def __init__(self, state: ServerStore, manifest: Manifest) -> None:
        self.state, self.gate, self.rule = state, manifest.settings.build_gate(), manifest.posterior_rule
        self.stream = checkpoint.start(self.gate, self.rule)
        self.largest = {"gate": 0.0, "posterior": 0.0}
        self._stuck: set[str] = set()
        self._problem: str | None = None
        try:
            self.stream = checkpoint.resume(state, self.gate, self.rule, state.first)
        except RunError as problem:
            self._problem, self._stuck = str(problem), {"gate", "posterior"}
        if self._problem is None and self.stream.position != state.first:
            self._problem, self._stuck = "the checkpoint is missing where pruning ended", {"gate", "posterior"}

    def differences(self, row: StoredRow, record: Record | None) -> Iterator[tuple[str, str]]:
        """What differs from the stored record, and the check that finds it; call it in order.

        Args:
            row: of the record.
            record: None if it cannot be read.
        """
        if self._problem is not None:
            yield "integrity", f"gate and posterior cannot be replayed: {self._problem}"
            self._problem = None
        yield from (("gate", detail) for detail in self._gate_differences(row))
        yield from (("posterior", detail) for detail in self._posterior_differences(row, record))
        if not self._stuck and not checkpoint.agrees(self.state, self.stream):
            yield "integrity", "the checkpoint behind it is not where the stream stands"

    def _gate_differences(self, row: StoredRow) -> Iterator[str]:
        if "gate" in self._stuck:
            return
        if row.outcome in ("given", "unrated"):  # the gate sees neither
            self.stream = replace(self.stream, position=self.stream.position + 1)
            return
        if row.entropy is None:
            yield "its decision is missing"
            self.stream = replace(self.stream, position=self.stream.position + 1)
            return
        try:
            self.stream, now = self.stream.step(self.gate, row.entropy)
        except ParameterError as problem:
            self._stuck.add("gate")
            yield f"the gate cannot be replayed from here on: {problem}"
            return
        then = Decision(
            alarm=bool(row.alarm), in_burst=bool(row.in_burst), remaining=row.remaining or 0, statistic=row.statistic
        )
        if self._apart("gate", furthest(now, then)):
            yield f"the gate decides {_describe(now)}, stored is {_describe(then)}"

    def _posterior_differences(self, row: StoredRow, record: Record | None) -> Iterator[str]:
        if record is None and row.group is not None and "posterior" not in self._stuck:
            self._stuck.add("posterior")
            yield "posteriors cannot be replayed from here on"
        if "posterior" in self._stuck or record is None or not record.rated:
            return
        views = self.rule.read(record.question, record.reply, record.frozen, record.evidence)
        after, now = self.rule.step(self.stream.posterior, views)
        self.stream = replace(self.stream, posterior=after)
        if self._apart("posterior", furthest(now, record.posterior)):
            yield f"the evidence gives {_posterior_words(now)}, stored is {_posterior_words(record.posterior)}"

    def _apart(self, check: str, difference: float) -> bool:
        """Whether a difference is more than arithmetic makes; the largest of the others is kept."""
        if difference > ARITHMETIC:
            return True
        self.largest[check] = max(self.largest[check], difference)
        return False


def _posterior_words(posterior: Posterior | None) -> str:
    if posterior is None:
        return "no posterior"
    chances = ", ".join(map(str, posterior.probabilities))
    weights = ", ".join(f"{name} {weight}" for name, weight in posterior.weights)
    return f"{chances} (weights {weights})"


def _describe(decision: Decision) -> str:
    what = "alarm" if decision.alarm else "burst" if decision.in_burst else "quiet"
    return f"{what} ({decision.remaining} to come, statistic {decision.statistic})"
