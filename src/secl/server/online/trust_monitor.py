"""Whether the confidences that a server reports now may be acted on."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from secl.evaluation.symptoms import seen
from secl.evaluation.trust import Level, Verdict, conclude, from_grades
from secl.records import Record

log = logging.getLogger("secl.server")

LABELS = 100
"""Latest labelled answers that a verdict is about: people rate fewer answers than there are, and late."""


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

    def hear(self, labelled: Sequence[tuple[float, bool]]) -> None:
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
