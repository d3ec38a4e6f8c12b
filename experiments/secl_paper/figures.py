"""The paper's figures, drawn of the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from secl.reports.charts import Point, cost_figure, score_figure
from secl.reports.figures import reliability_figure, write_picture
from secl_paper.compare import FinishedRun, Line, estimator_of
from secl_paper.layout import Run, Table


def write_figure(table: Table, lines: Sequence[Line], runs: Mapping[Run, FinishedRun], stem: Path) -> None:
    """Draw the rows of a table as STEM.png and STEM.svg.

    Args:
        table: with a figure.
        lines: the numbers of its rows.
        runs: that its rows are computed from.
        stem: path without suffix; its folder must exist.
    """
    if table.figure == "cost":
        write_picture(cost_figure(_points(table, lines)), stem)
        return
    panels = []
    for row in table.rows:
        run = runs[row.runs[0]]
        series = estimator_of(row, run).read(run.records)
        pairs = [(c, right) for c, right in zip(series.confidence, series.correct, strict=True) if right is not None]
        panels.append((row.name, [c for c, _ in pairs], [right for _, right in pairs]))
    draw = reliability_figure if table.figure == "reliability" else score_figure
    write_picture(draw(panels), stem)


def _points(table: Table, lines: Sequence[Line]) -> list[Point]:
    points = []
    for row, line in zip(table.rows, lines, strict=True):
        error, cost = line.ours.get("ece"), line.ours.get("cost")
        if error is not None and cost is not None:
            points.append(Point(line.name, str(row.estimator), 0, error, line.ours.get("cost_measured"), cost))
    return points
