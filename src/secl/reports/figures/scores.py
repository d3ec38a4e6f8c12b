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

    All panels have one scale.

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
    counts = [_counts(confidence, correct) for _, confidence, correct in panels]
    most = max(1, *(int(max(right.max(), wrong.max())) for right, wrong in counts))
    for number, ((title, _, _), (right, wrong)) in enumerate(zip(panels, counts, strict=True)):
        row, column = divmod(number, columns)
        axes = figure.add_subplot(grid[row, column])
        _score_panel(axes, title, right, wrong, most)
        if column == 0:
            axes.set_ylabel("answers")
        else:
            axes.tick_params(labelleft=False)
    handles = [Patch(label="right answers", **RIGHT), Patch(label="wrong answers", **WRONG)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


Counts = npt.NDArray[np.intp]
"""Answers in each of the `SLOTS` bars."""


def _counts(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Counts, Counts]:
    """Right and wrong answers by confidence."""
    confidences, grades = graded(confidence, correct)
    right, wrong = (np.histogram(confidences[grades == each], SLOTS, (0, 1))[0] for each in (1, 0))
    return right, wrong


def _score_panel(axes: Axes, title: str, right: Counts, wrong: Counts, most: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for counts, sign, style in ((right, 1, RIGHT), (wrong, -1, WRONG)):
        full = np.flatnonzero(counts)
        axes.bar((full + 0.05) / SLOTS, sign * counts[full], 0.9 / SLOTS, align="edge", **style)
    axes.axhline(0, color=BLACK, linewidth=0.8)
    axes.set_title(f"{wrapped(title)}\n{right.sum():,} right, {wrong.sum():,} wrong", fontsize=10, parse_math=False)
    axes.set(xlim=(0, 1), ylim=(-1.1 * most, 1.1 * most), xticks=np.arange(0, 1.01, 0.2), xlabel="confidence")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, symmetric=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
