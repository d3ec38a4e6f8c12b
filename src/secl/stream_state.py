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
        burst_began: the latest question was the first one of a burst.
        probed: the gate wanted the latest question's gap, so its evidence is gathered even outside a burst.
    """

    position: int = 0
    gate: Any
    posterior: PosteriorState = field(default_factory=PosteriorState)
    labels: LabelState = field(default_factory=lambda: LabelRule().start())
    decision: Decision | None = None
    entropy: float = 1.0
    burst_began: bool = False
    probed: bool = False

    def step(self, gate: Gate, entropy: float) -> tuple[StreamState, Decision]:
        """The state after a reply with this entropy (nats), and what the gate decides."""
        state, decision = gate.step(self.gate, entropy)
        was_in_burst = self.decision is not None and self.decision.in_burst
        after = StreamState(
            position=self.position + 1,
            gate=state,
            posterior=self.posterior,
            labels=self.labels,
            decision=decision,
            entropy=entropy,
            burst_began=decision.alarm or (decision.in_burst and not was_in_burst),
            probed=gate.probes(self.gate),
        )
        return after, decision

    def observe(self, gate: Gate, gap: float | None) -> StreamState:
        """The state after the latest question's gap, where it is known."""
        return self if gap is None else replace(self, gate=gate.observe(self.gate, gap))
