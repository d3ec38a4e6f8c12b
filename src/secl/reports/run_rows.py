"""Tables with a row for each domain of a run, or for each run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from secl.evaluation.summary import EstimatorSummary, Summary
from secl.reports.formatting import amount, number, percent, span
from secl.reports.provenance import settings_of
from secl.reports.run_report import RunReport, alternatives, best_alternative, reported
from secl.reports.summary_table import floor_side
from secl.reports.table import Cell, Column, Row, Table


def domain_table(run: RunReport) -> Table:
    """How calibrated a run was in each domain, before and after, and how much was learned there."""
    after = best_alternative(run.summary)
    names = {"stated": "Stated (frozen)"} | ({after.estimator.name: after.estimator.title} if after else {})
    headings = ["Questions", "Brier", "ECE", "AUROC", "Accuracy", *(["Trained", "Alarms"] if run.watched else [])]
    sections = {
        title: [_domain_row(domain, part, name, run.watched) for domain, part in run.summary.domains.items()]
        for name, title in names.items()
    }
    return Table([Column("Domain", text=True, wraps=True), *map(Column, headings)], sections)


def _domain_row(domain: str, part: Summary, name: str, watched: bool) -> Row:
    row = part.estimators.get(name)
    intervals = row.intervals if row else None
    return [
        Cell(domain),
        Cell(amount(part.questions)),
        Cell(number(row.brier if row else None, 3), span(intervals.brier if intervals else None)),
        Cell(number(row.ece if row else None, 3), floor_side(row) if row else ""),
        Cell(number(row.auroc if row else None, 3)),
        Cell(percent(row.accuracy if row else None), _best_accuracy(part) if name != "stated" else ""),
        *([Cell(amount(part.trained)), Cell(amount(part.alarms))] if watched else []),
    ]


def _best_accuracy(summary: Summary) -> str:
    """Accuracy of the posterior's best answers; empty without any."""
    best = summary.estimators.get("posterior_best")
    return "" if best is None or math.isnan(best.accuracy) else f"best {percent(best.accuracy)}"


def overview_table(runs: Sequence[RunReport]) -> Table:
    """A row for each run: what it asked, how calibrated it was before and after, and what that cost."""
    texts = ("Run", "Model", "Method", "Compared with")
    headings = ("Run", "Model", "Method", "Questions", "Accuracy", "Brier stated", "ECE stated", "Compared with")
    columns = [Column(each, text=each in texts, wraps=each in texts) for each in (*headings, "Its Brier", "Its ECE")]
    return Table([*columns, Column("Its cost ours")], {"": [_overview(run) for run in runs]})


def _overview(run: RunReport) -> Row:
    """The row of a run; a confidence picked among several says so."""
    recipe, after = settings_of(run), best_alternative(run.summary)
    stated = run.summary.estimators.get("stated")
    candidates = 1 if reported(run.summary) else len(alternatives(run.summary))
    among = f"the best of {candidates} on these answers" if candidates > 1 else ""
    return [
        Cell(run.name),
        Cell(str(recipe.get("model", ""))),
        Cell(str(recipe.get("method", ""))),
        Cell(amount(len(run.records))),
        Cell(percent(_accuracy(after or stated)), _best_accuracy(run.summary)),
        Cell(number(stated.brier if stated else None, 3)),
        Cell(number(stated.ece if stated else None, 3)),
        Cell(after.estimator.title if after else "", among),
        Cell(number(after.brier if after else None, 3)),
        Cell(number(after.ece if after else None, 3)),
        Cell(number(after.cost_measured if after else None, 1)),
    ]


def _accuracy(row: EstimatorSummary | None) -> float | None:
    return row.accuracy if row else None
