"""What a confidence costs against its error: the Brier score, or the ECE as in the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secl.errors import ParameterError
from secl.evaluation.series import Estimator, Family
from secl.evaluation.summary import Summary
from secl.reports.figures.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    WHITE,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = 0.03
"""Part of the picture's width and height within which markers have their numbers beside the first of them."""

STYLES: dict[Family, tuple[str, str]] = {
    "label_free": ("D", PURPLE),
    "p_true": ("s", GREEN),
    "candidates": ("P", VERMILLION),
    "samples": ("^", ORANGE),
    "learned": ("*", BLUE),
    "reply": ("o", BLACK),
}
"""Marker and colour of each kind of confidence."""


@dataclass(frozen=True, slots=True)
class Point:
    """One confidence in the plane of cost and error.

    Attributes:
        label: what people call it.
        estimator: estimator of the confidence.
        error: Brier score or ECE, in [0, 1].
        measured: cost in forward passes per question, as tokens per token of plain answering; None if unknown.
        paper: the same as the paper counts.
    """

    label: str
    estimator: Estimator
    error: float
    measured: float | None
    paper: float

    @property
    def cost(self) -> float:
        """Where it stands: the measured cost if there is one."""
        return self.measured or self.paper


def cost_points(summary: Summary) -> list[Point]:
    """A point for each estimator with a Brier score and a cost."""
    points = []
    most = max((row.n for row in summary.estimators.values()), default=0)
    for row in summary.estimators.values():
        measured = None if math.isnan(row.cost_measured) else row.cost_measured
        if not math.isnan(row.brier) and (measured or row.cost_paper):
            label = row.estimator.title + (f", n={row.n:,}" if row.n < most else "")
            points.append(Point(label, row.estimator, row.brier, measured, row.cost_paper))
    return points


@styled
def cost_figure(points: Sequence[Point], *, measure: str = "Brier score") -> Figure:
    """Cost against error (the paper's first figure): lower left is better.

    A marker stands at the measured cost, hollow where right answers were needed; a thin line leads to the cost as the
    paper counts it. The legend has the name to each number. Shapes and colours tell the kind of confidence.

    Args:
        points: points made by `cost_points`.
        measure: what people call the error.

    Raises:
        ParameterError: no points.
    """
    if not points:
        raise ParameterError("There is no confidence with a cost and an error to draw.")
    from matplotlib.ticker import LogLocator, NullLocator

    figure = new_figure(10.0, 5.6)
    axes = figure.add_subplot()
    costs = [cost for point in points for cost in (point.cost, point.paper) if cost]
    axes.set(xscale="log", xlabel="cost in forward passes per question (log scale)", ylabel=measure)
    axes.set_xlim(min(costs) / 1.35, max(costs) * 1.5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
    for point in points:
        _mark(axes, point)
    axes.margins(y=0.1)
    _number(axes, points)
    _legend(figure, points)
    return figure


def _mark(axes: Axes, point: Point) -> None:
    """The marker at the measured cost, and a line to the cost as the paper counts it."""
    if point.paper and point.paper != point.cost:
        axes.plot([point.paper, point.cost], [point.error] * 2, color=GREY, linewidth=0.8, alpha=0.7, zorder=2)
        axes.plot([point.paper], [point.error], "|", color=GREY, markersize=6, zorder=2)
    marker, colour = STYLES[point.estimator.family]
    hollow = point.estimator.needs_labels
    size = (13 if marker == "*" else 7) + 2.5 * hollow  # so that one under the other can be seen
    face = WHITE if hollow else colour
    axes.plot([point.cost], [point.error], marker, ms=size, mfc=face, mec=colour, zorder=3 if hollow else 4)


def _number(axes: Axes, points: Sequence[Point]) -> None:
    """The number of each confidence beside its marker; markers that lie together have theirs beside the first."""
    to_share = axes.transData + axes.transAxes.inverted()
    places: list[tuple[tuple[float, float], Point, list[int]]] = []
    for number, point in sorted(enumerate(points, 1), key=lambda each: (each[1].error, each[1].cost)):
        x, y = (float(value) for value in to_share.transform((point.cost, point.error)))
        near = next((all_here for (a, b), _, all_here in places if abs(a - x) < NEAR and abs(b - y) < NEAR), None)
        if near is None:
            places.append(((x, y), point, [number]))
        else:
            near.append(number)
    for _, point, numbers in places:
        text = ", ".join(map(str, sorted(numbers)))
        axes.annotate(text, (point.cost, point.error), (6, 6), textcoords="offset points", fontsize=8.5, zorder=5)


def _legend(figure: Figure, points: Sequence[Point]) -> None:
    """The name to each number, and what hollow markers and lines mean."""
    from matplotlib.lines import Line2D

    entries: list[tuple[str, str, str, str]] = []
    for number, point in enumerate(points, 1):
        marker, colour = STYLES[point.estimator.family]
        entries.append((marker, WHITE if point.estimator.needs_labels else colour, colour, f"{number}  {point.label}"))
    if any(point.estimator.needs_labels for point in points):
        entries.append(("o", WHITE, BLACK, "hollow: needs right answers"))
    if any(point.paper != point.cost for point in points):
        entries.append(("|", GREY, GREY, "cost as the paper counts"))
    handles = [
        Line2D([], [], marker=marker, mfc=face, mec=edge, linestyle="", ms=7, label=name)
        for marker, face, edge, name in entries
    ]
    figure.legend(handles=handles, loc="outside right upper")
