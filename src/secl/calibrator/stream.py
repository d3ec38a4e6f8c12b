"""The state of a stream, and the windows of upcoming questions that share passes through the network.

The frozen model reads a whole window at once. The adapted model does the same if no update is expected in the window.
Rounding depends on the shape of a pass: in float32, records with and without windows agree to about 1e-4; in bfloat16,
even an answer may differ. A resumed run uses the windows of the interrupted run, so records agree to the last digit.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from pydantic import TypeAdapter

from secl.evidence import Posterior
from secl.gates import Gate
from secl.labels.state import LabelState
from secl.posterior.rule import LetterSums, PosteriorRule, PosteriorState
from secl.posterior.shared import SharedSums
from secl.records import Decision, Record

WINDOW_SIZE = 16
"""Questions in a window. Windows begin at multiples of this number, also after a resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """What a calibrator keeps between questions: answers, ratings and labels change this state.

    Attributes:
        position: number of the next question, from 0.
        gate, posterior, labels: states of the gate, of the posterior and of the calibration by labels.
        decision: the latest decision of the gate; None before the first question.
        entropy: entropy of the latest reply, in nats; 1 before the first reply.
    """

    position: int = 0
    gate: Any
    posterior: PosteriorState = field(default_factory=PosteriorState)
    labels: LabelState = field(default_factory=LabelState.start)
    decision: Decision | None = None
    entropy: float = 1.0

    def step(self, gate: Gate, entropy: float) -> tuple[StreamState, Decision]:
        """Return the state after a reply with this entropy (nats), and the gate's decision."""
        state, decision = gate.step(self.gate, entropy)
        return replace(self, position=self.position + 1, gate=state, decision=decision, entropy=entropy), decision

    def follow(
        self, record: Record, gate: Gate, rule: PosteriorRule
    ) -> tuple[StreamState, Decision | None, Posterior | None]:
        """Return the state after a record, the gate's decision (None unless the model answered), and the posterior."""
        after, decision = replace(self, position=self.position + 1), None
        if record.kind == "asked":
            after, decision = self.step(gate, record.reply.entropy)
        remembered, posterior = rule.follow(self.posterior, record)
        return replace(after, posterior=remembered), decision, posterior

    def pack(self) -> bytes:
        """Return the state as compressed JSON, without labels; the state contains no text."""
        values = {
            "position": self.position,
            "gate": self.gate and asdict(self.gate),
            "letters": [[group, asdict(sums)] for group, sums in sorted(self.posterior.letters.items())],
            "shared": {options: asdict(sums) for options, sums in self.posterior.shared.items()},
            "decision": self.decision and asdict(self.decision),
            "entropy": self.entropy,
        }
        return zlib.compress(json.dumps(values).encode())

    @classmethod
    def unpack(cls, blob: bytes, gate: Gate) -> Self:
        """Return the state that `pack` wrote, without labels. Raises ValueError: `blob` is damaged."""
        try:
            values = json.loads(zlib.decompress(blob))
            decision, letters, shared = values["decision"], TypeAdapter(LetterSums), TypeAdapter(SharedSums)
            return cls(
                position=values["position"],
                gate=TypeAdapter(type(gate.start())).validate_python(values["gate"]),
                posterior=PosteriorState(
                    {tuple(group): letters.validate_python(sums) for group, sums in values["letters"]},
                    {options: shared.validate_python(sums) for options, sums in values["shared"].items()},
                ),
                decision=decision and TypeAdapter(Decision).validate_python(decision),
                entropy=values["entropy"],
            )
        except (KeyError, TypeError, zlib.error) as problem:
            raise ValueError("a packed stream cannot be read") from problem


def predict_bursts(gate: Gate, state: Any, entropy: float, count: int) -> list[bool]:
    """Return whether each of the next `count` questions is in a burst if the entropy (nats) stays constant.

    >>> from secl.gates import EntropyShift
    >>> gate = EntropyShift(burst=2)
    >>> predict_bursts(gate, gate.start(), 1.0, 3)
    [True, True, False]
    """
    in_burst = []
    for _ in range(count):
        state, decision = gate.step(state, entropy)
        in_burst.append(decision.in_burst)
    return in_burst
