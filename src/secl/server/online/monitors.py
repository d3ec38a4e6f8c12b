"""Verdict on the confidences of a server's latest answers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence

from secl.evaluation.symptoms import seen
from secl.evaluation.trust import Level, Verdict, conclude, from_grades
from secl.records import Record
from secl.reports.verdict import trust_line

log = logging.getLogger("secl.server")

WINDOW = 200
"""Latest answers that a verdict is about."""

LABELS = 100
"""Latest labelled answers that a verdict is about; people rate few answers, and late."""


class Monitor:
    """The latest answers, and the latest labelled answers.

    Attributes:
        graded: for the latest labelled answers: reported confidence, correctness, and label-free confidence.
    """

    def __init__(self) -> None:
        self.graded: tuple[tuple[float, bool, float], ...] = ()
        self._records: deque[Record] = deque(maxlen=WINDOW)
        self._level: Level = "unproven"

    def add(self, records: Iterable[Record]) -> None:
        """Add answers of this model; answers from elsewhere do not count."""
        self._records.extend(record for record in records if not record.given)

    def refresh(self, labelled: Sequence[tuple[float, bool, float]]) -> None:
        """Replace all labels by new labels, in the order of the answers."""
        self.graded = tuple(labelled[-LABELS:])

    @property
    def verdict(self) -> Verdict:
        """The verdict on the confidences now."""
        graded, records = self.graded, tuple(self._records)
        grades = from_grades([label[:2] for label in graded], ranks=[label[2] for label in graded], chosen=True)
        return conclude(seen(records), grades, len(records))

    def log_change(self) -> None:
        """Log the verdict if its level has changed since the last call."""
        verdict = self.verdict
        if verdict.level != self._level:
            self._level = verdict.level
            log.log(logging.WARNING if verdict.stops else logging.INFO, "confidences: %s", trust_line(verdict))
