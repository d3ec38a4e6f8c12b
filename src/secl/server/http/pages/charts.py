"""The page's charts as numbers and path data; the template makes SVG of them.

All plots are 1000 wide and 100 high and are stretched to the available space, so that one drawing serves every screen;
strokes keep their width, and labels are text beside the plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from secl.reports.figures.timeline import running_mean
from secl.reports.formatting import counted
from secl.server.entries import Values

WIDTH, HEIGHT = 1000.0, 100.0

WINDOW = 20
"""Answers in a running mean."""

FEW = 10
"""A bar of fewer answers is faded: the share of right ones among them can hardly be told."""

ENOUGH = 50
"""Labelled answers below which a chart says that they are too few: then half of the ECE, or more, is chance."""

Kind = Literal["stated", "reported"]
"""What confidences are called: stated, or reported where a posterior may be among them."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A vertical axis.

    Attributes:
        ticks: its values at equal distances, lowest first; the first and the last one are its ends.
        digits: decimals that tell the ticks apart.
    """

    ticks: tuple[float, ...]
    digits: int

    def y(self, value: float) -> float:
        """The height of a value, downwards from the top."""
        low, high = self.ticks[0], self.ticks[-1]
        return HEIGHT * (1 - (value - low) / (high - low))

    @property
    def labels(self) -> list[str]:
        """Labels beside the plot, from the top down."""
        return [f"{tick:.{self.digits}f}" for tick in reversed(self.ticks)]

    @property
    def grid(self) -> list[float]:
        """Heights of the lines between its ends."""
        return [round(self.y(tick), 2) for tick in self.ticks[1:-1]]


UNIT = Axis((0.0, 0.25, 0.5, 0.75, 1.0), 2)
"""The axis of probabilities."""


def axis_for(values: Iterable[float]) -> Axis:
    """An axis with two to five round ticks around some values.

    >>> axis_for([0.13, 0.88]).ticks
    (0.0, 0.5, 1.0)
    >>> axis_for([1.02, 1.19]).labels
    ['1.20', '1.15', '1.10', '1.05', '1.00']
    >>> axis_for([]).ticks
    (0.0, 0.5, 1.0)
    """
    shown = list(values) or [0.0, 1.0]
    low, high = min(shown), max(shown)
    extent = max(high - low, 0.01)
    power = 10.0 ** math.floor(math.log10(extent / 4))
    for step in (factor * power for factor in (1, 2, 5, 10, 20)):
        first = math.floor(low / step + 1e-9)
        last = max(first + 1, math.ceil(high / step - 1e-9))
        if last - first <= 4:
            break
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return Axis(tuple(round(k * step, 12) for k in range(first, last + 1)), digits)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The latest answers as two panels over one another.

    Attributes:
        confidence, entropy: the panels' vertical axes.
        stated, entropies: dots, one for each answer.
        stated_mean, frozen_mean, entropy_mean: lines.
        bursts: left end and width of each burst.
        alarms: where each alarm is.
        positions: labels at the left end, in the middle and at the right end.
        description: the chart in words.
    """

    confidence: Axis
    entropy: Axis
    stated: str
    stated_mean: str
    frozen_mean: str
    entropies: str
    entropy_mean: str
    bursts: list[tuple[float, float]]
    alarms: list[float]
    positions: list[int]
    description: str


