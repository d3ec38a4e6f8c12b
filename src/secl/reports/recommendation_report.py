"""What `secl check` recommends: the views, what each confidence is worth here, and one method with the reason."""

from __future__ import annotations

import math
from typing import Any

from secl.evaluation.json_values import json_value
from secl.evaluation.recommendation import Recommendation
from secl.evaluation.summary import EstimatorSummary
from secl.evaluation.view_check import ViewCheck, ViewChecks
from secl.posterior.fit import FEWEST
from secl.posterior.views import view_title
from secl.reports.formatting import number, percent, span
from secl.reports.summary_table import floor_side
from secl.reports.table import Cell, Column, Table

VIEWS_TITLE, SCORES_TITLE = "What the views show, without right answers", "What each confidence is worth here"

VIEWS_NOTE = (
    "Stands out: how far one candidate stands out upwards, in standard errors. Reliability: correlation of the letters "
    "between two orders of the options. A view that knows nothing is called informed in 5% of cases by each of the "
    "two, and one that knows little may be missed."
)

WORDS = {True: "informed", False: "no sign", None: "too few"}
"""What a check of a view found."""


def views_table(checks: ViewChecks) -> Table:
    """A row for each view: how far it stands out, how reliable it is, what follows."""
    columns = [Column("View", text=True, wraps=True), Column("n"), Column("Stands out"), Column("Reliability")]
    rows = [_view_row(view) for view in checks.views]
    return Table([*columns, Column("Finding", text=True)], {"": rows}, (VIEWS_NOTE, *_agreement(checks)))


def _view_row(view: ViewCheck) -> list[Cell]:
    texts = (f"{view.n:,}", number(view.standing_out, 1, "+"), number(view.reliability, 2), WORDS[view.informed])
    return [Cell(view_title(view.name)), *map(Cell, texts)]


def _agreement(checks: ViewChecks) -> list[str]:
    if math.isnan(checks.agreement):
        return []
    return [
        f"Letters and likelihood prefer the same candidate in {percent(checks.agreement)} of the questions; chance "
        f"alone gives {percent(checks.chance)}."
    ]


def scores_table(found: Recommendation) -> Table:
    """A row for each confidence: accuracy, Brier score, ECE, AUROC and what it costs."""
    headings = ("Right", "Mean", "Brier", "ECE", "AUROC", "Cost")
    rows = [_score_row(row, found.means[name]) for name, row in found.rows.items()]
    note = "Mean: the mean confidence. Cost: tokens through the network per token of plain answering."
    if found.basis != "labels":
        note += (
            " Without right answers the mean of the posterior says how often the answers are right by the model's own "
            "account, its misconceptions included."
        )
    return Table([Column("Confidence", text=True, wraps=True), *map(Column, headings)], {"": rows}, (note,))


def _score_row(row: EstimatorSummary, mean: float) -> list[Cell]:
    intervals = row.intervals
    return [
        Cell(row.estimator.title),
        Cell(percent(row.accuracy)),
        Cell(number(mean, 3)),
        Cell(number(row.brier, 3), span(intervals.brier if intervals else None)),
        Cell(number(row.ece, 3), floor_side(row)),
        Cell(number(row.auroc, 3), span(intervals.auroc if intervals else None)),
        Cell(number(row.cost_measured, 1)),
    ]


def recommendation(found: Recommendation) -> str:
    """The recommendation in a sentence; it begins with the flags to type where there is a method."""
    if found.method is None:
        return f"recommended: nothing, because {_why_nothing(found.views)}."
    flags = " ".join((f"--method {found.method}", *found.flags))
    return f"recommended: {flags}, because {_by_labels(found) if found.basis == 'labels' else _by_views(found)}."


def _why_nothing(views: ViewChecks) -> str:
    if views.compared < FEWEST:
        return f"views of {views.compared} questions are too few to see anything in; give at least {FEWEST}"
    return (
        "no view shows that the model knows anything about these questions, and too few right answers are known to "
        "find out otherwise; --method posterior --guard reports 1/K for each of K candidates where none does"
    )


def _by_labels(found: Recommendation) -> str:
    if not found.gain:
        return "no other confidence has a lower Brier score than the stated one for sure"
    brier, auroc = found.gain["brier"], found.gain["auroc"]
    reason = (
        f"its Brier score is {brier.b:.3f} against {brier.a:.3f} stated (a gain of {-brier.interval.high:.3f} to "
        f"{-brier.interval.low:.3f}) and its AUROC {number(auroc.b, 3)} against {number(auroc.a, 3)}"
    )
    if found.flags:
        accuracy = found.best["accuracy"]
        reason += f", and its best answers are right in {percent(accuracy.b)}, the own ones in {percent(accuracy.a)}"
    if not auroc.b > 0.5:
        reason += "; it ranks these answers no better than chance, so what is gained may be the level alone"
    return reason


def _by_views(found: Recommendation) -> str:
    names = " and ".join(found.views.informed)
    show = f"the view {names} shows" if len(found.views.informed) == 1 else f"the views {names} show"
    return f"{show} that the model knows something about these questions; how much, only right answers can tell"


def recommendation_json(found: Recommendation) -> dict[str, Any]:
    """A recommendation as JSON values; whatever is undefined is None."""
    plain: dict[str, Any] = json_value(found)
    return plain | {"sentence": recommendation(found), "informed": list(found.views.informed)}
