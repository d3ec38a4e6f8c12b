"""Risk over coverage: the share of wrong answers among the most confident answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from secl.metrics.risk_control import RiskCoverage, risk_bound
from secl.reports.figures.drawing import BLUE, GREY, ORANGE, SKY, new_figure, spread, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.9
"""Level of the exact two-sided interval at each coverage."""

MIN_ACCEPTED = 5
"""Minimum number of accepted labelled answers; with fewer, the picture shows no share of wrong answers."""

MIN_COVERAGE = 0.05
"""Minimum coverage of the points that determine the height of the plot, because lower coverage has few labels."""


@styled
def risk_coverage_figure(curve: RiskCoverage, risks: Sequence[float] = ()) -> Figure:
    """Draw the risk measured by labels, with exact intervals, and the risk expected from the confidences.

    `risks` are heights of horizontal lines.
    """
    from matplotlib.ticker import PercentFormatter

    figure = new_figure(6.0, 3.4)
    axes = figure.add_subplot()
    for risk in risks:
        axes.axhline(risk, color=GREY, linewidth=0.6, linestyle=":")
    drawn = np.flatnonzero(curve.labels >= MIN_ACCEPTED)
    drawn = drawn[spread(len(drawn))]
    if drawn.size:
        coverage, labels, wrong = curve.coverage[drawn], curve.labels[drawn], curve.wrong[drawn]
        tail = (1 - LEVEL) / 2
        worth, scale = curve.worth[drawn], curve.worth[drawn] / labels
        high = risk_bound(wrong * scale, worth, 1 - tail)
        low = 1 - risk_bound((labels - wrong) * scale, worth, 1 - tail)
        axes.fill_between(coverage, low, high, color=SKY, alpha=0.35, linewidth=0, label="exact 90% interval")
        axes.plot(coverage, wrong / labels, color=BLUE, linewidth=1.6, label="labelled answers")
    shown = spread(len(curve.coverage))
    coverage, expected = curve.coverage[shown], curve.expected[shown]
    axes.plot(coverage, expected, color=ORANGE, linewidth=1.6, linestyle="--", label="by the confidences")
    labelled = f", {curve.total:,} labelled" if curve.total else ""
    axes.set_title(f"{curve.answers:,} answers{labelled}")
    wide = curve.coverage >= MIN_COVERAGE
    shares = np.concatenate([curve.expected[wide], curve.risk[wide & (curve.labels >= MIN_ACCEPTED)]])
    top = min(1.0, 1.2 * float(shares.max(initial=0.1)))
    axes.set(xlabel="accepted", ylabel="wrong of these", xlim=(0, 1), ylim=(0, top))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.legend(loc="outside lower center", ncols=3)
    return figure
