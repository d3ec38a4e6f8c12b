"""When to learn: a gate watches the replies and opens for a burst of questions when something shifts.

    gate.start() -> state;   gate.step(state, entropy) -> (next state, Decision)

Most gates watch the entropy of every reply (H_t, paper section "Adaptive Entropy Gating"), in nats. `GapShift` watches
how far the reported confidence lies above the training signal, on questions that it probes:

    gate.probes(state) -> is the next question probed?   gate.observe(state, gap) -> next state, after that question

Gates are frozen, states are frozen, steps are pure: `replay` of what was recorded gives the recorded decisions.
Bursts are counted alike everywhere: the question that fires is the first member, `burst` questions belong to it in all,
and the gate cannot fire before they are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat

from secl.errors import ParameterError
from secl.gates.base import Gate
from secl.gates.constant import Always, Never, NoState
from secl.gates.entropy_shift import EntropyShift, EntropyShiftState
from secl.gates.gap_shift import GapShift, GapShiftState, gap_of
from secl.gates.page_hinkley import PageHinkley, PageHinkleyState
from secl.records import Decision
from secl.settings import GateName

__all__ = [
    "GATES",
    "Always",
    "EntropyShift",
    "EntropyShiftState",
    "GapShift",
    "GapShiftState",
    "Gate",
    "Never",
    "NoState",
    "PageHinkley",
    "PageHinkleyState",
    "gap_of",
    "named_gate",
    "replay",
]


def replay(gate: Gate, entropies: Iterable[float], gaps: Iterable[float | None] | None = None) -> list[Decision]:
    """The decisions of a gate over a stream, one per question, without any model.

    Args:
        gate: any gate.
        entropies: of the replies, in nats.
        gaps: of as many questions, None where one is not known; a gate that watches gaps looks at those it probes.

    Raises:
        ParameterError: an entropy is negative or not finite, or a gap does not lie between -1 and 1.

    >>> [decision.in_burst for decision in replay(EntropyShift(burst=2), [1.0, 1.1, 1.0])]
    [True, True, False]
    """
    state, decisions = gate.start(), []
    known = repeat(None) if gaps is None else gaps
    for entropy, gap in zip(entropies, known, strict=gaps is not None):
        state, decision = gate.step(state, entropy)
        if gap is not None:
            state = gate.observe(state, gap)
        decisions.append(decision)
    return decisions


GATES: dict[GateName, Callable[..., Gate]] = {
    "always": Always,
    "never": Never,
    "page-hinkley": PageHinkley,
    "entropy-shift": EntropyShift,
    "gap-shift": GapShift,
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
