"""What `secl check` recommends: the views, what each confidence is worth here, and one method with the reason."""

from __future__ import annotations

import math
from typing import Any

from secl.evaluation.json_values import json_value
from secl.evaluation.recommendation import Recommendation
from secl.evaluation.view_check import ViewChecks
from secl.reports.formatting import number, percent, span
from secl.reports.posterior_section import agreement_sentence, letters_sentence
from secl.reports.summary_table import score_cells
from secl.reports.table import Cell, Column, Table


def views_lines(checks: ViewChecks) -> list[str]:
    """What letters and texts show without right answers, a sentence each."""
    letters = [] if math.isnan(checks.reliability) else [letters_sentence(checks.reliability, checks.compared)]
    return [*letters, *agreement_sentence(checks.agreement, checks.chance)]


def scores_table(found: Recommendation, *, full: bool = True) -> Table:
    """A row for each confidence: how many answers are right, what it says, its scores and, in full, what it costs."""
    note = "Says: the mean confidence. Cost: tokens through the network per token of plain answering."
    if found.basis != "labels":
        note += (
            " Without right answers the mean of the posterior says how often the answers are right by the model's own "
            "account, its misconceptions included."
        )
    headings = ("Right", "Says", "Brier", "ECE", "AUROC", "Cost") if full else ("Right", "Says", "Brier", "AUROC")
    rows = []
    for name, row in found.rows.items():
        cells = score_cells(row)
        auroc = Cell(cells["AUROC"].text, span(row.intervals["auroc"] if row.intervals else None))
        more = {"Right": cells["Accuracy"], "Says": Cell(percent(found.means[name])), "Cost": cells["Cost ours"]}
        cells |= {**more, "AUROC": auroc}
        rows.append(
            [Cell(row.estimator.title), *(cells[each] if full else Cell(cells[each].text) for each in headings)]
        )
    columns = [Column("Confidence", text=True, wraps=True), *map(Column, headings)]
    return Table(columns, {"": rows}, (note,) if full else ())


def use_and_why(found: Recommendation) -> tuple[str, str]:
    """The recommendation as a command, and the reason in a sentence."""
    return f"Use: secl run {_flags(found)}", f"Why: {_by_labels(found) if found.basis == 'labels' else BY_EXPERIENCE}."


def _flags(found: Recommendation) -> str:
    return " ".join((f"--method {found.method}", *found.flags))


BY_EXPERIENCE = (
    "it had a lower Brier score than the stated confidence on every model and set of questions that was measured; "
    "whether it has here only right answers can tell: label twenty"
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


def recommendation_json(found: Recommendation) -> dict[str, Any]:
    """A recommendation as JSON values; whatever is undefined is None."""
    plain: dict[str, Any] = json_value(found)
    return plain | {"sentence": " ".join(use_and_why(found))}
