"""Bounds within which learning may go on by itself."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from secl.records import Record, Update
from secl.validation import check_finite, check_whole


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far learning may go before it is frozen and somebody is told.

    Attributes:
        drift: of the weights: norm of the change over norm of what was changed.
        shift: mean of stated less frozen confidence over the latest answers, in either direction, in [0, 1].
        window: how many answers that is.
    """

    drift: float = 0.1
    shift: float = 0.4
    window: int = 200

    def __post_init__(self) -> None:
        check_finite("bound on the adapter's drift", self.drift, self.drift > 0, "be above 0")
        check_finite("bound on the shift of confidence", self.shift, 0 < self.shift <= 1, "be above 0 and at most 1")
        check_whole("number of answers in the window", self.window, 1)


@dataclass
class Watch:
    """Watches the shift of the stated confidence from that of the frozen model."""

    bounds: Bounds
    _shifts: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        self._shifts = deque(maxlen=self.bounds.window)

    def see(self, record: Record) -> None:
        """Take an answer into account."""
        self._shifts.append(record.reply.confidence - record.frozen.confidence)

    @property
    def shift(self) -> float | None:
        """Mean of stated less frozen confidence over the latest answers; None before the first."""
        return sum(self._shifts) / len(self._shifts) if self._shifts else None

    def alarm(self, drift: float) -> str | None:
        """What is out of bounds, in one sentence; the shift is judged once the window is full."""
        if not drift <= self.bounds.drift:
            return f"the adapter has drifted by {drift:.3f} of its weights, more than {self.bounds.drift:g}"
        full = len(self._shifts) == self.bounds.window
        if full and self.shift is not None and abs(self.shift) > self.bounds.shift:
            return (
                f"stated confidence has moved by {self.shift:+.3f} from the frozen model's over the last "
                f"{len(self._shifts)} answers, more than {self.bounds.shift:g}"
            )
        return None


def failure(update: Update) -> str | None:
    """Why an update must not stand, in one sentence; None if it may.

    >>> failure(Update(version=3, before=0.8, target=0.7, after=0.75, losses=(0.01, 0.008, 0.006)))
    >>> failure(Update(version=3, before=0.8, target=0.7, after=float("nan"), losses=(0.01, 0.008, 0.006)))
    'update 3 left numbers that are not finite'
    """
    if not all(map(math.isfinite, (*update.losses, update.after))):
        return f"update {update.version} left numbers that are not finite"
    missed, began = abs(update.after - update.target), abs(update.before - update.target)
    if missed > began + 0.25 or max(update.losses) > 1:
        return (
            f"update {update.version} moved the stated confidence from {update.before:.2f} to {update.after:.2f}, "
            + (f"away from its target {update.target:.2f}")
        )
    return None
