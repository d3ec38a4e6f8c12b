"""Charts of labelled answers: reliability, and risk over coverage, with how many answers stand behind each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from secl.metrics.risk_control import risk_coverage
from secl.reports.formatting import counted
from secl.server.audit.entries import Values
from secl.server.http.dashboard.charts import HEIGHT, UNIT, WIDTH

FEW = 10
"""A bar of fewer answers is faded: the share of right ones among them can hardly be told."""

ENOUGH = 50
"""Labelled answers below which a chart says that they are too few: then half of the ECE, or more, is chance."""

FEWEST = 5
"""Accepted labels from which a share of wrong ones is drawn."""


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


@dataclass(frozen=True, slots=True)
class RiskChart:
    """Shares of wrong answers over the share that is accepted, both from 0 to 1.

    Attributes:
        expected: path data of what the confidences of the latest answers expect.
        labelled: path data of what labels show; empty while there are too few.
        upper: path data of the upper bound of that, at a certainty of 90 %; empty likewise.
        threshold: where the server's threshold stands; None without one.
        rows: at which confidence which share of the labelled answers is accepted, how many, and how many are wrong.
        description: the chart in words.
    """

    expected: str
    labelled: str
    upper: str
    threshold: float | None
    rows: list[Values]
    description: str


def risk_chart(points: Sequence[Values], feedback: Values) -> RiskChart:
    """The chart of the latest answers, and of the latest labelled ones.

    Args:
        points: at least one.
        feedback: of the same view.
    """
    curve = risk_coverage([point["confidence"] for point in points], [math.nan] * len(points))
    marked = [point["accepted"] for point in points if point["accepted"] is not None]
    share = sum(marked) / len(marked) if marked else None
    drawn = [each for each in feedback["risk"] if each["labels"] >= FEWEST]
    return RiskChart(
        expected=_path(list(zip(curve.coverage, curve.expected, strict=True))),
        labelled=_path([(each["coverage"], each["wrong"] / each["labels"]) for each in drawn]),
        upper=_path([(each["coverage"], each["upper"]) for each in drawn]),
        threshold=None if share is None else round(share * WIDTH, 1),
        rows=_quarters(drawn),
        description=_description(curve.answers, float(curve.expected[-1]), feedback, share),
    )


def _quarters(drawn: Sequence[Values]) -> list[Values]:
    """The points nearest to a quarter, a half, three quarters and all, each once."""
    nearest = [min(drawn, key=lambda each: abs(each["coverage"] - k / 4)) for k in (1, 2, 3, 4)] if drawn else []
    return [each for k, each in enumerate(nearest) if each not in nearest[:k]]


def _path(corners: Sequence[tuple[float, float]]) -> str:
    """Path data of a line through points with coverage and share."""
    if not corners:
        return ""
    return "M" + "L".join(f"{coverage * WIDTH:.1f} {UNIT.y(share):.1f}" for coverage, share in corners)


def _description(answers: int, expected: float, feedback: Values, share: float | None) -> str:
    accuracy = feedback["accuracy"]
    all_of_them = f"If all of the latest {counted(answers, 'answer')} are accepted"
    seen = "" if accuracy is None else f"; of {feedback['n']} labelled {1 - accuracy:.0%} are wrong"
    marked = "" if share is None else f" The threshold accepts {share:.0%}."
    return f"{all_of_them}, the confidences expect {expected:.0%} wrong ones{seen}.{marked}"