def timeline(points: Sequence[Values], kind: Kind = "stated") -> Timeline:
    """The chart of a view's timeline.

    Args:
        points: at least one, at consecutive positions.
        kind: what their confidences are called.
    """
    step = WIDTH / len(points)
    stated = [point["confidence"] for point in points]
    frozen = [point["frozen_confidence"] for point in points]
    entropies = [math.nan if point["entropy"] is None else point["entropy"] for point in points]
    axis = axis_for(value for value in entropies if math.isfinite(value))
    bursts = []
    for inside, run in groupby(enumerate(points), key=lambda item: item[1]["in_burst"]):
        indices = [index for index, _ in run]
        if inside:
            bursts.append((round(indices[0] * step, 2), round(len(indices) * step, 2)))
    alarms = [round((index + 0.5) * step, 2) for index, point in enumerate(points) if point["alarm"]]
    first, last = points[0]["position"], points[-1]["position"]
    return Timeline(
        confidence=UNIT,
        entropy=axis,
        stated=dots(stated, UNIT),
        stated_mean=line(running_mean(stated, WINDOW), UNIT),
        frozen_mean=line(running_mean(frozen, WINDOW), UNIT),
        entropies=dots(entropies, axis),
        entropy_mean=line(running_mean(entropies, WINDOW), axis),
        bursts=bursts,
        alarms=alarms,
        positions=[first, (first + last) // 2, last] if last - first > 1 else [first],
        description=(
            f"Answers {first} to {last}: {kind} confidence {np.mean(stated):.2f} on average, frozen model "
            f"{np.mean(frozen):.2f}; {counted(len(alarms), 'alarm')}, "
            f"{counted(sum(point['in_burst'] for point in points), 'answer')} in bursts."
        ),
    )


def dots(values: Sequence[float], axis: Axis) -> str:
    """Path data of one dot for each value; a dot is a line of no length with round ends."""
    step = WIDTH / len(values)
    return "".join(
        f"M{(index + 0.5) * step:.1f} {axis.y(value):.1f}h0"
        for index, value in enumerate(values)
        if math.isfinite(value)
    )


def line(values: Iterable[float], axis: Axis) -> str:
    """Path data of a line through all values; it is broken where one is undefined.

    >>> line([0.0, 0.5, float("nan"), 1.0], UNIT)
    'M125.0 100.0L375.0 50.0M875.0 0.0'
    """
    heights = list(values)
    step, path, pen = WIDTH / max(1, len(heights)), [], "M"
    for index, value in enumerate(heights):
        if math.isfinite(value):
            path.append(f"{pen}{(index + 0.5) * step:.1f} {axis.y(value):.1f}")
        pen = "L" if math.isfinite(value) else "M"
    return "".join(path)


@dataclass(frozen=True, slots=True)
class Bar:
    """The labelled answers of one bin.

    Attributes:
        x, y, width, height: of the bar, up to the bin's accuracy.
        whisker: path data of the 95% interval of the accuracy.
        stated: path data of a stroke at the mean confidence.
        few: whether they are fewer than `FEW`.
    """

    x: float
    y: float
    width: float
    height: float
    whisker: str
    stated: str
    few: bool


@dataclass(frozen=True, slots=True)
class Reliability:
    """Accuracy of labelled answers, over reported confidence.

    Attributes:
        bars: of the bins that have answers.
        counts: answers in each bin, lowest first.
        description: the chart in words.
        few: that there are too few to tell; "" if there are enough.
        chosen: that people chose what they rated; "" if all were drawn.
    """

    bars: list[Bar]
    counts: list[int]
    description: str
    few: str
    chosen: str


def reliability_chart(feedback: Values) -> Reliability:
    """The chart of a view's feedback."""
    bars, phrases = [], []
    for each in feedback["bins"]:
        accuracy, confidence, low, high = each["accuracy"], each["confidence"], each["low"], each["high"]
        if accuracy is None or confidence is None or low is None or high is None:
            continue
        left, width = each["lo"] * WIDTH, (each["hi"] - each["lo"]) * WIDTH
        x, wide, middle = left + 0.08 * width, 0.84 * width, left + width / 2
        bars.append(
            Bar(
                x=round(x, 1),
                y=round(UNIT.y(accuracy), 2),
                width=round(wide, 1),
                height=round(accuracy * HEIGHT, 2),
                whisker=f"M{middle:.1f} {UNIT.y(low):.2f}V{UNIT.y(high):.2f}",
                stated=f"M{x:.1f} {UNIT.y(confidence):.2f}h{wide:.1f}",
                few=each["count"] < FEW,
            )
        )
        phrases.append(f"{each['count']} near {confidence:.2f}, {accuracy:.0%} of them right")
    n, chosen = feedback["n"], feedback["n"] - feedback["drawn"]
    which = "They were" if chosen == n else f"{chosen} of them were"
    return Reliability(
        bars=bars,
        counts=[each["count"] for each in feedback["bins"]],
        description=f"{'; '.join(phrases)}.",
        few=f"{counted(n, 'label')} {'is' if n == 1 else 'are'} too few to tell; {ENOUGH} say something."
        if n < ENOUGH
        else "",
        chosen=f"{which} volunteered, not drawn: people rate what they dislike more often." if chosen else "",
    )
