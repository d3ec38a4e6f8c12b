"""The output of `secl compare`: a table of differences, and notes."""

from __future__ import annotations

import math

from secl.evaluation.compare import Comparison
from secl.metrics.intervals import FEWEST_COMPARED, FEWEST_OF_A_KIND, Difference
from secl.metrics.measures import MEASURES
from secl.reports.formatting import UNDEFINED, number
from secl.reports.table import Cell, Column, Row, Table

NOTE = (
    "Differences have 95% intervals by a paired bootstrap over questions; * marks an interval that excludes 0. All "
    "intervals are symmetric, because the ECE of few answers is biased. They lie in [-1, 1]. An interval needs "
    f"{FEWEST_COMPARED} questions. For the AUROC, it needs {FEWEST_OF_A_KIND} right and {FEWEST_OF_A_KIND} wrong "
    "answers."
)


def comparison_table(comparison: Comparison) -> Table:
    """Return a table, for 80 columns, of all measures, and of the Brier score of each domain if there are several."""
    sections = {"": {MEASURES[measure]: difference for measure, difference in comparison.measures.items()}}
    if len(comparison.domains) > 1:
        sections["Brier by domain"] = comparison.domains
    # Intervals may wrap as well, so that names keep some width.
    columns = (
        Column("", text=True, wraps=True),
        *map(Column, ("A", "B")),
        Column("Difference"),
        Column("95% interval", wraps=True),
        Column("", text=True),
    )
    rows = {
        section: [_row(name, difference) for name, difference in part.items()] for section, part in sections.items()
    }
    return Table(columns, rows, (NOTE,))


def _row(name: str, difference: Difference) -> Row:
    low, high = difference.interval.low, difference.interval.high
    cells = (
        name,
        number(difference.a, 3),
        number(difference.b, 3),
        number(difference.difference, 3, "+"),
        UNDEFINED if math.isnan(low) else f"{low:+.3f} to {high:+.3f}",
        "*" if difference.rises or difference.falls else "",
    )
    return [Cell(cell) for cell in cells]


def remarks(comparison: Comparison) -> list[str]:
    """Return notes on a comparison."""
    a, b = (f"{floor.mean:.3f} (in 95% of cases up to {floor.upper:.3f})" for floor in comparison.floors.values())
    lines = [
        f"If both were perfectly calibrated, chance would give A an ECE of {a} and B an ECE of {b}.",
        f"{comparison.answers_differ} of {comparison.shared} answers differ.",
    ]
    if comparison.unfinished:
        lines.insert(0, f"Unfinished: these are the {comparison.shared} questions that both runs have answered so far.")
    if comparison.graded < comparison.shared:
        ungraded = comparison.shared - comparison.graded
        lines.append(f"{ungraded} of {comparison.shared} questions are not graded on both sides.")
    if math.isnan(comparison.measures["auroc"].difference):
        lines.append(
            f"AUROC is undefined ({UNDEFINED}) where all answers are right or all are wrong. The AUROC uses the "
            "confidences before labels."
        )
    return lines
