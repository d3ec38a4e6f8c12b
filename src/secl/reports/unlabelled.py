"""What can be said about answers that nothing was compared with: how many are right by the confidences alone."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from secl.evaluation.series import Series
from secl.evaluation.symptoms import Source
from secl.metrics.shares import Z, wilson
from secl.reports.answers import LOW, SIGNS, AnswerRow
from secl.reports.formatting import RANGE, amount, counted, number, percent
from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Table

NEEDY = 10
"""Answers that are shown as those that most need a person."""


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


UNTESTED = (
    "No right answer was there to compare with; twenty labels (secl label) show an error of 30 points in four of five "
    "cases, one of 20 in every other."
)
"""What is not known without labels, and what would tell (docs/findings.md)."""


def headline(run: RunReport) -> str:
    """The estimated share of right answers and what it rests on, for a run in which few answers are graded."""
    rows = ungraded(run.rows)
    found, graded = (
        estimate_share([row.confidence for row in rows]),
        [row for row in run.rows if row.correct is not None],
    )
    which = " without a label or a reference" if graded else ""
    text = (
        f"About {100 * found.share:.0f}% of {counted(found.n, 'answer')}{which} are right, if the confidences mean "
        f"what they say ({100 * found.low:.0f} to {100 * found.high:.0f}%): the mean of {_basis(run, rows)}."
    )
    return f"{text} {_of_graded(graded)}" if graded else f"{text} {UNTESTED}"


def _basis(run: RunReport, rows: Sequence[AnswerRow]) -> str:
    """What the confidences are."""
    names: dict[Source, str] = {
        "posterior": "the posterior, made without labels",
        "stated": "stated confidence, adapted to the model's own P(True) without labels"
        if run.summary.trained
        else "stated confidence, the model's own word, which is often too high",
    }
    counts = Counter(row.source for row in rows)
    parts = [
        names[source] + (f" ({amount(count)})" if len(counts) > 1 else "") for source, count in counts.most_common()
    ]
    labels = max(row.labels for row in rows)
    return "; ".join(parts) + (f"; moved by up to {counted(labels, 'label')}" if labels else "")


def share_notes(run: RunReport) -> list[str]:
    """What a reader of the estimate must know, a sentence each."""
    rows = ungraded(run.rows)
    low = sum(row.confidence < LOW for row in rows)
    notes = [f"{counted(low, 'answer')} of {amount(len(rows))} {_have(low)} a confidence below {LOW:g}."]
    for sign in ("unreadable", "another", "digits"):
        count = sum(sign in row.signs for row in rows)
        if count:
            notes.append(f"{counted(count, 'answer')}: {SIGNS[sign]}.")
    changed = sum(row.changed for row in rows)
    if changed:
        notes.append(f"Adapting changed {counted(changed, 'answer')} of the model's own.")
    return notes


def _of_graded(rows: Sequence[AnswerRow]) -> str:
    """How many of the graded answers are right, and what the confidences had made of them."""
    share = statistics.fmean(bool(row.correct) for row in rows)
    low, high = wilson(share, len(rows))
    mean = statistics.fmean(row.confidence for row in rows)
    return (
        f"Of {counted(len(rows), 'answer')} with one {percent(share)} are right ({100 * low:.0f} to "
        f"{100 * high:.0f}%), where the mean of their confidences is {number(mean, 3)}."
    )


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def domains_table(run: RunReport) -> Table:
    """A row for each domain: the estimated share of right answers, and how many confidences are low."""
    groups: dict[str, list[AnswerRow]] = {}
    for row in ungraded(run.rows):
        groups.setdefault(row.question.domain, []).append(row)
    if len(groups) > 1:
        groups = {"all questions": ungraded(run.rows)} | groups
    columns = [Column("Domain", text=True, wraps=True), Column("Questions"), Column("Estimated right")]
    columns += [Column("Median confidence"), Column(f"Below {LOW:g}"), Column("Worth a look")]
    return Table(columns, {"": [_domain(name, rows) for name, rows in groups.items()]}, (RANGES,))


RANGES = (
    "Estimated right: the mean confidence, and where the share of right answers lies in 95% of cases if each answer is "
    "right with its probability. A confidence that is off by 0.1 moves it by as much."
)
"""What a reader must know about the table of domains."""


def _domain(name: str, rows: Sequence[AnswerRow]) -> list[Cell]:
    confidences = [row.confidence for row in rows]
    found = estimate_share(confidences)
    return [
        Cell(name),
        Cell(amount(len(rows))),
        Cell(percent(found.share), f"{100 * found.low:.0f}{RANGE}{100 * found.high:.0f}%"),
        Cell(number(statistics.median(confidences), 3)),
        Cell(amount(sum(each < LOW for each in confidences))),
        Cell(amount(sum(bool(row.signs) for row in rows))),
    ]


def levels_table(run: RunReport) -> Table:
    """A row for each confidence that was computed: where it lies, for all answers that have it."""
    columns = [Column("Confidence", text=True, wraps=True), Column("Questions"), Column("Mean")]
    columns += [Column(heading) for heading in ("10%", "Median", "90%")]
    rows = [
        _levels(row.estimator.title, run.evaluation.series[name])
        for name, row in run.summary.estimators.items()
        if row.estimator.ranks and not row.estimator.title.endswith("*")
    ]
    note = "10%, median, 90%: a tenth, a half and nine tenths of the confidences are at most so high."
    return Table(columns, {"": rows}, (note,))


def _levels(title: str, series: Series) -> list[Cell]:
    import numpy as np

    levels = np.quantile(series.confidence, (0.1, 0.5, 0.9))
    mean = statistics.fmean(series.confidence)
    return [Cell(title), Cell(amount(len(series))), *(Cell(number(float(x), 3)) for x in (mean, *levels))]
