"""What the posterior changes, for a reader who sees it for the first time: the end of `secl demo`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from secl.evaluation.summary import EstimatorSummary, Summary
from secl.posterior.views import view_title
from secl.records import Record
from secl.reports.formatting import number, percent, span
from secl.reports.posterior_section import most_common_form
from secl.reports.summary_table import floor_side
from secl.reports.table import Cell, Column, Table

TITLE = "What the posterior changes"
"""Title of the table."""

ROWS = {
    "stated": "stated",
    "secl": "SECL, learned",
    "posterior": "posterior",
    "posterior_best": "posterior, best answers",
}
"""Estimators that are compared, and what people call them here."""


def effect_table(summary: Summary) -> Table:
    """Stated, learned and posterior confidence, own and best answers: accuracy, Brier score, ECE with floor, AUROC."""
    rows = [_row(title, summary.estimators[name]) for name, title in ROWS.items() if name in summary.estimators]
    headings = ("Right", "Brier", "ECE", "ECE floor", "AUROC")
    return Table([Column("Confidence", text=True, wraps=True), *map(Column, headings)], {"": rows})


def _row(title: str, row: EstimatorSummary) -> list[Cell]:
    intervals = row.intervals
    return [
        Cell(title),
        Cell(percent(row.accuracy)),
        Cell(number(row.brier, 3), span(intervals.brier if intervals else None)),
        Cell(number(row.ece, 3)),
        Cell(number(row.ece_floor, 3), floor_side(row)),
        Cell(number(row.auroc, 3), span(intervals.auroc if intervals else None)),
    ]


def effect_notes(summary: Summary, records: Sequence[Record]) -> list[str]:
    """The same in words, a sentence each; empty where there is no graded posterior."""
    rows = summary.estimators
    stated, own, best = (rows.get(name) for name in ("stated", "posterior", "posterior_best"))
    if stated is None or own is None or best is None or math.isnan(own.brier):
        return []
    return [
        f"Stated: the model said {100 * stated.mean_confidence:.0f}% on average and was right "
        f"{percent(stated.accuracy)} of the time; its confidence {_ranks(stated)}.",
        f"Posterior: the same frozen model, looked at in other ways and without any right answer, says "
        f"{100 * own.mean_confidence:.0f}% on average, and that {_ranks(own)}.{_of_views(records)}",
        f"Best answers: the most probable candidates are right {percent(best.accuracy)} of the time, the model's own "
        f"answers {percent(own.accuracy)}; --answer best gives them.",
    ]


def _ranks(row: EstimatorSummary) -> str:
    """Whether a confidence tells right from wrong, by the interval of its AUROC."""
    if math.isnan(row.auroc):
        return "has nothing to tell apart"
    if row.intervals is None or row.intervals.auroc.low <= 0.5 <= row.intervals.auroc.high:
        return f"is not shown to tell right from wrong (AUROC {row.auroc:.3f}, where chance gives 0.5)"
    how = "tells right from wrong" if row.auroc > 0.5 else "is higher for wrong answers than for right ones"
    return f"{how} (AUROC {row.auroc:.3f}, where chance gives 0.5)"


def _of_views(records: Sequence[Record]) -> str:
    """What the latest weights rest on, in a sentence with a space before it; empty without any weight."""
    posteriors = [record.posterior for record in records if record.posterior is not None]
    weights = dict(most_common_form(posteriors)[-1].weights) if posteriors else {}
    if not any(weights.values()):
        return ""
    silent = [view_title(view) for view, weight in weights.items() if weight == 0]
    audible = [view_title(view) for view, weight in weights.items() if weight > 0]
    text = f" It rests on: {'; '.join(audible)}."
    return f"{text} Without weight: {'; '.join(silent)}." if silent else text
