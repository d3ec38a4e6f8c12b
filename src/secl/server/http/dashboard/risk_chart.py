"""Risk over coverage on the page: wrong answers among the accepted ones, if only the most confident are accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from secl.metrics.graded import Vector
from secl.metrics.risk_control import RiskCoverage, risk_coverage
from secl.reports.formatting import counted
from secl.server.http.dashboard.charts import UNIT, WIDTH
from secl.server.http.dashboard.shapes import Point

FEWEST = 5
"""Accepted labels from which a share of wrong ones is drawn."""


@dataclass(frozen=True, slots=True)
class RiskChart:
    """Shares of wrong answers over the share that is accepted, both from 0 to 1.

    Attributes:
        expected: path data of what the confidences expect.
        labelled: path data of what labels show; empty while there are too few.
        threshold: where the server's threshold stands; None without one.
        description: the chart in words.
    """

    expected: str
    labelled: str
    threshold: float | None
    description: str


def risk_chart(points: Sequence[Point]) -> RiskChart:
    """The chart of the latest answers.

    Args:
        points: at least one.
    """
    grades = [math.nan if point["correct"] is None else float(point["correct"]) for point in points]
    curve = risk_coverage([point["confidence"] for point in points], grades)
    marked = [point["accepted"] for point in points if point["accepted"] is not None]
    share = sum(marked) / len(marked) if marked else None
    return RiskChart(
        expected=_path(curve, curve.expected),
        labelled=_path(curve, curve.risk, FEWEST) if curve.total >= FEWEST else "",
        threshold=None if share is None else round(share * WIDTH, 1),
        description=_description(curve, share),
    )


def _path(curve: RiskCoverage, shares: Vector, fewest: int = 0) -> str:
    corners = [
        f"{coverage * WIDTH:.1f} {UNIT.y(float(share)):.1f}"
        for coverage, share, labels in zip(curve.coverage, shares, curve.labels, strict=True)
        if labels >= fewest
    ]
    return f"M{'L'.join(corners)}" if corners else ""


def _description(curve: RiskCoverage, share: float | None) -> str:
    parts = [f"If all of the latest {counted(curve.answers, 'answer')} are accepted, the confidences expect "]
    parts.append(f"{curve.expected[-1]:.0%} wrong ones")
    if curve.total:
        parts.append(f"; of {curve.total} labelled {curve.risk[-1]:.0%} are wrong")
    parts.append("." if share is None else f". The threshold accepts {share:.0%}.")
    return "".join(parts)
