"""The interface of a gate, and what all gates share."""

from __future__ import annotations

import math
from typing import Any, Protocol

from secl.errors import ParameterError
from secl.records import Decision


class Gate(Protocol):
    """The interface of a gate. The state is a frozen dataclass of plain numbers, private to its gate."""

    __slots__ = ()

    def start(self) -> Any:
        """The state before the first question of a stream."""

    def step(self, state: Any, entropy: float) -> tuple[Any, Decision]:
        """The state after a reply with this entropy (nats), and the decision about it; changes nothing.

        Raises:
            ParameterError: the entropy is negative or not finite.
        """


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
