"""What can be said about answers that nothing was compared with: how many are right by the confidences alone."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from secl.evaluation.symptoms import Source, main_source
from secl.metrics.calibration import Z, wilson
from secl.reports.answers import SIGNS, AnswerRow
from secl.reports.formatting import RANGE, amount, counted, number, percent
from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Row, Table

NEEDY = 10
"""Answers that are shown as those that most need a person."""

UNTESTED = (
    "No right answer was there to compare with; twenty labels (secl label) show an error of 30 points in four of five "
    "cases, one of 20 in every other."
)
"""What is not known without labels, and what would tell (docs/findings.md)."""

RANGES = (
    "Estimated right: the mean confidence, and where the share of right answers lies in 95% of cases if each answer is "
    "right with its probability. A confidence that is off by 0.1 moves it by as much."
)
"""What a reader must know about the table of domains."""


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """The share of right answers as the confidences have it: no answer was compared with anything.

    Attributes:
        n: number of answers.
        share: the mean of their reported confidences; nan without answers.
        low, high: 95% limits of the share if each answer is right with its probability, independently of the others;
            they know nothing of an error of the confidences themselves.
    """

    n: int
    share: float
    low: float
    high: float


def estimate_share(confidences: Sequence[float]) -> ShareEstimate:
    """The estimated share of right answers: a sum of independent draws, by its normal approximation.

    >>> found = estimate_share([0.5] * 100)
    >>> found.share, round(found.low, 3), round(found.high, 3)
    (0.5, 0.402, 0.598)
    """
    n = len(confidences)
    if not n:
        return ShareEstimate(0, math.nan, math.nan, math.nan)
    share = statistics.fmean(confidences)
    half = Z * math.sqrt(sum(c * (1 - c) for c in confidences)) / n
    return ShareEstimate(n, share, max(share - half, 0.0), min(share + half, 1.0))


def ungraded(rows: Sequence[AnswerRow]) -> list[AnswerRow]:
    """The answers without a label and without a right one to compare with."""
    return [row for row in rows if row.correct is None]


def headline(run: RunReport) -> str:
    """The estimated share of right answers and what it rests on, for a run in which few answers are graded."""
    rows, graded = ungraded(run.rows), [row for row in run.rows if row.correct is not None]
    estimate = estimate_share([row.confidence for row in rows])
    which = " without a label or a reference" if graded else ""
    text = (
        f"About {100 * estimate.share:.0f}% of {counted(estimate.n, 'answer')}{which} are right, if the confidences "
        f"mean what they say ({100 * estimate.low:.0f} to {100 * estimate.high:.0f}%): the mean of {_basis(run, rows)}."
    )
    return f"{text} {_of_graded(graded) if graded else UNTESTED}"


def _basis(run: RunReport, rows: Sequence[AnswerRow]) -> str:
    """What most of the confidences are."""
    names: dict[Source, str] = {
        "posterior": "the posterior, made without labels",
        "stated": "stated confidence, adapted to the model's own P(True) without labels"
        if run.summary.trained
        else "stated confidence, the model's own word, which is often too high",
    }
    labels = max(row.record.labelled.labels if row.record.labelled else 0 for row in rows)
    moved = f"; moved by up to {counted(labels, 'label')}" if labels else ""
    return names[main_source([row.record for row in rows])] + moved


def _of_graded(rows: Sequence[AnswerRow]) -> str:
    """How many of the graded answers are right, and what the confidences had made of them."""
    share = statistics.fmean(bool(row.correct) for row in rows)
    low, high = wilson(share, len(rows))
    mean = statistics.fmean(row.confidence for row in rows)
    return (
        f"Of {counted(len(rows), 'answer')} with one {percent(share)} are right ({100 * low:.0f} to "
        f"{100 * high:.0f}%), where the mean of their confidences is {number(mean, 3)}."
    )


def share_notes(run: RunReport) -> list[str]:
    """How many answers without a right one to compare with have a sign of trouble, a sentence for each."""
    rows = ungraded(run.rows)
    counts = Counter(sign for row in rows for sign in row.signs)
    return [
        f"{counted(counts[sign], 'answer')} of {amount(len(rows))}: {SIGNS[sign]}." for sign in SIGNS if counts[sign]
    ]


def domains_table(run: RunReport) -> Table:
    """A row for each domain: the estimated share of right answers, and how many answers have a sign of trouble."""
    groups: dict[str, list[AnswerRow]] = {}
    for row in ungraded(run.rows):
        groups.setdefault(row.question.domain, []).append(row)
    if len(groups) > 1:
        groups = {"all questions": ungraded(run.rows)} | groups
    headings = ("Questions", "Estimated right", "Worth a look")
    columns = [Column("Domain", text=True, wraps=True), *map(Column, headings)]
    return Table(columns, {"": [_domain(name, rows) for name, rows in groups.items()]}, (RANGES,))


def _domain(name: str, rows: Sequence[AnswerRow]) -> Row:
    estimate = estimate_share([row.confidence for row in rows])
    return [
        Cell(name),
        Cell(amount(len(rows))),
        Cell(percent(estimate.share), f"{100 * estimate.low:.0f}{RANGE}{100 * estimate.high:.0f}%"),
        Cell(amount(sum(bool(row.signs) for row in rows))),
    ]
