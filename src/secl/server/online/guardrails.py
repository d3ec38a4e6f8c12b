"""Bounds within which learning may go on by itself."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from secl.records import Record, Update
from secl.settings_base import Settings

WINDOW = 200
"""Latest answers that the shift, and the verdict on the confidences, are about."""


class Bounds(Settings):
    """How far learning may go before it is paused and somebody is told."""

    drift: Annotated[float, Parameter("--max-drift")] = Field(
        0.1, gt=0, description="Largest change of the weights, relative."
    )
    shift: Annotated[float, Parameter("--max-shift")] = Field(
        0.4,
        gt=0,
        le=1,
        description="Largest mean move in 200 answers.",
    )


@dataclass
class ShiftMonitor:
    """Mean difference of stated and frozen confidence over the latest answers."""

    bounds: Bounds
    _shifts: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        self._shifts = deque(maxlen=WINDOW)

    def add(self, record: Record) -> None:
        """Take an answer into account."""
        self._shifts.append(record.reply.confidence - record.frozen.confidence)

    @property
    def shift(self) -> float | None:
        """Mean of stated less frozen confidence over the latest answers; None before the first."""
        return sum(self._shifts) / len(self._shifts) if self._shifts else None

    def violation(self, drift: float) -> str | None:
        """What is out of bounds, in one sentence; the shift is judged once the window is full."""
        if not drift <= self.bounds.drift:
            return f"the adapter has drifted by {drift:.3f} of its weights, more than {self.bounds.drift:g}"
        full = len(self._shifts) == self._shifts.maxlen
        if full and self.shift is not None and abs(self.shift) > self.bounds.shift:
            return (
                f"stated confidence has moved by {self.shift:+.3f} from the frozen model's over the last "
                f"{len(self._shifts)} answers, more than {self.bounds.shift:g}"
            )
        return None


def rejection_reason(update: Update) -> str | None:
    """Why an update must not stand, in one sentence; None if it may.

    >>> rejection_reason(Update(version=3, before=0.8, target=0.7, after=0.75, losses=(0.01, 0.008, 0.006)))
    >>> rejection_reason(Update(version=3, before=0.8, target=0.7, after=float("nan"), losses=(0.01, 0.008, 0.006)))
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
