"""The paper's figures, drawn of the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from secl.reports.figures.cost import Point, cost_figure
from secl.reports.figures.drawing import write_picture
from secl.reports.figures.reliability import reliability_figure
from secl_paper.compare import FinishedRun, Line, estimator_of
from secl_paper.layout import Run, Table
from secl_paper.scores import score_figure


def write_figure(table: Table, lines: Sequence[Line], runs: Mapping[Run, FinishedRun], stem: Path) -> None:
    """Draw the rows of a table as STEM.png and STEM.svg.

    Args:
        table: with a figure.
        lines: the numbers of its rows.
        runs: that its rows are computed from.
        stem: path without suffix; its folder must exist.
    """
    if table.figure == "cost":
        write_picture(cost_figure(_points(table, lines, runs), measure="ECE"), stem)
        return
    panels = []
    for row in table.rows:
        run = runs[row.runs[0]]
        panels.append((row.name, *estimator_of(row, run).estimate(run.records).graded()))
    draw = reliability_figure if table.figure == "reliability" else score_figure
    write_picture(draw(panels), stem)


def _points(table: Table, lines: Sequence[Line], runs: Mapping[Run, FinishedRun]) -> list[Point]:
    points = []
    for row, line in zip(table.rows, lines, strict=True):
        error, cost = line.ours.get("ece"), line.ours.get("cost")
        if error is not None and cost is not None:
            estimator = estimator_of(row, runs[row.runs[0]])
            points.append(Point(line.name, estimator, error, line.ours.get("cost_measured"), cost))
    return points
