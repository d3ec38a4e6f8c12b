"""Estimators of what is shown once people have labelled answers: the confidences that labels have moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from secl.evaluation.series import Estimate, Estimator, Series
from secl.evaluation.symptoms import stated_alone
from secl.grading import reported_correct
from secl.records import Record

Source = Literal["stated", "posterior"]
"""Where a reported confidence comes from, but for labels."""

LABELLED = ("stated_with_labels", "posterior_with_labels")
"""Their names; a run has one of them at most."""


def with_people() -> tuple[Estimator, ...]:
    """The reported confidences after labels, by what they were before them."""
    return _moved("stated", "Stated + labels"), _moved("posterior", "Posterior + labels")


def main_source(records: Sequence[Record]) -> Source:
    """What most of the reported confidences are."""
    return "stated" if 2 * sum(map(stated_alone, records)) >= len(records) else "posterior"


def _moved(source: Source, title: str) -> Estimator:
    def estimate(records: Sequence[Record]) -> Series:
        moved = any(record.labelled is not None and record.labelled.labels for record in records)
        if not moved or main_source(records) != source:
            return Series()
        return Series.of(Estimate(r.position, r.confidence, reported_correct(r), r.ledger.total) for r in records)

    return Estimator(
        f"{source}_with_labels",
        title,
        "candidates" if source == "posterior" else "reply",
        estimate,
        lambda record: 15.0 if record.update is not None else 1.0,
        answers="reported",
        needs_labels=True,
    )
