"""Gates that are always or never open."""

from __future__ import annotations

from dataclasses import dataclass

from secl.gates.base import Gate, checked, quiet
from secl.records import Decision


@dataclass(frozen=True, slots=True)
class NoState:
    """The state of a gate that remembers nothing."""


@dataclass(frozen=True, slots=True)
class Always(Gate):
    """Open for every question (the paper's "always-train"). It tests nothing, so it raises no alarm.

    >>> from secl.gates import replay
    >>> replay(Always(), [1.0])
    [Decision(alarm=False, in_burst=True, remaining=0, statistic=None)]
    """

    def start(self) -> NoState:
        return NoState()

    def step(self, state: NoState, entropy: float) -> tuple[NoState, Decision]:
        checked(entropy)
        return state, Decision(alarm=False, in_burst=True, remaining=0, statistic=None)


@dataclass(frozen=True, slots=True)
class Never(Gate):
    """Closed for every question: the frozen model, or an adapter that is only used.

    >>> from secl.gates import replay
    >>> replay(Never(), [1.0])
    [Decision(alarm=False, in_burst=False, remaining=0, statistic=None)]
    """

    def start(self) -> NoState:
        return NoState()

    def step(self, state: NoState, entropy: float) -> tuple[NoState, Decision]:
        checked(entropy)
        return state, quiet(None)
