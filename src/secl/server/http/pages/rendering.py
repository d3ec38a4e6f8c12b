"""The pages as texts: templates, their filters, and the numbers of the chart.

The chart is 1000 wide and 100 high, stretched to the available space. Its vertical axis goes from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from time import time

import jinja2
import numpy as np

from secl.reports.figures.timeline import running_mean
from secl.reports.formatting import counted, html_templates
from secl.server.entries import Values, moment
from secl.server.http.pages.view import State
from secl.server.records import Point

WIDTH = 1000.0

WINDOW = 20
"""Answers in a running mean."""

ASSETS = Path(__file__).parent / "assets"


def overview(state: State) -> str:
    """Return the overview."""
    points = state.timeline
    before = "frozen model" if state.learning else "stated"
    return fill(
        "index.html",
        "Overview",
        state=state,
        before=before,
        now=time(),
        mean={
            name: _mean([value for point in points if (value := getattr(point, name)) is not None])
            for name in ("confidence", "frozen_confidence", "accepted")
        },
        timeline=timeline(points, before),
    )


def fill(template: str, here: str, *, root: str = "", locked: bool = False, **values: object) -> str:
    """Return a page from a template and its values; a `locked` page only asks for a key.

    `here`: name among the links. `root`: path to the overview.
    """
    return _templates().get_template(template).render(here=here, root=root, locked=locked, **values)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:z.{digits}f}"  # noqa: RUF001


@cache
def _templates() -> jinja2.Environment:
    templates = html_templates(ASSETS)
    templates.filters |= {"number": _number, "moment": moment}
    return templates


def timeline(points: Sequence[Point], before: str) -> Values | None:
    """Return the chart of the latest answers; None without a confidence.

    Returns dots (`confidences`), lines (`..._mean`), left ends and widths of bursts, labels (`positions`), and a
    description.
    """
    points = [each for each in points if each.confidence is not None]
    if not points:
        return None
    confidences = [math.nan if each.confidence is None else each.confidence for each in points]
    frozen = [math.nan if each.frozen_confidence is None else each.frozen_confidence for each in points]
    stated = [value for value in frozen if not math.isnan(value)]  # values of fields have no stated confidence
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
        "confidences": "".join(f"M{place}h0" for place in places(confidences)),  # a line of no length with round ends
        "confidence_mean": line(running_mean(confidences, WINDOW).tolist()),
        "frozen_mean": line(running_mean(frozen, WINDOW).tolist()),
        "bursts": bursts,
        "alarms": alarms,
        "positions": [first, (first + last) // 2, last] if last - first > 1 else [first],
        "description": (
            f"Answers {first} to {last}: confidence {np.mean(confidences):.2f} on average"
            f"{f', {before} {np.mean(stated):.2f}' if stated else ''}{learned}."
        ),
    }


def places(values: Sequence[float]) -> list[str]:
    """Return the points of values from 0 to 1 in the chart.

    >>> places([1.0, 0.5])
    ['250.0 0.0', '750.0 50.0']
    """
    step = WIDTH / len(values)
    return [f"{(index + 0.5) * step:.1f} {100.0 * (1.0 - value):.1f}" for index, value in enumerate(values)]


def line(values: Sequence[float]) -> str:
    """Return SVG path data of a line through all values that are not nan; "" if all values are nan.

    >>> line([1.0, math.nan, 0.0]), line([math.nan])
    ('M166.7 0.0L833.3 100.0', '')
    """
    known = [place for value, place in zip(values, places(values), strict=True) if not math.isnan(value)]
    return f"M{'L'.join(known)}" if known else ""
