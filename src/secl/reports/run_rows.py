"""Rows of a report's tables: one for each domain of a run, and one for each run."""

from __future__ import annotations

import math

from secl.evaluation.summary import EstimatorSummary, Summary
from secl.reports.formatting import amount, number, percent, span
from secl.reports.provenance import settings_of
from secl.reports.run_report import RunReport, alternatives, best_alternative, reported
from secl.reports.summary_table import floor_side


def domain_rows(run: RunReport) -> list[dict[str, str]]:
    """A row for each domain: how calibrated it was before and after, and how much was learned there."""
    after = best_alternative(run.summary)
    rows = []
    for domain, part in run.summary.domains.items():
        row = {"name": domain, "questions": amount(part.questions)}
        row |= _columns("before", part.estimators.get("stated"))
        row |= _columns("after", part.estimators.get(after.estimator.name) if after else None)
        row["best_accuracy"] = _best_accuracy(part)
        rows.append(row | {"trained": amount(part.trained), "alarms": amount(part.alarms)})
    return rows


def _best_accuracy(summary: Summary) -> str:
    """Accuracy of the posterior's best answers; empty without any."""
    best = summary.estimators.get("posterior_best")
    return "" if best is None or math.isnan(best.accuracy) else f"best {percent(best.accuracy)}"


def _columns(prefix: str, row: EstimatorSummary | None) -> dict[str, str]:
    intervals = row.intervals if row else None
    return {
        f"{prefix}_brier": number(row.brier if row else None, 3),
        f"{prefix}_interval": span(intervals.brier if intervals else None),
        f"{prefix}_ece": number(row.ece if row else None, 3),
        f"{prefix}_floor": floor_side(row) if row else "",
        f"{prefix}_auroc": number(row.auroc if row else None, 3),
        f"{prefix}_accuracy": percent(row.accuracy if row else None),
    }


def overview(run: RunReport) -> tuple[str, ...]:
    """The row of a run in the table of all runs, without its name; a confidence picked among several says so."""
    recipe, after = settings_of(run), best_alternative(run.summary)
    stated = run.summary.estimators.get("stated")
    accurate = after or stated
    candidates = 1 if reported(run.summary) else len(alternatives(run.summary))
    best = _best_accuracy(run.summary)
    among = f", the best of {candidates} on these answers" if candidates > 1 else ""
    return (
        str(recipe.get("model", "")),
        str(recipe.get("method", "")),
        amount(len(run.records)),
        ", ".join(filter(None, (percent(accurate.accuracy if accurate else None), best))),
        number(stated.brier if stated else None, 3),
        number(stated.ece if stated else None, 3),
        f"{after.estimator.title}{among}" if after else "",
        number(after.brier if after else None, 3),
        number(after.ece if after else None, 3),
        number(after.cost_measured if after else None, 1),
    )
