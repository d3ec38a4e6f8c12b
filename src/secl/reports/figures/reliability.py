"""Reliability diagrams: accuracy over confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from secl.display import number
from secl.metrics.measures import brier, ece, reliability, wilson
from secl.reports.figures.drawing import BLACK, BLUE, GREY, SKY, VERMILLION, WHITE, Panel, new_figure, styled, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 4
"""Maximum number of diagrams in a row."""

MIN_ANSWERS = 50
"""Minimum number of answers for an opaque bar; bars of fewer answers are paler."""

WHISKER: dict[str, Any] = {"color": BLACK, "linewidth": 0.8, "alpha": 0.7}
DOT: dict[str, Any] = {"color": VERMILLION, "marker": "o", "markersize": 5, "linewidth": 0, "markeredgecolor": WHITE}
DIAGONAL: dict[str, Any] = {"color": BLACK, "linewidth": 1, "linestyle": "--"}


@styled
def reliability_figure(panels: Sequence[Panel]) -> Figure:
    """Draw a reliability diagram for each panel, four to a row.

    A bar shows the accuracy of a bin's answers. Its whisker is the 95% interval of the accuracy, and its dot marks the
    mean confidence of these answers. The strip below a diagram counts the answers of each of the ten bins. The title
    gives Brier score and ECE.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    columns, rows = min(ACROSS, len(panels)), math.ceil(len(panels) / ACROSS)
    figure = new_figure(0.5 + 2.35 * columns, 0.35 + 3.3 * rows)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[4, 1.2] * rows)
    for index, (title, confidence, correct) in enumerate(panels):
        row, column = divmod(index, columns)
        top = figure.add_subplot(grid[2 * row, column])
        strip = figure.add_subplot(grid[2 * row + 1, column], sharex=top)
        _draw_panel(top, strip, title, confidence, correct)
        if column == 0:
            top.set_ylabel("accuracy")
            strip.set_ylabel("answers", fontsize=8)
        else:
            top.tick_params(labelleft=False)
    handles = [
        Patch(facecolor=SKY, edgecolor=BLUE, label="accuracy in the bin"),
        Line2D([], [], label="95% interval", **WHISKER),
        Line2D([], [], label="mean confidence", **DOT),
        Line2D([], [], label="perfect calibration", **DIAGONAL),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols={1: 1, 2: 2}.get(columns, 4))
    return figure


def _draw_panel(top: Axes, strip: Axes, title: str, confidence: npt.ArrayLike, correct: npt.ArrayLike) -> None:
    full = [bar for bar in reliability(confidence, correct) if bar.count]
    score, error = brier(confidence, correct), ece(confidence, correct)
    shown = f"Brier {number(score, 3)}, ECE {number(error, 3)}" if full else "no graded answer"
    top.set_title(f"{wrapped(title)}\n{shown}")
    ticks = np.arange(0, 1.01, 0.2)
    top.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    top.tick_params(labelbottom=False)
    strip.set(yticks=[], xlabel="confidence")
    strip.spines["left"].set_visible(False)
    for bar in full:
        alpha = min(math.sqrt(bar.count / MIN_ANSWERS), 1.0)
        top.bar(bar.lo + 0.05, bar.accuracy, 0.09, color=(SKY, alpha), edgecolor=(BLUE, alpha))
        top.plot([bar.lo + 0.05] * 2, wilson(bar.accuracy, bar.count), **WHISKER)
        top.plot([bar.confidence], [bar.accuracy], clip_on=False, zorder=4, **DOT)
        counts = strip.bar(bar.lo + 0.05, bar.count, 0.09, color=GREY)
        strip.bar_label(counts, rotation=90, fontsize=7, padding=2)
    if full:
        strip.set_ylim(0, 1.9 * max(bar.count for bar in full))
    top.plot([0, 1], [0, 1], **DIAGONAL)
