"""The page's chart as numbers and path data; the template makes SVG of them.

It is 1000 wide and 100 high and is stretched to the available space, so that one drawing serves every screen; strokes
keep their width, and labels are text beside the plot. The vertical axis goes from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from secl.reports.figures.timeline import running_mean
from secl.reports.formatting import counted
from secl.server.entries import Values
from secl.server.records import Point

WIDTH = 1000.0

WINDOW = 20
"""Answers in a running mean."""


def y(value: float) -> float:
    """The height of a value from 0 to 1, downwards from the upper end."""
    return 100.0 * (1.0 - value)


def timeline(points: Sequence[Point], before: str) -> Values | None:
    """Confidence of the latest answers, and where they were learned from; None without a confidence.

    Returns:
        confidences: dots, one for each answer. confidence_mean, frozen_mean: lines. bursts: left end and width of each;
        alarms: where each is. positions: labels from left to right. description: the chart in words.
    """
    known = [
        (point, point.confidence, point.frozen_confidence)
        for point in points
        if point.confidence is not None and point.frozen_confidence is not None
    ]
    if not known:
        return None
    points, confidences, frozen = zip(*known, strict=True)
    step = WIDTH / len(points)
    bursts = []
    for inside, run in groupby(enumerate(points), key=lambda item: item[1].in_burst):
        indices = [index for index, _ in run]
        if inside:
            bursts.append((round(indices[0] * step, 2), round(len(indices) * step, 2)))
    alarms = [round((index + 0.5) * step, 2) for index, point in enumerate(points) if point.alarm]
    in_bursts = counted(sum(point.in_burst for point in points), "answer")
    learned = f"; {counted(len(alarms), 'alarm')}, {in_bursts} in bursts" if bursts else ""
    first, last = points[0].position, points[-1].position
    return {
        "confidences": dots(confidences),
        "confidence_mean": line(running_mean(confidences, WINDOW).tolist()),
        "frozen_mean": line(running_mean(frozen, WINDOW).tolist()),
        "bursts": bursts,
        "alarms": alarms,
        "positions": [first, (first + last) // 2, last] if last - first > 1 else [first],
        "description": (
            f"Answers {first} to {last}: confidence {np.mean(confidences):.2f} on average, {before} "
            f"{np.mean(frozen):.2f}{learned}."
        ),
    }


def dots(values: Sequence[float]) -> str:
    """Path data of one dot for each value; a dot is a line of no length with round ends.

    >>> dots([1.0, 0.5])
    'M250.0 0.0h0M750.0 50.0h0'
    """
    step = WIDTH / len(values)
    return "".join(f"M{(index + 0.5) * step:.1f} {y(value):.1f}h0" for index, value in enumerate(values))


def line(values: Sequence[float]) -> str:
    """Path data of a line through all values.

    >>> line([1.0, 0.5])
    'M250.0 0.0L750.0 50.0'
    """
    step = WIDTH / len(values)
    return "M" + "L".join(f"{(index + 0.5) * step:.1f} {y(value):.1f}" for index, value in enumerate(values))
