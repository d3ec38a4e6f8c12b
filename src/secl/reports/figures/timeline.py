"""Timeline of a stream: entropies, alarms and bursts of the gate, confidences and accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from secl.grading.rules import grade
from secl.metrics.measures import running_mean
from secl.records import Record
from secl.reports.figures.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    new_figure,
    spread,
    styled,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DOMAINS = 12
"""Maximum number of groups of successive questions from one domain. With more groups, the picture omits borders."""


@styled
def timeline_figure(records: Sequence[Record], *, window: int = 20, adapted: bool = True) -> Figure:
    """Draw the gate along a stream, in panels over the position in the stream.

    The panels show entropies with their running mean; the gate's statistic; running means of the stated confidences
    and of the posterior, with signals and targets; and running accuracies. Panels without data are left out. Bursts
    are shaded, alarms are vertical lines, and domain borders are dotted. For a long stream, the panels show only
    some points (`spread`).
    """
    draw = {"entropy": 1.0, "statistic": 0.55, "confidence": 1.25, "accuracy": 0.8}
    if all(record.decision.statistic is None for record in records):
        del draw["statistic"]
    if all(record.correct is None and record.frozen_correct is None for record in records):
        del draw["accuracy"]
    figure = new_figure(10.0, 0.6 + 2.0 * sum(draw.values()))
    every = figure.subplots(len(draw), 1, sharex=True, squeeze=False, height_ratios=list(draw.values()))[:, 0]
    panels: dict[str, Axes] = dict(zip(draw, every, strict=True))
    _entropy(panels["entropy"], records, window)
    if "statistic" in panels:
        _statistic(panels["statistic"], records)
    _confidence(panels["confidence"], records, window, adapted)
    if "accuracy" in panels:
        _accuracy(panels["accuracy"], records, window, adapted)
    domains = [(name, list(run)) for name, run in groupby(records, key=lambda record: record.question.domain)]
    domains = domains if len(domains) <= MOST_DOMAINS else []
    for axes in every:
        _mark_learning(axes, records, named=axes is every[0])
        for _, run in domains[1:]:
            axes.axvline(run[0].position - 0.5, color=BLACK, linewidth=0.9, linestyle=(0, (1, 2)))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8.5, markerscale=1.8)
    first, last = records[0].position, records[-1].position
    every[-1].set_xlim(first - 0.5, max(last, first + 1) + 0.5)
    every[-1].set_xlabel("question of the stream")
    every[-1].locator_params(axis="x", integer=True)
    _name_domains(every[0], domains)
    figure.align_ylabels()
    return figure


def _mark_learning(axes: Axes, records: Sequence[Record], *, named: bool) -> None:
    """Shade the bursts and draw the alarms, with entries in the legend if `named`."""
    label = "burst" if named else "_burst"
    for in_burst, stretch in groupby(records, key=lambda record: record.decision.in_burst):
        if in_burst:
            positions = [record.position for record in stretch]
            axes.axvspan(positions[0] - 0.5, positions[-1] + 0.5, color=ORANGE, alpha=0.18, linewidth=0, label=label)
            label = "_another burst"
    label = "alarm" if named else "_alarm"
    for record in records:
        if record.decision.alarm:
            axes.axvline(record.position - 0.5, color=ORANGE, linewidth=1.6, label=label)
            label = "_another alarm"


def _name_domains(axes: Axes, domains: Sequence[tuple[str, Sequence[Record]]]) -> None:
    """Write the name of each domain above a panel, centred over its questions."""
    if not domains:
        return
    top = axes.secondary_xaxis("top")
    middles = [(run[0].position + run[-1].position) / 2 for _, run in domains]
    slanted: dict[str, Any] = {"rotation": 25, "ha": "left"} if len(domains) > 4 else {}
    top.set_xticks(middles, [wrapped(name, 30) for name, _ in domains], fontsize=8.5, **slanted)
    top.tick_params(length=0)


def _entropy(axes: Axes, records: Sequence[Record], window: int) -> None:
    shown = spread(len(records))
    positions = np.array([record.position for record in records])
    entropies = np.array([record.reply.entropy for record in records])
    size = min(18.0, max(5.0, 1500 / len(records)))
    axes.scatter(positions[shown], entropies[shown], s=size, color=GREY, alpha=0.6, linewidths=0, label="entropy")
    axes.plot(positions[shown], running_mean(entropies, window)[shown], color=BLUE, label=f"mean of {window}")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel("entropy (nats)")


def _statistic(axes: Axes, records: Sequence[Record]) -> None:
    shown = spread(len(records))
    statistic = np.array([math.nan if r.decision.statistic is None else r.decision.statistic for r in records])
    positions = [records[index].position for index in shown]
    peaks = np.fmax.reduceat(statistic, shown)  # keep the peaks, because they raise alarms
    axes.plot(positions, peaks, color=VERMILLION, linewidth=1, label="gate statistic")
    axes.set_ylabel("statistic")


def _confidence(axes: Axes, records: Sequence[Record], window: int, adapted: bool) -> None:
    signalled = [(record.position, record.signal) for record in records if record.signal is not None]
    updated = [(record.position, record.update.target) for record in records if record.update is not None]
    if signalled:
        positions, signals = np.array(signalled)[spread(len(signalled))].T
        axes.scatter(positions, signals, s=9, color=GREEN, alpha=0.55, linewidths=0, label="signal")
        _means(axes, records, [record.signal for record in records], window, "signal, mean")
    if updated:
        positions, targets = np.array(updated)[spread(len(updated))].T
        axes.scatter(positions, targets, s=14, color=PURPLE, marker="x", linewidths=0.8, label="target")
    _means(axes, records, [record.frozen.stated for record in records], window, "stated, frozen")
    if adapted:
        _means(axes, records, [record.reply.stated for record in records], window, "stated, adapted")
    if any(record.posterior is not None for record in records):
        posteriors = [None if record.posterior is None else record.posterior.own_probability for record in records]
        _means(axes, records, posteriors, window, "posterior")
    axes.set(ylabel=f"confidence,\nmean of {window}", ylim=(0, 1))


def _accuracy(axes: Axes, records: Sequence[Record], window: int, adapted: bool) -> None:
    _means(axes, records, [r.frozen_correct for r in records], window, "frozen")
    if adapted:
        _means(axes, records, [r.correct for r in records], window, "adapted")
    if any(record.posterior is not None for record in records):
        best = [None if r.posterior is None else grade(r.question, r.best_answer) for r in records]
        _means(axes, records, best, window, "best answers")
    axes.set(ylabel=f"accuracy,\nmean of {window}", ylim=(0, 1))


def _means(axes: Axes, records: Sequence[Record], values: Sequence[float | None], window: int, label: str) -> None:
    """Draw the running mean of the values that are not None, with a line style that depends on the label."""
    style: dict[str, Any] = {"color": VERMILLION if label in ("posterior", "best answers") else BLUE, "linewidth": 2.2}
    if label == "signal, mean":
        style = {"color": GREEN, "linewidth": 1.2}
    if label.endswith("frozen"):
        style = {"color": BLACK, "linewidth": 1, "linestyle": (0, (4, 4)), "zorder": 3}
    means = running_mean([math.nan if value is None else float(value) for value in values], window)
    shown = spread(len(records))
    axes.plot([records[index].position for index in shown], means[shown], label=label, **style)
