"""Texts for display: segments, shades and marks of facts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import secl
from secl.records import Record
from secl.reports.html import TEMPLATES, html_templates
from secl.reports.texts import LEGEND, Segment, segments_of, short
from secl.testing import ScriptedModel
from tests.facts.test_facts import TEXT, facts_in, scored

POEM = "roses are red, violets are blue, and the sea is calm tonight " * 5


@pytest.mark.parametrize(
    "text", [TEXT, "东京的人口约为1400万。" * 25, "مدينة القاهرة فيها 21 مليون نسمة. " * 9, POEM, "1 2 3 " * 50]
)
def test_the_segments_of_a_text_join_to_the_text(text: str) -> None:
    record = scored(text)
    segments = segments_of(record)
    assert "".join(segment.text for segment in segments) == record.text
    assert [segment.fact for segment in segments if segment.fact] == list(facts_in(record))


def test_an_unreadable_answer_has_no_pieces() -> None:
    record = scored()
    assert segments_of(replace(record, facts=None, reply=replace(record.reply, answer=None))) == []


def at(confidence: float, threshold: float | None = None) -> Segment:
    fact = replace(facts_in(scored())[0], threshold=threshold)
    assert fact.posterior is not None
    posterior = replace(fact.posterior, probabilities=(confidence, 1 - confidence))
    return Segment(str(fact.text), replace(fact, posterior=posterior, labelled=None))


@pytest.mark.parametrize(
    ("confidence", "threshold", "shade", "mark"),
    [
        (1.0, None, 0, ""),
        (0.9, None, 0, ""),
        (0.89, None, 1, ""),
        (0.6, None, 2, ""),
        (0.31, None, 3, "[0.31]"),
        (0.001, None, 4, "[<0.01]"),
        (0.89, 0.95, 1, "[0.89]"),
        (0.31, 0.2, 3, ""),
        (math.nan, None, None, ""),
        (math.nan, 0.9, None, ""),
    ],
)
def test_a_less_certain_fact_has_a_darker_shade_and_below_the_threshold_a_mark(
    confidence: float, threshold: float | None, shade: int | None, mark: str
) -> None:
    segment = at(confidence, threshold)
    assert (segment.shade, segment.mark) == (shade, mark)
    assert segment.is_uncertain == bool(mark)


@pytest.mark.parametrize(("right", "shade", "mark"), [(True, 0, "[right]"), (False, 4, "[wrong]")])
def test_a_label_replaces_the_confidence_of_a_fact(right: bool, shade: int, mark: str) -> None:
    fact = at(0.31).fact
    assert isinstance(fact, Record)
    segment = Segment("x", fact.with_label(right))
    assert (segment.shade, segment.mark, segment.is_uncertain) == (shade, mark, not right)


def test_labels_move_shades() -> None:
    model = secl.load(ScriptedModel())
    before = [segment.shade for segment in segments_of(scored(model=model))]
    for number in range(30):
        for fact in facts_in(scored(TEXT.replace("1535", str(1500 + number)), model)):
            model.label(fact, True, chance=1)
    after = [segment.shade for segment in segments_of(scored(model=model))]
    assert before != after
    assert all(
        late <= early for early, late in zip(before, after, strict=True) if early is not None and late is not None
    )


def test_a_page_shows_each_fact_with_its_shade_title_and_mark(tmp_path: Path) -> None:
    (tmp_path / "text.html").write_text(
        '{% from "shared.html" import shaded, legend %}{{ shaded(segments) }}{{ legend(words) }}'
    )
    assert TEMPLATES.exists()
    page = (
        html_templates(tmp_path)
        .get_template("text.html")
        .render(segments=[Segment("In <"), at(0.31), Segment("\n& so on")], words=LEGEND)
    )
    assert 'In &lt;<mark class="fact shade-3" title="name, confidence 0.31' in page
    assert '<bdi class="mark">[0.31]</bdi>\n&amp; so on</div>' in page
    assert page.count("<mark") == 1 + len(LEGEND)


def test_short_confidences_are_never_0_or_1_by_rounding() -> None:
    assert [short(p) for p in (0.0, 1e-9, 0.004, 0.005, 0.994, 0.995, 1.0)] == [
        "0.00",
        "<0.01",
        "<0.01",
        "0.01",
        "0.99",
        ">0.99",
        "1.00",
    ]
    assert short(math.nan) == "–"  # noqa: RUF001  an en dash
