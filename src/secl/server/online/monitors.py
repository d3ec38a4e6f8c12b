"""What the latest answers say of a server: how far learning has moved them, and whether to trust them."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from secl.evaluation.symptoms import seen
from secl.evaluation.trust import Level, Verdict, conclude, from_grades
from secl.records import Record
from secl.server.settings import Bounds

log = logging.getLogger("secl.server")

WINDOW = 200
"""Latest answers that the shift, and the verdict on the confidences, are about."""

LABELS = 100
"""Latest labelled answers that a verdict is about: people rate fewer answers than there are, and late."""


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


def rejection_reason(learned: Record) -> str | None:
    """Why a lesson's update must not stand, in one sentence; None if it may, or if there is none."""
    update = learned.update
    if learned.outcome == "failed":
        return f"the lesson of record {learned.position} met numbers that are not finite"
    if update is None:
        return None
    if not all(map(math.isfinite, (*update.losses, update.after))):
        return f"update {update.version} left numbers that are not finite"
    missed, began = abs(update.after - update.target), abs(update.before - update.target)
    if missed > began + 0.25 or max(update.losses) > 1:
        return (
            f"update {update.version} moved the stated confidence from {update.before:.2f} to {update.after:.2f}, "
            f"away from its target {update.target:.2f}"
        )
    return None


class TrustMonitor:
    """The verdict on the latest answers, and on the latest ones that people have rated.

    Args:
        window: most answers that it is about.

    Attributes:
        graded: reported confidence of the latest rated answers, and whether they are right.
    """

    def __init__(self, window: int) -> None:
        self.graded: tuple[tuple[float, bool], ...] = ()
        self._records: deque[Record] = deque(maxlen=window)
        self._verdict: Verdict | None = None
        self._level: Level = "unproven"

    def add(self, record: Record) -> None:
        """Take an answer into account."""
        self._records.append(record)
        self._verdict = None

    def refresh(self, labelled: Sequence[tuple[float, bool]]) -> None:
        """Take what people said instead of what they had said before, in the order of the answers."""
        self.graded = tuple(labelled[-LABELS:])
        self._verdict = None

    @property
    def verdict(self) -> Verdict:
        """The verdict now."""
        if (verdict := self._verdict) is None:
            records = tuple(self._records)  # at once: the thread that answers adds to it
            verdict = conclude(seen(records), from_grades(self.graded, chosen=True), len(records))
            self._verdict = verdict
            if verdict.level != self._level:
                self._log_change(verdict)
        return verdict

    def _log_change(self, verdict: Verdict) -> None:
        self._level = verdict.level
        known = logging.WARNING if verdict.stops else logging.INFO
        log.log(known, "confidences: %s", verdict.line)
