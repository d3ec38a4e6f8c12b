"""How the confidences of right and of wrong answers are spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from secl.errors import ParameterError
from secl.metrics.graded import graded
from secl.reports.figures.drawing import BLACK, BLUE, VERMILLION, WHITE, Panel, grid, styled, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOTS = 20
"""Bars of a histogram."""

RIGHT: dict[str, Any] = {"label": "right answers", "facecolor": BLUE, "edgecolor": BLUE}
WRONG: dict[str, Any] = {"label": "wrong answers", "facecolor": WHITE, "edgecolor": VERMILLION, "hatch": "/////"}


@styled
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
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, every = grid(len(panels), 2.35, "confidence", "answers")
    most = 1
    for axes, (title, confidence, correct) in zip(every, panels, strict=True):
        confidences, grades = graded(confidence, correct)
        for grade, sign, style in ((1, 1, RIGHT), (0, -1, WRONG)):
            counts = np.histogram(confidences[grades == grade], SLOTS, (0, 1))[0]
            full = np.flatnonzero(counts)
            axes.bar((full + 0.05) / SLOTS, sign * counts[full], 0.9 / SLOTS, align="edge", **style)
            most = max(most, int(counts.max()))
        axes.axhline(0, color=BLACK, linewidth=0.8)
        right = int(grades.sum())
        axes.set_title(f"{wrapped(title)}\n{right:,} right, {grades.size - right:,} wrong")
    every[0].set(xlim=(0, 1), ylim=(-1.1 * most, 1.1 * most), xticks=np.arange(0, 1.01, 0.2))
    every[0].yaxis.set_major_locator(MaxNLocator(5, integer=True, symmetric=True))
    every[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    figure.legend(handles=[Patch(**RIGHT), Patch(**WRONG)], loc="outside lower center", ncols=2)
    return figure
