"""Where a stream stands: all that an answer changes besides the model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from secl.gates import Gate
from secl.labels import LabelRule, LabelState
from secl.posterior.rule import PosteriorState
from secl.records import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """Where a stream stands; everything that `Calibrator.answer` changes besides the model.

    Attributes:
        position: of the next question, from 0.
        gate: the gate's state.
        posterior: what the views of the candidates have taught so far.
        labels: what people have taught.
        decision: the latest one; None before the first question.
        entropy: of the latest reply, in nats; 1 before the first.
    """

    position: int = 0
    gate: Any
    posterior: PosteriorState = field(default_factory=PosteriorState)
    labels: LabelState = field(default_factory=lambda: LabelRule().start())
    decision: Decision | None = None
    entropy: float = 1.0

    def step(self, gate: Gate, entropy: float) -> tuple[StreamState, Decision]:
        """The state after a reply with this entropy (nats), and what the gate decides."""
        state, decision = gate.step(self.gate, entropy)
        return replace(self, position=self.position + 1, gate=state, decision=decision, entropy=entropy), decision
