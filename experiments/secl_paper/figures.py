"""The paper's figures, drawn from the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from secl.metrics.probability import graded
from secl.reports.figures import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    WHITE,
    Panel,
    new_figure,
    reliability_figure,
    styled,
    wrapped,
    write_picture,
)
from secl_paper.compare import FinishedRun, Line, estimator_of
from secl_paper.layout import Run, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOTS = 20
"""Bars of a histogram."""

RIGHT: dict[str, Any] = {"label": "right answers", "facecolor": BLUE, "edgecolor": BLUE}
WRONG: dict[str, Any] = {"label": "wrong answers", "facecolor": WHITE, "edgecolor": VERMILLION, "hatch": "/////"}


def write_figure(table: Table, lines: Sequence[Line], runs: Mapping[Run, FinishedRun], stem: Path) -> None:
    """Draw the rows of a table as STEM.png and STEM.svg."""
    if table.figure == "cost":
        write_picture(cost_figure(lines), stem)
        return
    panels = []
    for row in table.rows:
        run = runs[row.runs[0]]
        panels.append(Panel(row.name, *estimator_of(row, run).estimate(run.records).graded()))
    draw = reliability_figure if table.figure == "reliability" else score_figure
    write_picture(draw(panels), stem)


@styled
def cost_figure(lines: Sequence[Line]) -> Figure:
    """Draw ECE over the paper's cost (its first figure): a named marker for each row with both numbers."""
    figure = new_figure(7.0, 4.4)
    axes = figure.add_subplot()
    axes.set(xlabel="cost in forward passes per question", ylabel="ECE")
    axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
    axes.margins(0.15)
    for line in lines:
        cost, error = line.ours.get("cost"), line.ours.get("ece")
        if cost is not None and error is not None:
            axes.plot([cost], [error], "o", color=BLUE, markersize=7)
            axes.annotate(line.name, (cost, error), (6, 6), textcoords="offset points", fontsize=9)
    return figure


@styled
def score_figure(panels: Sequence[Panel]) -> Figure:
    """Draw histograms of confidences to one scale: right answers upwards, wrong ones downwards and hatched."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure = new_figure(0.5 + 2.6 * len(panels), 2.85)
    every = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    most = 1
    for axes, panel in zip(every, panels, strict=True):
        confidences, grades = graded(panel.confidence, panel.correct)
        for grade, sign, style in ((1, 1, RIGHT), (0, -1, WRONG)):
            counts = np.histogram(confidences[grades == grade], SLOTS, (0, 1))[0]
            full = np.flatnonzero(counts)
            axes.bar((full + 0.05) / SLOTS, sign * counts[full], 0.9 / SLOTS, align="edge", **style)
            most = max(most, int(counts.max()))
        axes.axhline(0, color=BLACK, linewidth=0.8)
        axes.set_xlabel("confidence")
        right = int(grades.sum())
        axes.set_title(f"{wrapped(panel.title)}\n{right:,} right, {grades.size - right:,} wrong")
    every[0].set(ylabel="answers", xlim=(0, 1), ylim=(-1.1 * most, 1.1 * most), xticks=np.arange(0, 1.01, 0.2))
    every[0].yaxis.set_major_locator(MaxNLocator(5, integer=True, symmetric=True))
    every[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    figure.legend(handles=[Patch(**RIGHT), Patch(**WRONG)], loc="outside lower center", ncols=2)
    return figure
