"""Risk over coverage: how many of the accepted answers are wrong if only the most confident ones are accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from secl.errors import ParameterError
from secl.metrics.risk_control import RiskCoverage, risk_bound
from secl.reports.figures.drawing import BLUE, GREY, ORANGE, SKY, grid, spread, styled, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.9
"""Of the exact interval at each coverage: a 20th is left out at either side."""

FEWEST = 5
"""Accepted labels from which a share of wrong ones is drawn."""

SHOWN = 0.05
"""Coverage from which the height of the plot is chosen: further to the left a few labels make any share."""


@styled
def risk_coverage_figure(panels: Mapping[str, RiskCoverage], risks: Sequence[float] = ()) -> Figure:
    """Risk over coverage, four panels to a row: what labels show with exact intervals, and what confidences expect.

    Args:
        panels: the curve of each panel by its title.
        risks: drawn as horizontal lines.

    Raises:
        ParameterError: there is no panel.
    """
    if not panels:
        raise ParameterError("A figure of risk over coverage needs at least one panel.")
    from matplotlib.ticker import PercentFormatter

    figure, every = grid(len(panels), 2.75, "accepted", "wrong of these")
    for axes, (title, curve) in zip(every, panels.items(), strict=True):
        _panel(axes, title, curve, risks)
    height = min(1.0, 1.2 * max(0.1, *map(_height, panels.values())))
    every[0].set(xlim=(0, 1), xticks=np.arange(0, 1.01, 0.25), ylim=(0, height))
    every[0].xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    every[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    lines = [line for axes in every for line in zip(*axes.get_legend_handles_labels(), strict=True)]
    named = {label: handle for handle, label in lines}
    columns = 1 if len(every) == 1 else 3
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=columns)
    return figure


def _height(curve: RiskCoverage) -> float:
    """The largest share of wrong ones that is to be seen; 0 without any."""
    wide = curve.coverage >= SHOWN
    shares = np.concatenate([curve.expected[wide], curve.risk[wide & (curve.labels >= FEWEST)]])
    return float(shares.max(initial=0.0))


def _panel(axes: Axes, title: str, curve: RiskCoverage, risks: Sequence[float]) -> None:
    for risk in risks:
        axes.axhline(risk, color=GREY, linewidth=0.6, linestyle=":")
    drawn = np.flatnonzero(curve.labels >= FEWEST)
    drawn = drawn[spread(len(drawn))]
    if drawn.size:
        coverage, labels, wrong = curve.coverage[drawn], curve.labels[drawn], curve.wrong[drawn]
        tail = (1 - LEVEL) / 2
        high, low = risk_bound(wrong, labels, 1 - tail), 1 - risk_bound(labels - wrong, labels, 1 - tail)
        axes.fill_between(coverage, low, high, color=SKY, alpha=0.35, linewidth=0, label="exact 90% interval")
        axes.plot(coverage, wrong / labels, color=BLUE, linewidth=1.6, label="labelled answers")
    shown = spread(len(curve.coverage))
    coverage, expected = curve.coverage[shown], curve.expected[shown]
    axes.plot(coverage, expected, color=ORANGE, linewidth=1.6, linestyle="--", label="by the confidences")
    count = f"{curve.answers:,} answers, {curve.total:,} labelled" if curve.total else f"{curve.answers:,} answers"
    axes.set_title(f"{wrapped(title, 30)}\n{count}")
