"""How the confidences of right and of wrong answers are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.metrics.graded import graded
from secl.reports.figures.drawing import BLACK, BLUE, VERMILLION, WHITE, Panel, new_figure, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLOTS = 20
"""Bars of a histogram."""

RIGHT: dict[str, Any] = {"facecolor": BLUE, "edgecolor": BLUE}
WRONG: dict[str, Any] = {"facecolor": WHITE, "edgecolor": VERMILLION, "hatch": "/////"}


def score_figure(panels: Sequence[Panel]) -> Figure:
    """How confidences are spread, four panels to a row: right answers upwards, wrong ones downwards and hatched.

    Args:
        panels: (title, confidences, grades) of each panel.

    Raises:
        ParameterError: no panels, or numbers that `secl.metrics.graded.graded` refuses.
    """
    if not panels:
        raise ParameterError("A figure of score distributions needs at least one panel.")
    from matplotlib.patches import Patch

    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(0.5 + 2.35 * columns, 0.35 + 2.35 * rows)
    grid = figure.add_gridspec(rows, columns)
    for number, (title, confidence, correct) in enumerate(panels):
        row, column = divmod(number, columns)
        axes = figure.add_subplot(grid[row, column])
        _score_panel(axes, title, confidence, correct)
        if column == 0:
            axes.set_ylabel("answers")
    handles = [Patch(label="right answers", **RIGHT), Patch(label="wrong answers", **WRONG)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _score_panel(axes: Axes, title: str, confidence: npt.ArrayLike, correct: npt.ArrayLike) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    confidences, grades = graded(confidence, correct)
    right = np.histogram(confidences[grades == 1], SLOTS, (0, 1))[0]
    wrong = np.histogram(confidences[grades == 0], SLOTS, (0, 1))[0]
    for counts, sign, style in ((right, 1, RIGHT), (wrong, -1, WRONG)):
        full = np.flatnonzero(counts)
        axes.bar((full + 0.05) / SLOTS, sign * counts[full], 0.9 / SLOTS, align="edge", **style)
    axes.axhline(0, color=BLACK, linewidth=0.8)
    axes.set_title(f"{wrapped(title)}\n{right.sum():,} right, {wrong.sum():,} wrong", fontsize=10, parse_math=False)
    most = max(int(right.max()), int(wrong.max()), 1)
    axes.set(xlim=(0, 1), ylim=(-1.1 * most, 1.1 * most), xticks=np.arange(0, 1.01, 0.2), xlabel="confidence")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, symmetric=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
