"""Pictures are written, are complete, and name what they cannot draw. People judge their looks."""

import math
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from secl.errors import StorageError
from secl.metrics.measures import reliability, running_mean, wilson
from secl.metrics.risk_control import risk_coverage
from secl.reports.figures import POINTS, Panel, reliability_figure, risk_coverage_figure, timeline_figure, write_picture
from tests.answers import make_record, make_stream

pytestmark = pytest.mark.heavy


def panel(title: str, count: int = 200) -> Panel:
    generator = np.random.default_rng(0)
    confidence = generator.random(count)
    return Panel(title, confidence, generator.random(count) < confidence)


def whiskers(axes: Any) -> list[np.ndarray]:
    lines = [np.asarray(line.get_xydata()) for line in axes.lines]
    return [line[:, 1] for line in lines if len(line) == 2 and line[0, 0] == line[1, 0]]


def test_a_bar_is_the_accuracy_of_its_bin_and_pale_with_a_long_whisker_where_answers_are_few() -> None:
    confidence, correct = [0.12, 0.45, *[0.75] * 60, 0.95, 1.0], [0, 1, *[1, 0] * 30, 1, 0]
    top, strip = reliability_figure([Panel("some", confidence, correct)]).axes
    full = [group for group in reliability(confidence, correct) if group.count]
    bars = [patch for patch in top.patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() for bar in bars] == [group.accuracy for group in full]
    assert [bar.get_x() for bar in bars] == pytest.approx([group.lo + 0.005 for group in full])
    counts = [patch.get_height() for patch in strip.patches if isinstance(patch, Rectangle)]
    assert counts == [group.count for group in full] == [1, 1, 60, 2]
    assert [text.get_text() for text in strip.texts] == ["1", "1", "60", "2"]
    assert [to_rgba(bar.get_facecolor())[3] for bar in bars[1:3]] == pytest.approx([math.sqrt(1 / 50), 1.0])
    assert whiskers(top)[1] == pytest.approx(wilson(1.0, 1))
    assert whiskers(top)[2] == pytest.approx(wilson(0.5, 60))


def test_answers_of_one_document_that_are_right_together_have_a_longer_whisker() -> None:
    confidence, correct, documents = [0.75] * 60, [*[1] * 30, *[0] * 30], [row // 10 for row in range(60)]
    (alike,) = whiskers(reliability_figure([Panel("some", confidence, correct, documents)]).axes[0])
    assert alike == pytest.approx(wilson(0.5, 6))
    (mixed,) = whiskers(reliability_figure([Panel("some", confidence, [1, 0] * 30, documents)]).axes[0])
    assert alike[1] > mixed[1] > wilson(0.5, 60)[1]


def test_a_picture_is_a_png_for_the_page_a_pdf_and_an_svg_with_its_text_and_the_same_twice(tmp_path: Path) -> None:
    loaded, before = "matplotlib.pyplot" in sys.modules, matplotlib.rcParams.copy()
    panels = [panel("costs $5 & 10%_x < y"), panel("nothing", 0)]
    text = write_picture(reliability_figure(panels), tmp_path / "figure")
    assert ("matplotlib.pyplot" in sys.modules) == loaded
    assert matplotlib.rcParams.copy() == before
    assert "no graded answer" in text
    height, width = matplotlib.image.imread(tmp_path / "figure.png").shape[:2]
    assert (width, height) == pytest.approx((150 * 5.2, 150 * 3.65), abs=2)
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8") == text
    assert "costs $5 & 10%_x < y" in list(ET.fromstring(text).itertext())
    one, two = (write_picture(timeline_figure(make_stream(40)), tmp_path / name) for name in "ab")
    assert one == two
    for end in ("png", "pdf"):
        assert (tmp_path / f"a.{end}").read_bytes() == (tmp_path / f"b.{end}").read_bytes()
    assert b"/Type3" not in (tmp_path / "a.pdf").read_bytes()  # journals refuse fonts of type 3


def test_a_timeline_shows_bursts_alarms_and_borders_of_domains() -> None:
    records = make_stream(160)
    top = timeline_figure(records).axes[0]
    bursts = [patch for patch in top.patches if patch.get_label() in ("burst", "_another burst")]
    inside = [False, *(record.decision.in_burst for record in records)]
    assert len(bursts) == sum(now and not before for before, now in pairwise(inside))
    alarms = [line for line in top.lines if line.get_label() in ("alarm", "_another alarm")]
    assert len(alarms) == sum(record.decision.alarm for record in records) > 1
    (names,) = top.child_axes
    assert [text.get_text() for text in names.get_xticklabels()] == ["arc $challenge$", "truthful_qa"]


def test_a_picture_of_a_long_stream_is_no_larger_than_a_page_can_show() -> None:
    stream = make_stream(200)
    records = [replace(stream[index % 200], position=index) for index in range(4 * POINTS)]
    for axes in timeline_figure(records, window=100).axes:
        assert all(len(line.get_xdata()) <= POINTS for line in axes.lines)  # type: ignore[arg-type]
        assert all(len(cloud.get_offsets()) <= POINTS for cloud in axes.collections)  # type: ignore[arg-type]
    statistic = timeline_figure(records).axes[1].lines[0]
    peak = max(record.decision.statistic or 0.0 for record in records)
    assert np.nanmax(np.asarray(statistic.get_ydata(), dtype=float)) == peak
    curve = risk_coverage(np.linspace(0, 1, 5 * POINTS), np.arange(5 * POINTS) % 2)
    lines = [line for axes in risk_coverage_figure(curve).axes for line in axes.lines]
    assert 0 < max(len(line.get_xdata()) for line in lines) <= POINTS  # type: ignore[arg-type]


def test_few_or_mixed_questions_are_drawn_and_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    one = timeline_figure([make_record(correct=None, frozen_correct=None)])
    mixed = timeline_figure([make_record(index, domain=f"domain {index % 2}") for index in range(40)])
    for figure in (one, mixed):
        write_picture(figure, tmp_path / "figure")
        assert (tmp_path / "figure.png").stat().st_size > 1000
    assert not mixed.axes[0].child_axes
    with pytest.raises(StorageError, match=r"figure\.png"):
        write_picture(one, tmp_path / "missing" / "figure")


@given(st.lists(st.one_of(st.floats(0.0, 1.0), st.just(math.nan)), max_size=40), st.integers(1, 12))
def test_a_running_mean_looks_back_and_skips_what_is_undefined(values: list[float], window: int) -> None:
    means = running_mean(values, window)
    assert len(means) == len(values)
    for index, mean in enumerate(means):
        defined = [value for value in values[max(0, index - window + 1) : index + 1] if not math.isnan(value)]
        assert mean == pytest.approx(np.mean(defined) if defined else math.nan, abs=1e-12, nan_ok=True)


def test_a_legend_stands_below_the_axes_with_files_and_without(tmp_path: Path) -> None:
    for stem in (None, tmp_path / "figure"):
        figure = risk_coverage_figure(risk_coverage([0.9, 0.6, 0.4], [math.nan] * 3))
        write_picture(figure, stem)
        (legend,), (axes,) = figure.legends, figure.axes
        box = axes.get_tightbbox()
        assert box is not None
        assert legend.get_window_extent().y1 <= box.y0
