"""Distributions and costs: what is drawn is what was counted, and names stay off each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from secl.errors import ParameterError
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.summary import summarise
from secl.records import Record
from secl.reports.figures.cost import Point, cost_figure, cost_points
from secl.reports.figures.drawing import WHITE
from secl.reports.figures.label_placement import overlap, place
from secl.reports.figures.scores import SLOTS, score_figure

INSIDE = (0.0, 0.0, 700.0, 400.0)


def test_right_answers_stand_up_wrong_ones_hang_down_and_empty_slots_have_no_bar() -> None:
    generator = np.random.default_rng(0)
    confidence = generator.random(60)
    correct = generator.random(60) < 0.4
    (axes,) = score_figure([("some", confidence, correct)]).axes
    heights: dict[int, list[float]] = {1: [0.0] * SLOTS, -1: [0.0] * SLOTS}
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        assert bar.get_height() != 0
        heights[int(np.sign(bar.get_height()))][int(bar.get_x() * SLOTS)] = bar.get_height()
    assert heights[1] == np.histogram(confidence[correct], SLOTS, (0, 1))[0].tolist()
    assert heights[-1] == (-np.histogram(confidence[~correct], SLOTS, (0, 1))[0]).tolist()
    assert axes.get_title() == f"some\n{correct.sum()} right, {(~correct).sum()} wrong"
    assert {bar.get_hatch() for bar in axes.patches if bar.get_height() < 0} == {"/////"}  # type: ignore[attr-defined]


def test_a_point_is_a_reading_with_its_costs_and_its_error(make_stream: Callable[[int], list[Record]]) -> None:
    summary = summarise(make_stream(80), intervals=False)
    by_name = {point.estimator.name: point for point in cost_points([summary])}
    for name, point in by_name.items():
        row = summary.estimators[name]
        assert (point.error, point.measured, point.paper) == (row.brier, row.cost_measured, row.cost_paper)
        assert point.cost == point.measured
    assert set(by_name) == set(summary.estimators)
    assert by_name["p_true"].label.endswith(f", n={summary.estimators['p_true'].n}")
    assert "n=" not in by_name["secl"].label


def test_readings_without_an_error_have_no_point_and_shared_ones_a_single_one(make_record: Any) -> None:
    unlabelled = summarise([make_record(correct=None, frozen_correct=None)])
    assert cost_points([unlabelled]) == []
    with pytest.raises(ParameterError, match="no confidence"):
        cost_figure([])
    graded = summarise([make_record(0), make_record(1)])
    twice = cost_points([graded, graded])
    assert [point.run for point in twice] == [0] * len(cost_points([graded]))


def test_what_needs_right_answers_is_hollow_and_every_name_is_there(make_stream: Any) -> None:
    points = cost_points([summarise(make_stream(80), intervals=False)])
    (axes,) = cost_figure(points).axes
    assert sorted(text.get_text() for text in axes.texts) == sorted(point.label for point in points)
    marks = [line for line in axes.lines if line.get_marker() not in ("|", "None")]
    faces = {(line.get_xdata()[0], line.get_ydata()[0]): line.get_markerfacecolor() for line in marks}  # type: ignore[index]
    for point in points:
        assert (faces[point.cost, point.error] == WHITE) == point.estimator.needs_labels, point


def test_markers_of_one_confidence_that_lie_together_share_a_name() -> None:
    near = [
        Point("Stated", ESTIMATORS["stated"], 0, 0.30, 1.0, 1.0),
        Point("Stated", ESTIMATORS["stated"], 1, 0.302, 1.01, 1.0),
    ]
    others = [
        Point("Stated", ESTIMATORS["stated"], 2, 0.10, 1.0, 1.0),
        Point("P(True)", ESTIMATORS["p_true"], 0, 0.301, 1.0, 1.0),
    ]
    (axes,) = cost_figure([*near, *others], ["a", "b", "c"]).axes
    assert sorted(text.get_text() for text in axes.texts) == ["P(True)", "Stated", "Stated"]
    assert len([line for line in axes.lines if line.get_marker() not in ("|", "None")]) == 4


def test_names_of_points_in_a_column_do_not_cover_each_other_or_the_points() -> None:
    spots = [(100.0, 50.0 + 7 * k) for k in range(6)] + [(300.0, 200.0), (300.0, 204.0)]
    boxes = place(spots, [(90.0, 10.0)] * 8, INSIDE)
    for one in range(8):
        assert overlap(boxes[one], INSIDE) == pytest.approx(900)
        assert all(overlap(boxes[one], (x - 3, y - 3, x + 3, y + 3)) == 0 for x, y in spots)
        assert all(overlap(boxes[one], boxes[other]) == 0 for other in range(one))


def test_histograms_of_right_and_wrong_answers_have_one_scale() -> None:
    figure = score_figure([("many", [0.5] * 90, [True] * 90), ("few", [0.5, 0.6], [True, False])])
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert figure.axes[0].get_ylim() == pytest.approx((-99.0, 99.0))
