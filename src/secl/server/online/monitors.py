"""What the latest answers say of a server: how far learning has moved them, and whether to trust them."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence

from secl.evaluation.symptoms import seen
from secl.evaluation.trust import Level, Verdict, conclude, from_grades
from secl.records import Record
from secl.server.settings import Bounds

log = logging.getLogger("secl.server")

WINDOW = 200
"""Latest answers that the shift, and the verdict on the confidences, are about."""

LABELS = 100
"""Latest labelled answers that a verdict is about: people rate fewer answers than there are, and late."""


class Monitor:
    """What the latest answers say, and the latest ones that people have rated.

    Args:
        bounds: how far learning may go.

    Attributes:
        graded: reported confidence of the latest rated answers, and whether they are right.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.graded: tuple[tuple[float, bool], ...] = ()
        self._records: deque[Record] = deque(maxlen=WINDOW)
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
    def latest(self) -> tuple[Record, ...]:
        """The answers that it is about, taken at once: the thread that answers adds to them."""
        return tuple(self._records)

    @property
    def shift(self) -> float | None:
        """Mean of stated less frozen confidence over the latest answers; None before the first."""
        moves = [record.reply.confidence - record.frozen.confidence for record in self.latest]
        return sum(moves) / len(moves) if moves else None

    def violation(self, drift: float) -> str | None:
        """What is out of bounds, in one sentence; the shift is judged once there are enough answers."""
        if not drift <= self.bounds.drift:
            return f"the adapter has drifted by {drift:.3f} of its weights, more than {self.bounds.drift:g}"
        shift = self.shift
        if shift is not None and len(self.latest) == WINDOW and abs(shift) > self.bounds.shift:
            return (
                f"stated confidence has moved by {shift:+.3f} from the frozen model's over the last {WINDOW} answers, "
                f"more than {self.bounds.shift:g}"
            )
        return None

    @property
    def verdict(self) -> Verdict:
        """Whether to act on the confidences now."""
        if (verdict := self._verdict) is None:
            records = self.latest
            verdict = conclude(seen(records), from_grades(self.graded, chosen=True), len(records))
            self._verdict = verdict
            if verdict.level != self._level:
                self._level = verdict.level
                log.log(logging.WARNING if verdict.stops else logging.INFO, "confidences: %s", verdict.line)
        return verdict


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
