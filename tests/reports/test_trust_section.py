"""The verdict in a report and in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from secl.evaluation.reason import Reason
from secl.evaluation.trust import Verdict
from secl.reports.page import render
from secl.reports.run_report import RunReport
from secl.reports.trust_section import TITLE, trust_html, trust_line
from tests.reports.conftest import MakeRecord


def verdict(*reasons: Reason) -> Verdict:
    return Verdict("do not act on it", reasons, questions=9, graded=0)


def test_the_section_gives_every_reason_and_escapes_it() -> None:
    text = trust_html(verdict(Reason("constant", "stop", "All <b> same."), Reason("tested", "note", "By the way.")), 2)
    assert f"<h2>{TITLE}</h2>" in text
    assert 'class="warning"' in text
    assert "All &lt;b&gt; same." in text
    assert "By the way." in text


def test_the_line_gives_the_worst_reasons_alone() -> None:
    line = trust_line(verdict(Reason("constant", "stop", "All same."), Reason("tested", "note", "By the way.")))
    assert line == "verdict on the reported confidence: do not act on it. All same."


def test_the_page_begins_with_it(make_record: MakeRecord, make_report: Callable[..., RunReport]) -> None:
    run = make_report([make_record(n, digit=8, correct=n < 5) for n in range(40)])
    page = render([run], [{}], None)
    assert run.trust.level == "do not act on it"
    assert page.index(TITLE) < page.index("Summary</h2>")
    assert run.trust.reasons[0].sentence in page
