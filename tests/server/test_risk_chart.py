"""Risk over coverage on the page, against values put in by hand."""

from __future__ import annotations

from secl.question import Question
from secl.server.http.dashboard.page import render
from secl.server.http.dashboard.risk_chart import risk_chart
from secl.server.http.dashboard.shapes import Point
from secl.server.http.dashboard.view import view
from tests.server.conftest import MakePosterior


def point(confidence: float, correct: bool | None = None, accepted: bool | None = None) -> Point:
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
    chart = risk_chart([point(0.6), point(0.9), point(0.9), point(0.2)])
    # 2 of 4 with 0.1 wrong on average, 3 of 4 with 0.2, all with 0.35.
    assert chart.expected == "M500.0 90.0L750.0 80.0L1000.0 65.0"
    assert (chart.labelled, chart.threshold) == ("", None)
    assert chart.description == "If all of the latest 4 answers are accepted, the confidences expect 35% wrong ones."


def test_labels_are_drawn_from_five_on_and_the_threshold_where_it_stands() -> None:
    confidences = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    points = [point(c, correct=c > 0.55, accepted=c >= 0.7) for c in confidences]
    chart = risk_chart(points)
    assert chart.labelled == f"M{5 / 6 * 1000:.1f} 80.0L1000.0 66.7"
    assert chart.threshold == 500.0
    assert chart.description.endswith("; of 6 labelled 33% are wrong. The threshold accepts 50%.")
    assert risk_chart(points[:4]).labelled == ""


def test_the_page_shows_it_and_an_empty_server_says_there_is_nothing(make_posterior: MakePosterior) -> None:
    service = make_posterior(method="stated", accept=0.9)
    assert "Which answers may be accepted" in render(view(service))
    service.ask(Question("Why?"))
    page = render(view(service))
    assert "The threshold accepts 0%." in page
    assert 'd="M0.0 0V100"' in page
