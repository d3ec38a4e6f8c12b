"""The gate's timeline: what it saw over a stream, when it fired, and what learning made of the confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.grading import grade
from secl.records import Record
from secl.reports.figures.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new_figure, spread

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES, DOTS = (0, (4, 4)), (0, (1, 2))
"""Lines of the frozen model, and of the borders between domains."""


def timeline_figure(records: Sequence[Record], *, window: int = 20, adapted: bool = True) -> Figure:
    """What the gate did over a stream, in three panels that share the position in the stream.

    Top: entropy of every reply, its running mean, and the gate's statistic. Middle: stated confidence of the frozen
    model and of the adapted one, and the posterior of its answers (running means), with signal and target where there
    were any. Bottom: running accuracy, also of the posterior's best answers; left out where nothing is graded.
    Bursts are shaded, alarms are vertical lines, domain borders are dotted. Of a long stream no more is drawn than can
    be told apart (`secl.reports.figures.drawing.spread`), and bursts closer than that are one.

    Args:
        records: records of one run, in order.
        window: questions that a running mean looks back on.
        adapted: whether there is an adapted model to draw beside the frozen one.

    Raises:
        ParameterError: no records, or a window below 1.
    """
    if not records:
        raise ParameterError("There are no records to draw.")
    if window < 1:
        raise ParameterError(f"A running mean looks back on at least one question, not {window}.")
    graded = any(record.correct is not None or record.frozen_correct is not None for record in records)
    heights = [1.15, 1.25, 0.8] if graded else [1.15, 1.25]
    figure = new_figure(10.0, 0.6 + 2.06 * sum(heights))
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    domains = [(name, list(run)) for name, run in groupby(records, key=lambda record: record.question.domain)]
    domains = domains if len(domains) <= MOST_DOMAINS else []
    rows = _name_domains(panels[0], domains)
    for axes in panels:
        _mark_learning(axes, records, named=axes is panels[0])
        for _, run in domains[1:]:
            axes.axvline(run[0].position - 0.5, color=BLACK, linewidth=0.9, linestyle=DOTS)
    _entropy_panel(panels[0], records, window, rows)
    _confidence_panel(panels[1], records, window, adapted)
    if graded:
        _accuracy_panel(panels[2], records, window, adapted)
    first, last = records[0].position, records[-1].position
    panels[-1].set_xlim(first - 0.5, max(last, first + 1) + 0.5)
    panels[-1].set_xlabel("question of the stream")
    panels[-1].locator_params(axis="x", integer=True)
    figure.align_ylabels()
    return figure


def running_mean(values: npt.ArrayLike, window: int) -> npt.NDArray[np.float64]:
    """Mean of the last `window` values at every place, fewer at the start; nan values do not count.

    >>> running_mean([1.0, 3.0, float("nan"), 5.0], 2).tolist()
    [1.0, 2.0, 3.0, 5.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    defined = ~np.isnan(numbers)
    sums = np.concatenate([[0.0], np.cumsum(np.where(defined, numbers, 0.0))])
    counts = np.concatenate([[0], np.cumsum(defined)])
    ends = np.arange(1, len(numbers) + 1)
    starts = np.maximum(ends - window, 0)
    count = (counts[ends] - counts[starts]).astype(np.float64)
    return np.asarray((sums[ends] - sums[starts]) / np.where(count > 0, count, np.nan))


MARKS = 400
"""Most bursts and alarms that can be told apart along a stream."""


def _mark_learning(axes: Axes, records: Sequence[Record], named: bool) -> None:
    """Shade the bursts and draw the alarms; the first of each has a name in the legend if `named`."""
    near = len(records) // MARKS
    label = "burst" if named else "_burst"
    for first, last in stretches([record.position for record in records if record.decision.in_burst], near):
        axes.axvspan(first - 0.5, last + 0.5, color=ORANGE, alpha=0.18, linewidth=0, label=label)
        label = "_another burst"
    label = "alarm" if named else "_alarm"
    drawn = -math.inf
    for record in records:
        if record.decision.alarm and record.position > drawn + near:
            drawn = record.position
            axes.axvline(drawn - 0.5, color=ORANGE, linewidth=1.6, label=label)
            label = "_another alarm"


def stretches(positions: Sequence[int], near: int) -> list[tuple[int, int]]:
    """First and last of the stretches of positions between which no more than `near` others lie.

    >>> stretches([3, 4, 5, 7, 20], near=1)
    [(3, 7), (20, 20)]
    """
    found: list[tuple[int, int]] = []
    for position in positions:
        if found and position <= found[-1][1] + 1 + near:
            found[-1] = (found[-1][0], position)
        else:
            found.append((position, position))
    return found


LEGEND = 90
"""Characters that a line of a legend has room for, beside five or six marks."""


def _entropy_panel(axes: Axes, records: Sequence[Record], window: int, rows: int) -> None:
    """Entropies and the gate's statistic, below so many rows of names."""
    shown = spread(len(records))
    positions = np.array([record.position for record in records])
    entropies = np.array([record.reply.entropy for record in records])
    axes.scatter(
        positions[shown],
        entropies[shown],
        s=min(18.0, max(5.0, 1500 / len(records))),
        color=GREY,
        alpha=0.6,
        linewidths=0,
        label="entropy",
    )
    means = running_mean(entropies, window)
    axes.plot(positions[shown], means[shown], color=BLUE, label=f"entropy, mean of {window}")
    axes.set_ylabel("entropy (nats)")
    statistic = np.array([math.nan if r.decision.statistic is None else r.decision.statistic for r in records])
    handles, labels = axes.get_legend_handles_labels()
    tested = not np.isnan(statistic).all()
    # The statistic has the lower third of the panel to itself, so neither hides the other.
    above = 0.1 + 0.1 * rows
    _scale(axes, entropies.min(), entropies.max(), below=0.6 if tested else 0.05, above=above)
    if tested:
        right = axes.twinx()
        peaks = np.fmax.reduceat(statistic, shown)  # what makes the gate fire is not thinned away
        right.plot(positions[shown], peaks, color=VERMILLION, linewidth=1, label="gate statistic (right)")
        right.set_ylabel("gate statistic", loc="bottom", color=VERMILLION)
        right.tick_params(axis="y", colors=VERMILLION)
        for spine in right.spines.values():
            spine.set_visible(False)  # the panel has its frame already
        _scale(right, 0.0, float(np.nanmax(statistic)), below=0.0, above=2.2)
        handles.extend(right.get_legend_handles_labels()[0])
        labels.extend(right.get_legend_handles_labels()[1])
    _legend(axes, handles, labels)


def _scale(axes: Axes, low: float, high: float, below: float, above: float) -> None:
    """Limits with room below and above, as shares of the range, and ticks in the range only."""
    from matplotlib.ticker import MaxNLocator

    extent = max(high - low, 1e-3)
    high = low + extent
    axes.set_ylim(low - below * extent, high + above * extent)
    ticks = MaxNLocator(4).tick_values(low, high)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_yticks([tick for tick in ticks if low - 0.05 * extent <= tick <= high + 0.05 * extent])


def _has_posterior(records: Sequence[Record]) -> bool:
    return any(record.posterior is not None for record in records)


def _confidence_panel(axes: Axes, records: Sequence[Record], window: int, adapted: bool) -> None:
    signalled = [(record.position, record.signal) for record in records if record.signal is not None]
    updated = [(record.position, record.update.target) for record in records if record.update is not None]
    if signalled:
        positions, signals = np.array(signalled)[spread(len(signalled))].T
        axes.scatter(positions, signals, s=9, color=GREEN, alpha=0.55, linewidths=0, label="signal")
        _means(axes, records, [record.signal for record in records], window, "signal")
    if updated:
        positions, targets = np.array(updated)[spread(len(updated))].T
        axes.scatter(positions, targets, s=14, color=PURPLE, marker="x", linewidths=0.8, label="target")
    _means(axes, records, [record.frozen.confidence for record in records], window, "stated, frozen")
    if adapted:
        _means(axes, records, [record.reply.confidence for record in records], window, "stated, adapted")
    if _has_posterior(records):
        posteriors = [None if record.posterior is None else record.posterior.confidence for record in records]
        _means(axes, records, posteriors, window, "posterior")
    axes.set(ylabel="confidence", ylim=(0, 1))
    _legend(axes, *axes.get_legend_handles_labels())


def _accuracy_panel(axes: Axes, records: Sequence[Record], window: int, adapted: bool) -> None:
    _means(axes, records, [r.frozen_correct for r in records], window, "frozen")
    if adapted:
        _means(axes, records, [r.correct for r in records], window, "adapted")
    if _has_posterior(records):
        best = [None if r.posterior is None else grade(r.question, r.best_answer) for r in records]
        _means(axes, records, best, window, "best")
    axes.set(ylabel="accuracy", ylim=(0, 1))
    _legend(axes, *axes.get_legend_handles_labels())


def _means(axes: Axes, records: Sequence[Record], values: Sequence[float | None], window: int, label: str) -> None:
    """The running mean of a value, dashed for the frozen model; None values do not count."""
    style: dict[str, Any] = {"color": VERMILLION if label in ("posterior", "best") else BLUE, "linewidth": 2.2}
    if label == "signal":
        style = {"color": GREEN, "linewidth": 1.2}
    if label.endswith("frozen"):
        style = {"color": BLACK, "linewidth": 1, "linestyle": DASHES, "zorder": 3}
    means = running_mean([math.nan if value is None else float(value) for value in values], window)
    shown = spread(len(records))
    positions = [records[place].position for place in shown]
    axes.plot(positions, means[shown], label=f"{label}, mean of {window}", **style)


def _legend(axes: Axes, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Above the panel, where it covers nothing: one line, or two if it would be longer than the panel is wide."""
    anchor: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.1, "borderpad": 0.2}
    columns = len(labels) if sum(map(len, labels)) <= LEGEND else (len(labels) + 1) // 2
    axes.legend(handles, labels, ncols=columns, frameon=False, fontsize=8.5, markerscale=1.8, **anchor)


MOST_DOMAINS, MOST_ROWS = 12, 3
"""Most stretches of one domain whose borders can be drawn (a stream that mixes its domains has more), and most rows of
names."""

ACROSS = 120
"""Characters of a name that fit across the picture."""


def _name_domains(axes: Axes, domains: Sequence[tuple[str, Sequence[Record]]]) -> int:
    """Write the names of domains at the top of a panel; returns how many rows they take."""
    if not domains:
        return 1
    first, last = domains[0][1][0].position, domains[-1][1][-1].position
    width = max(last - first, 1) + 1
    names = [name if len(name) <= ACROSS // 2 else f"{name[: ACROSS // 2]}…" for name, _ in domains]
    middles = [((run[0].position + run[-1].position) / 2 - first + 0.5) / width for _, run in domains]
    places = name_places(list(zip(names, middles, strict=True)))
    for name, (share, row) in zip(names, places, strict=True):
        if row < MOST_ROWS:
            style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 8.5, "fontweight": "bold"}
            axes.text(share, 0.97 - 0.07 * row, name, transform=axes.transAxes, parse_math=False, **style)
    return min(1 + max(row for _, row in places), MOST_ROWS)


def name_places(names: Sequence[tuple[str, float]]) -> list[tuple[float, int]]:
    """Where names stand along a line: one that would leave it is moved inside, one that would cover another goes below.

    Args:
        names: each with where its middle belongs, as a share of the line, in order.

    Returns:
        for each its middle and its row, from 0.

    >>> name_places([("mmlu", 0.4), ("quiz/arithmetic", 0.98)])
    [(0.4, 0), (0.9375, 0)]
    >>> name_places([("quiz/capitals", 0.5), ("quiz/arithmetic", 0.55)])
    [(0.5, 0), (0.55, 1)]
    """
    ends: list[float] = []
    places = []
    for name, middle in names:
        half = len(name) / ACROSS / 2
        share = max(min(middle, 1 - half), half)
        row = next((row for row, end in enumerate(ends) if end <= share - half), len(ends))
        ends[row : row + 1] = [share + half + 1 / ACROSS]  # and a blank
        places.append((share, row))
    return places
