"""Reliability diagrams: does 70% mean 70%?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.calibration import Bin, brier, ece, reliability
from secl.metrics.shares import wilson
from secl.reports.figures.drawing import BLACK, BLUE, GREY, SKY, VERMILLION, WHITE, Panel, new_figure, wrapped
from secl.reports.formatting import number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WHISKER: dict[str, Any] = {"color": BLACK, "linewidth": 0.8, "alpha": 0.7}
DOT: dict[str, Any] = {"color": VERMILLION, "marker": "o", "markersize": 5, "linewidth": 0, "markeredgecolor": WHITE}


def reliability_figure(panels: Sequence[Panel]) -> Figure:
    """Reliability diagrams side by side, four to a row: accuracy of each bin against the diagonal.

    A bar is the accuracy of the answers in its bin, its whisker the 95% interval of that, and the dot stands at their
    mean confidence; an empty bin has neither, and the fewer its answers, the paler a bar. The strip below counts the
    answers of each bin. Brier score and ECE, with ten bins [lo, hi), are in the title.

    Args:
        panels: (title, confidences, grades) of each diagram.

    Raises:
        ParameterError: no panels, or numbers that `secl.metrics.graded.graded` refuses.
    """
    if not panels:
        raise ParameterError("A reliability figure needs at least one panel.")
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(0.5 + 2.35 * columns, 0.35 + 3.3 * rows)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[4, 1.2] * rows)
    for index, (title, confidence, correct) in enumerate(panels):
        row, column = divmod(index, columns)
        top = figure.add_subplot(grid[2 * row, column])
        strip = figure.add_subplot(grid[2 * row + 1, column], sharex=top)
        _reliability_panel(top, strip, title, confidence, correct)
        if column == 0:
            top.set_ylabel("accuracy")
            strip.set_ylabel("answers", fontsize=8)
        else:
            top.tick_params(labelleft=False)
    width = {1: 1, 2: 2}.get(columns, 4)
    figure.legend(handles=_legend(), loc="outside lower center", ncols=width, frameon=False, fontsize=9)
    return figure


def _reliability_panel(top: Axes, strip: Axes, title: str, confidence: npt.ArrayLike, correct: npt.ArrayLike) -> None:
    full = [bar for bar in reliability(confidence, correct) if bar.count]
    score, error = brier(confidence, correct), ece(confidence, correct)
    shown = "no graded answer" if math.isnan(score) else f"Brier {number(score, 3)}, ECE {number(error, 3)}"
    top.set_title(f"{wrapped(title)}\n{shown}", fontsize=10, parse_math=False)
    ticks = np.arange(0, 1.01, 0.2)
    top.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    top.tick_params(labelbottom=False)
    strip.set(yticks=[], xlabel="confidence")
    for side in ("top", "right", "left"):
        strip.spines[side].set_visible(False)
    if full:
        _draw_bars(top, strip, full)
    else:
        top.text(0.45, 0.88, "no graded answers", ha="center", fontsize=9, color=GREY)
    top.plot([0, 1], [0, 1], color=BLACK, linewidth=1, linestyle="--")


def _legend() -> list[Artist]:
    """What a legend names: the same for all panels, however pale their bars are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(facecolor=SKY, edgecolor=BLUE, label="accuracy in the bin"),
        Line2D([], [], label="its 95% interval", **WHISKER),
        Line2D([], [], label="at the mean confidence", **DOT),
        Line2D([], [], color=BLACK, linewidth=1, linestyle="--", label="perfect calibration"),
    ]


def opacity(count: int) -> float:
    """How opaque a bar is that stands for so many answers: one is nearly nothing, 50 are enough.

    >>> [round(opacity(count), 2) for count in (1, 12, 50, 600)]
    [0.14, 0.49, 1.0, 1.0]
    """
    return min(math.sqrt(count / 50), 1.0)


def _draw_bars(top: Axes, strip: Axes, full: Sequence[Bin]) -> None:
    """Accuracy, mean confidence and count of the bins that have answers."""
    edges, accuracy = [bar.lo + 0.005 for bar in full], [bar.accuracy for bar in full]
    colours = [(SKY, opacity(bar.count)) for bar in full]
    top.bar(edges, accuracy, 0.09, align="edge", color=colours, edgecolor=[(BLUE, alpha) for _, alpha in colours])
    for bar in full:
        top.plot([bar.lo + 0.05] * 2, wilson(bar.accuracy, bar.count), **WHISKER)
    top.plot([bar.confidence for bar in full], accuracy, clip_on=False, zorder=4, **DOT)
    counts = [bar.count for bar in full]
    strip.bar(edges, counts, 0.09, align="edge", color=GREY)
    for bar in full:
        above = bar.count + 0.06 * max(counts)
        strip.text(bar.lo + 0.05, above, str(bar.count), rotation=90, fontsize=7, ha="center", va="bottom")
    strip.set_ylim(0, 1.9 * max(counts))
