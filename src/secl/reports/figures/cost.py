"""What a confidence costs against its error: the Brier score, or the ECE as in the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    SKY,
    VERMILLION,
    WHITE,
    new_figure,
)
from secl.reports.figures.label_placement import RADIUS, anchor, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAME_NAME = 12.0
"""Points (of 1/72 inch) within which markers with one name have it once."""


@dataclass(frozen=True, slots=True)
class Style:
    """How points of one family are drawn: marker and colour, and what the legend calls them."""

    marker: str
    colour: str
    title: str


STYLES: dict[Family, Style] = {
    "label_free": Style("D", PURPLE, "fitted without right answers"),
    "p_true": Style("s", GREEN, "P(True)"),
    "candidates": Style("P", VERMILLION, "all candidates"),
    "samples": Style("^", ORANGE, "several answers"),
    "learned": Style("*", BLUE, "SECL"),
    "reply": Style("o", BLACK, "the reply alone"),
}
RUN_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)


@dataclass(frozen=True, slots=True)
class Point:
    """One confidence in the plane of cost and error.

    Attributes:
        label: what people call it.
        estimator: estimator of the confidence.
        run: place of its run among those drawn.
        error: Brier score or ECE, in [0, 1].
        measured: cost in forward passes per question, as tokens per token of plain answering; None if unknown.
        paper: the same as the paper counts.
    """

    label: str
    estimator: Estimator
    run: int
    error: float
    measured: float | None
    paper: float

    @property
    def cost(self) -> float:
        """Where it stands: the measured cost if there is one."""
        return self.measured or self.paper


def cost_points(summaries: Sequence[Summary]) -> list[Point]:
    """A point for each estimator of each run with a Brier score and a cost; shared ones are there once."""
    distinct: dict[tuple[str, float, float], Point] = {}
    for run, summary in enumerate(summaries):
        most = max((row.n for row in summary.estimators.values()), default=0)
        for name, row in summary.estimators.items():
            measured = None if math.isnan(row.cost_measured) else row.cost_measured
            if math.isnan(row.brier) or not (measured or row.cost_paper):
                continue
            label = row.estimator.title.removesuffix("*").replace("temperature", "temp.").replace("Normalised", "Norm.")
            if row.n < most:
                label += f", n={row.n:,}"
            point = Point(label, row.estimator, run, row.brier, measured, row.cost_paper)
            distinct.setdefault((name, round(point.error, 9), round(point.cost, 9)), point)
    return list(distinct.values())


def cost_figure(points: Sequence[Point], runs: Sequence[str] = ("",), *, measure: str = "Brier score") -> Figure:
    """Cost against error (the paper's first figure): lower left is better.

    A marker stands at the measured cost, hollow where right answers were needed; a thin line leads to the cost as the
    paper counts it. Shapes tell the kind of confidence, colours too, or the run where there are several.

    Args:
        points: points made by `cost_points`.
        runs: what people call the runs, in the order of `Point.run`.
        measure: what people call the error.

    Raises:
        ParameterError: no points.
    """
    if not points:
        raise ParameterError("There is no confidence with a cost and an error to draw.")
    figure = new_figure(10.0, 5.6)
    axes = figure.add_subplot()
    _scale(axes, points, measure)
    for point in points:
        _mark(axes, point, len(runs))
    _legend(figure, points, runs)
    _name(figure, axes, points)
    return figure


def _scale(axes: Axes, points: Sequence[Point], measure: str) -> None:
    """Limits with room for names, and ticks at round costs."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    costs = [cost for point in points for cost in (point.cost, point.paper)]
    axes.set(xscale="log", xlabel="cost in forward passes per question (log scale)", ylabel=measure)
    axes.set_xlim(min(costs) / 1.35, max(costs) * 1.7)
    most = max(0.05, *(point.error for point in points))
    least = min(point.error for point in points)
    room = max(most - least, 0.05)
    axes.set_ylim(max(-0.03 * most, least - 0.1 * room), most + 0.12 * room)
    ticks = [step * 10.0**power for power in range(-3, 6) for step in (1, 2, 5)]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if axes.get_xlim()[0] <= tick]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _mark(axes: Axes, point: Point, runs: int) -> None:
    """The marker at the measured cost, and a line to the cost as the paper counts it."""
    marker, colour = _style(point, runs)
    if point.paper and point.paper != point.cost:
        axes.plot([point.paper, point.cost], [point.error] * 2, color=GREY, linewidth=0.8, alpha=0.7, zorder=2)
        axes.plot([point.paper], [point.error], "|", color=GREY, markersize=6, zorder=2)
    hollow = point.estimator.needs_labels
    size = (13 if marker == "*" else 7) + 2.5 * hollow  # so that one under the other can be seen
    style: dict[str, Any] = {
        "color": WHITE if hollow else colour,
        "markeredgecolor": colour,
        "zorder": 3 if hollow else 4,
    }
    axes.plot([point.cost], [point.error], marker, markersize=size, **style)


