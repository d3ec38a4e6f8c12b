"""How the reported confidences are spread, by domain."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from secl.errors import ParameterError
from secl.reports.figures.drawing import BLACK, SKY, VERMILLION, new_figure, wrapped
from secl.reports.formatting import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 12
"""Domains that are drawn; of more, those with the most answers, and all of them together first."""

FEWEST = 5
"""Answers without which a domain has no panel."""

SLOTS = 20
"""Bars of a histogram."""


def confidence_groups(domains: Sequence[str], confidences: Sequence[float]) -> dict[str, list[float]]:
    """Confidences by domain: all answers first, then domains as they come, if there are several of `FEWEST` or more."""
    groups: dict[str, list[float]] = {}
    for domain, confidence in zip(domains, confidences, strict=True):
        groups.setdefault(domain, []).append(confidence)
    if len(groups) < 2:
        return groups
    large = [name for name in groups if len(groups[name]) >= FEWEST]
    most = sorted(large, key=lambda name: -len(groups[name]))[: MOST_PANELS - 1]
    return {"all answers": list(confidences)} | {name: groups[name] for name in groups if name in most}


def confidence_figure(groups: Mapping[str, Sequence[float]]) -> Figure:
    """Histograms of confidences, four to a row, in shares of their answers, so that all have one scale.

    A line stands at the mean.

    Args:
        groups: confidences in [0, 1] by the title of their panel.

    Raises:
        ParameterError: no groups, or one without confidences.
    """
    if not groups or not all(groups.values()):
        raise ParameterError("A figure of confidences needs at least one in each panel.")
    columns = min(4, len(groups))
    rows = math.ceil(len(groups) / columns)
    figure = new_figure(0.5 + (2.35 if columns > 1 else 4.5) * columns, 0.2 + 2.1 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    shares = {name: np.histogram(each, SLOTS, (0, 1))[0] / len(each) for name, each in groups.items()}
    top = max(float(each.max()) for each in shares.values())
    for axes, (name, confidences) in zip(panels.flat, groups.items(), strict=False):
        _panel(axes, name, confidences, shares[name])
    for axes in panels.flat[len(groups) :]:
        axes.set_visible(False)
    for index, axes in enumerate(panels.flat):
        if index + columns >= len(groups):
            axes.set_xlabel("confidence")
            axes.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("share of answers")
    panels[0, 0].set(xlim=(0, 1), ylim=(0, 1.08 * top), xticks=np.arange(0, 1.01, 0.2))
    return figure


def _panel(axes: Axes, name: str, confidences: Sequence[float], shares: np.ndarray) -> None:
    from matplotlib.ticker import PercentFormatter

    full = np.flatnonzero(shares)
    axes.bar((full + 0.05) / SLOTS, shares[full], 0.9 / SLOTS, align="edge", color=SKY, edgecolor=BLACK, linewidth=0.5)
    mean = statistics.fmean(confidences)
    axes.axvline(mean, color=VERMILLION, linewidth=1.5)
    axes.set_title(f"{wrapped(name)}\nn = {len(confidences):,}, mean {number(mean, 2)}", fontsize=10, parse_math=False)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
