"""Risk over coverage on the page, against values put in by hand."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import binom

from secl.metrics.shares import wilson
from secl.question import Question
from secl.server.http.dashboard.labelled_charts import reliability_chart, risk_chart
from secl.server.http.dashboard.rendering import render
from secl.server.http.dashboard.view import feedback, view
from tests.server.conftest import MakePosterior


def point(confidence: float, correct: bool | None = None, accepted: bool | None = None) -> dict[str, Any]:
    return {
        "position": 0,
        "time": 0.0,
        "confidence": confidence,
        "frozen_confidence": confidence,
        "entropy": None,
        "alarm": False,
        "in_burst": False,
        "version": 0,
        "outcome": "idle",
        "correct": correct,
        "accepted": accepted,
    }


def test_the_lines_go_through_what_is_accepted_and_what_of_it_is_wrong() -> None:
    chart = risk_chart([point(0.6), point(0.9), point(0.9), point(0.2)], feedback([]))
    # 2 of 4 with 0.1 wrong on average, 3 of 4 with 0.2, all with 0.35.
    assert chart.expected == "M500.0 90.0L750.0 80.0L1000.0 65.0"
    assert (chart.labelled, chart.threshold) == ("", None)
    assert chart.description == "If all of the latest 4 answers are accepted, the confidences expect 35% wrong ones."


def test_labels_are_drawn_from_five_on_and_the_threshold_where_it_stands() -> None:
    confidences = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    points = [point(c, accepted=c >= 0.7) for c in confidences]
    labelled = [(c, c > 0.55) for c in confidences]
    chart = risk_chart(points, feedback(labelled))
    assert chart.labelled == f"M{5 / 6 * 1000:.1f} 80.0L1000.0 66.7"
    assert chart.threshold == 500.0
    assert chart.description.endswith("; of 6 labelled 33% are wrong. The threshold accepts 50%.")
    few = risk_chart(points, feedback(labelled[:4]))
    assert (few.labelled, few.upper, few.rows) == ("", "", [])


def test_the_bound_and_the_table_say_how_many_labels_stand_behind_each_share() -> None:
    labelled = [(1 - k / 100, k % 5 != 4) for k in range(100)]
    chart = risk_chart([point(0.5)], feedback(labelled))
    assert [(row["labels"], row["wrong"]) for row in chart.rows] == [(25, 5), (49, 9), (74, 14), (100, 20)]
    for row in chart.rows:
        share = 1 - row["upper"]  # with this share of right ones, so few wrong ones are seen in one of ten draws
        assert binom.cdf(row["wrong"], row["labels"], 1 - share) == pytest.approx(0.1)
    assert chart.upper.startswith("M50.0 ")
    assert chart.labelled.endswith("L1000.0 80.0")


def test_reliability_shows_counts_intervals_and_what_is_too_little() -> None:
    chart = reliability_chart(feedback([(0.72, True), (0.78, False)], drawn=1))
    (bar,) = chart.bars
    low, high = wilson(0.5, 2)
    assert (bar.x, bar.y, bar.width, bar.height, bar.few) == (708.0, 50.0, 84.0, 50.0, True)
    assert bar.whisker == f"M750.0 {100 - 100 * low:.2f}V{100 - 100 * high:.2f}"
    assert bar.stated == "M708.0 25.00h84.0"
    assert chart.counts == [0, 0, 0, 0, 0, 0, 0, 2, 0, 0]
    assert chart.few == "2 labels are too few to tell; 50 say something."
    assert chart.chosen.startswith("1 of them were volunteered, not drawn")
    many = reliability_chart(feedback([(0.72, True)] * 60, drawn=60))
    assert (many.bars[0].few, many.few, many.chosen) == (False, "", "")


def test_the_page_shows_it_and_an_empty_server_says_there_is_nothing(make_posterior: MakePosterior) -> None:
    service = make_posterior(method="stated", accept=0.9)
    assert "Which answers may be accepted" in render(view(service))
    service.ask(Question("Why?"))
    page = render(view(service))
    assert "The threshold accepts 0%." in page
    assert 'd="M0.0 0V100"' in page
