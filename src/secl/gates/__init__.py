"""When to learn: a gate watches the replies and opens for a burst of questions when something shifts.

    gate.start() -> state;   gate.step(state, entropy) -> (next state, Decision)

Gates watch the entropy of every reply (H_t, paper section "Adaptive Entropy Gating"), in nats.
Gates are frozen, states are frozen, steps are pure: `replay` of what was recorded gives the recorded decisions.
Bursts are counted alike everywhere: the question that fires is the first member, `burst` questions belong to it in all,
and the gate cannot fire before they are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from secl.errors import ParameterError
from secl.gates.base import Gate
from secl.gates.constant import Always, Never, NoState
from secl.gates.entropy_shift import EntropyShift, EntropyShiftState
from secl.gates.page_hinkley import PageHinkley, PageHinkleyState
from secl.records import Decision
from secl.settings import GateName

__all__ = [
    "GATES",
    "Always",
    "EntropyShift",
    "EntropyShiftState",
    "Gate",
    "Never",
    "NoState",
    "PageHinkley",
    "PageHinkleyState",
    "named_gate",
    "replay",
]


def replay(gate: Gate, entropies: Iterable[float]) -> list[Decision]:
    """The decisions of a gate over a stream, one per question, without any model.

    Args:
        gate: any gate.
        entropies: of the replies, in nats.

    Raises:
        ParameterError: an entropy is negative or not finite.

    >>> [decision.in_burst for decision in replay(EntropyShift(burst=2), [1.0, 1.1, 1.0])]
    [True, True, False]
    """
    state, decisions = gate.start(), []
    for entropy in entropies:
        state, decision = gate.step(state, entropy)
        decisions.append(decision)
    return decisions


GATES: dict[GateName, Callable[..., Gate]] = {
    "always": Always,
    "never": Never,
    "page-hinkley": PageHinkley,
    "entropy-shift": EntropyShift,
}
"""Every gate under the name that recipes and the shell use; each takes its attributes as keyword arguments."""


def named_gate(name: str) -> Gate:
    """The gate called `name`, with its own parameters.

    Raises:
        ParameterError: there is none of that name.

    >>> named_gate("always")
    Always()
    """
    if name not in GATES:
        raise ParameterError(f"there is no gate {name!r}; the gates are {', '.join(GATES)}.")
    return GATES[name]()