def _style(point: Point, runs: int) -> tuple[str, str]:
    """Marker and colour; with several runs the colour tells the run."""
    style = STYLES[point.estimator.family]
    return style.marker, style.colour if runs == 1 else RUN_COLOURS[point.run % len(RUN_COLOURS)]


def shortened(name: str) -> str:
    """A long name without its middle: runs of a sweep differ at their ends.

    >>> shortened("a run"), shortened("smollm2-secl-capitals-100-mmlu-100-seed=43-8219a070")
    ('a run', 'smollm2-secl-capit…eed=43-8219a070')
    """
    return name if len(name) <= 36 else f"{name[:18]}…{name[-15:]}"


def _legend(figure: Figure, points: Sequence[Point], runs: Sequence[str]) -> None:
    """What the shapes, colours and lines of those drawn mean."""
    from matplotlib.lines import Line2D

    several, families = len(runs) > 1, {point.estimator.family for point in points}
    entries: list[tuple[str, str, str, str]] = []
    for family, style in STYLES.items():
        if family in families:
            colour = GREY if several else style.colour
            entries.append((style.marker, colour, colour, style.title))
    if several:
        colours = RUN_COLOURS * len(runs)
        entries += [("o", colour, colour, shortened(run)) for run, colour in zip(runs, colours, strict=False)]
    if any(point.estimator.needs_labels for point in points):
        entries.append(("o", WHITE, BLACK, "hollow: needs right answers"))
    if any(point.paper != point.cost for point in points):
        entries.append(("|", GREY, GREY, "cost as the paper counts"))
    handles = [
        Line2D([], [], marker=shape, color=face, markeredgecolor=edge, linestyle="", markersize=8)
        for shape, face, edge, _ in entries
    ]
    legend = figure.legend(
        handles, [name for *_, name in entries], loc="outside upper center", ncols=4, frameon=False, fontsize=9
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _name(figure: Figure, axes: Axes, points: Sequence[Point]) -> None:
    """Names beside the points, with a line where a name stands further off; points that lie together share a name."""
    figure.draw_without_rendering()
    scale = 72 / figure.dpi

    def spot(cost: float, error: float) -> tuple[float, float]:
        x, y = axes.transData.transform((cost, error)) * scale
        return float(x), float(y)

    spots = [spot(point.cost, point.error) for point in points]
    ends = [spot(point.paper, point.error) for point in points]
    lines = [(min(x, end) - 1, y - 2, max(x, end) + 1, y + 2) for (x, y), (end, _) in zip(spots, ends, strict=True)]
    named = [i for i in range(len(points)) if not _named_already(i, points, spots)]
    lines += [(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for i, (x, y) in enumerate(spots) if i not in named]
    points, spots = [points[i] for i in named], [spots[i] for i in named]
    style: dict[str, Any] = {"fontsize": 8.5, "va": "center", "parse_math": False, "zorder": 5}
    line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    sizes = []
    for point in points:
        sample = axes.text(0, 0, point.label, **style)
        extent = sample.get_window_extent()
        sizes.append((extent.width * scale, extent.height * scale))
        sample.remove()
    left, bottom, right, top = (float(value) * scale for value in axes.bbox.extents)
    for point, (x, y), box in zip(points, spots, place(spots, sizes, (left, bottom, right, top), lines), strict=True):
        where, tip = (box[0] - x, (box[1] + box[3]) / 2 - y), anchor((x, y), box)
        far = math.dist(tip, (x, y)) > 11
        relative = ((tip[0] - box[0]) / (box[2] - box[0]), (tip[1] - box[1]) / (box[3] - box[1]))
        note = axes.annotate(
            point.label,
            (point.cost, point.error),
            where,
            textcoords="offset points",
            arrowprops={**line, "relpos": relative} if far else None,
            **style,
        )
        note.set_in_layout(False)


def _named_already(which: int, points: Sequence[Point], spots: Sequence[tuple[float, float]]) -> bool:
    """Whether an earlier point of the same name stands so near that one name does for both."""
    return any(
        points[i].label == points[which].label and math.dist(spots[i], spots[which]) < SAME_NAME for i in range(which)
    )
