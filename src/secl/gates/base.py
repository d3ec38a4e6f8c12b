"""The interface of a gate, and what all gates share."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

from secl.errors import ParameterError
from secl.records import Decision


class Gate(Protocol):
    """The interface of a gate. The state is a frozen dataclass of plain numbers, private to its gate.

    Attributes:
        watches_gap: whether it probes questions, see `probes` and `observe`; both do nothing where it does not.
    """

    __slots__ = ()
    watches_gap: ClassVar[bool] = False

    def start(self) -> Any:
        """The state before the first question of a stream."""

    def step(self, state: Any, entropy: float) -> tuple[Any, Decision]:
        """The state after a reply with this entropy (nats), and the decision about it; changes nothing.

        Raises:
            ParameterError: the entropy is negative or not finite.
        """

    def probes(self, state: Any) -> bool:  # noqa: ARG002
        """Whether the next question's gap is wanted, so that its evidence is gathered even outside a burst."""
        return False

    def observe(self, state: Any, gap: float) -> Any:  # noqa: ARG002
        """The state after the gap of the latest question: reported confidence minus training signal.

        Raises:
            ParameterError: a gap that does not lie between -1 and 1.
        """
        return state


def in_burst(alarm: bool, remaining: int, statistic: float | None) -> Decision:
    """A question of a burst; `alarm` for its first."""
    return Decision(alarm=alarm, in_burst=True, remaining=remaining, statistic=statistic)


def quiet(statistic: float | None) -> Decision:
    """A question outside bursts."""
    return Decision(alarm=False, in_burst=False, remaining=0, statistic=statistic)


def checked(entropy: float) -> float:
    """The entropy as a plain number, if it is one."""
    value = float(entropy)
    if not (math.isfinite(value) and value >= 0.0):
        raise ParameterError(f"an entropy must be 0 nats or more and finite, not {value}.")
    return value
