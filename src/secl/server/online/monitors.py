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
        graded: reported confidence of the latest labelled answers, whether they are right, label-free confidence.
    """

    def __init__(self) -> None:
        self.graded: tuple[tuple[float, bool, float], ...] = ()
        self._records: deque[Record] = deque(maxlen=WINDOW)
        self._changes = 0
        self._verdict: tuple[int, Verdict] | None = None
        self._level: Level = "unproven"

    def add(self, records: Iterable[Record]) -> None:
        """Add answers of this model; answers from elsewhere do not count."""
        self._records.extend(record for record in records if not record.given)
        self._changes += 1
        _ = self.verdict  # logs a change

    def refresh(self, labelled: Sequence[tuple[float, bool, float]]) -> None:
        """Replace the labels by these, in the order of the answers."""
        self.graded = tuple(labelled[-LABELS:])
        self._changes += 1

    @property
    def verdict(self) -> Verdict:
        """The present verdict."""
        changes = self._changes  # read first: later additions make the verdict an old one
        if self._verdict is None or self._verdict[0] != changes:
            records = tuple(self._records)  # at once: the answering thread adds to them
            pairs, ranks = [label[:2] for label in self.graded], [label[2] for label in self.graded]
            verdict = conclude(seen(records), from_grades(pairs, ranks=ranks, chosen=True), len(records))
            self._verdict = changes, verdict
            if verdict.level != self._level:
                self._level = verdict.level
                log.log(logging.WARNING if verdict.stops else logging.INFO, "confidences: %s", trust_line(verdict))
        return self._verdict[1]
