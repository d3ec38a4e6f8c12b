"""Verdict on the confidences of a server's latest answers."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence

from secl.evaluation.symptoms import seen
from secl.evaluation.trust import Level, conclude, from_grades
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
        verdict: verdict on the confidences.
    """

    def __init__(self) -> None:
        self.graded: tuple[tuple[float, bool, float], ...] = ()
        self._records: deque[Record] = deque(maxlen=WINDOW)
        self._lock = threading.Lock()
        self._level: Level = "unproven"
        self.add(())

    def add(self, records: Iterable[Record]) -> None:
        """Add answers of this model; answers from elsewhere do not count."""
        with self._lock:
            self._records.extend(record for record in records if not record.given)
            self._judge()

    def refresh(self, labelled: Sequence[tuple[float, bool, float]]) -> None:
        """Replace all labels by new labels, in the order of the answers."""
        with self._lock:
            self.graded = tuple(labelled[-LABELS:])
            self._judge()

    def _judge(self) -> None:
        pairs, ranks = [label[:2] for label in self.graded], [label[2] for label in self.graded]
        grades = from_grades(pairs, ranks=ranks, chosen=True)
        self.verdict = conclude(seen(tuple(self._records)), grades, len(self._records))
        if self.verdict.level != self._level:
            self._level = self.verdict.level
            log.log(
                logging.WARNING if self.verdict.stops else logging.INFO, "confidences: %s", trust_line(self.verdict)
            )
