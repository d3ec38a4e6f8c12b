"""The table of all questions, who needs a look, and what is said where nothing is graded."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secl.data.cells import harmless
from secl.evidence import Labelled, Posterior
from secl.question import Question
from secl.records import Record
from secl.reports import question_table
from secl.reports.answers import answer_rows, neediest
from secl.reports.figures.confidences import confidence_figure, confidence_groups
from secl.reports.folder import check_folder, markdown, write_report
from secl.reports.question_table import LONGEST, page_rows, questions_csv, questions_markdown, script_json
from secl.reports.run_report import RunReport, domain_panels
from secl.reports.terminal import print_run
from secl.reports.unlabelled import domains_table, estimate_share, headline, levels_table, share_notes

MakeRecord = Callable[..., Record]
MakeReport = Callable[..., RunReport]
HOSTILE = "</script><img src=x onerror=alert(1)> | *a*\n=1+1"


def posterior(*probabilities: float, own: int = 0) -> Posterior:
    return Posterior(
        candidates=tuple("uvwxyz"[: len(probabilities)]),
        probabilities=probabilities,
        own=own,
        weights=(),
        reliability=None,
        questions=0,
    )


@pytest.fixture
def various(make_record: MakeRecord) -> list[Record]:
    """Answers with 0, 1, 2 and 3 signs, none of them graded."""
    blank: dict[str, Any] = {"correct": None, "frozen_correct": None}
    sure = make_record(0, digit=9, **blank)
    low = make_record(1, digit=2, **blank)
    differs = replace(make_record(2, **blank), posterior=posterior(0.3, 0.7))
    unread = make_record(3, digit=1, digit_mass=0.1, answer=None, **blank)
    return [sure, low, differs, unread]


def test_the_page_of_many_questions_lists_those_that_most_need_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, various: list[Record], make_report: MakeReport
) -> None:
    monkeypatch.setattr(question_table, "MOST", 3)
    text = write_report(tmp_path, [make_report(various)]).read_text(encoding="utf-8")
    assert "Listed are 3 of 4 questions" in text
    assert "Every question" not in text
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert [row["p"] for row in json.loads(data)["rows"]] == [1, 2, 3]  # the first has no sign
    assert len((tmp_path / "questions.csv").read_text(encoding="utf-8").splitlines()) == 5


def test_signs_say_why_a_person_should_look(various: list[Record]) -> None:
    rows = answer_rows(various)
    assert [row.signs for row in rows] == [(), ("low",), ("low", "another"), ("unreadable", "low", "digits")]
    assert [row.record.position for row in neediest(rows, 2)] == [3, 2]
    assert [row.record.position for row in neediest(rows, 9)] == [3, 2, 1, 0]
    assert (rows[2].source, rows[2].confidence, rows[2].answer, rows[2].another) == ("posterior", 0.3, "A", "v")


def test_best_answers_name_the_models_own_and_are_graded_themselves(make_record: MakeRecord) -> None:
    question = Question("Which?", ("left", "right"), "B")
    record = replace(make_record(correct=False), question=question, posterior=posterior(0.2, 0.8), answers_best=True)
    (row,) = answer_rows([record])
    assert (row.answer, row.another, row.reference, row.correct) == ("B. right", "A. left", "B. right", True)
    (labelled,) = answer_rows([record.with_label(False)])
    assert (row.labelled, labelled.correct, labelled.labelled) == (False, False, True)


def test_the_estimated_share_is_the_mean_and_its_limits_those_of_independent_answers() -> None:
    found = estimate_share([0.9, 0.5, 0.1])
    assert found.share == pytest.approx(0.5)
    assert found.high - found.share == pytest.approx(1.96 * math.sqrt(0.09 + 0.25 + 0.09) / 3)
    assert found.n == 3
    assert found.low == pytest.approx(0.5 - 1.96 * math.sqrt(0.43) / 3)
    assert math.isnan(estimate_share([]).share)
    assert estimate_share([0.99]).high == 1.0


def test_a_run_without_references_says_what_the_confidences_say(various: list[Record], make_report: MakeReport) -> None:
    run = make_report(various)
    assert headline(run).startswith("About 41% of 4 answers are right")  # .95, .25, .3 and .15
    assert "posterior, made without labels (1)" in headline(run)
    assert "3 answers of 4 have a confidence below 0.5." in share_notes(run)
    assert "1 answer: no readable answer." in share_notes(run)
    (row,) = domains_table(run).sections[""]
    assert [cell.text for cell in row] == ["quiz", "4", "41.2%", "0.275", "3", "3"]
    assert [cell.text for cell in levels_table(run).sections[""][0]][:3] == ["Stated (frozen)", "4", "0.950"]
    labelled = make_report([various[0].with_label(True), *various[1:]])
    assert labelled.mostly_ungraded
    assert "About 23% of 3 answers without a label or a reference are right" in headline(labelled)
    assert "Of 1 answer with one 100.0% are right (21 to 100%), where the mean of their" in headline(labelled)
    text = markdown([run])
    assert "| – |" not in text.replace("  ", " ")  # noqa: RUF001  no dash where a number should be
    assert "Answers that most need a person" in text


def test_labels_behind_a_confidence_are_named_and_its_band_is_in_the_table(
    various: list[Record], make_report: MakeReport
) -> None:
    band = Labelled(label_free=0.95, confidence=0.6, low=0.4, high=0.8, labels=12, of_domain=3, until=12)
    run = make_report([replace(record, labelled=band) for record in various])
    assert "moved by up to 12 labels" in headline(run)
    first = next(csv.DictReader(io.StringIO(questions_csv(run.rows))))
    assert (first["confidence"], first["low"], first["high"], first["labels"]) == ("0.6", "0.4", "0.8", "12")
    assert page_rows(run.rows)[0]["b"] == [0.4, 0.8]


def test_files_of_all_questions_hold_whatever_texts_hold_and_no_formula(make_record: MakeRecord) -> None:
    long = "word " * 1000
    texts = ["=HYPERLINK(1)", HOSTILE, long, "@SUM(A1)", "-5"]
    records = [replace(make_record(n), question=Question(text, id=str(n))) for n, text in enumerate(texts)]
    rows = answer_rows(records)
    read = list(csv.DictReader(io.StringIO(questions_csv(rows))))
    assert [row["question"] for row in read] == ["'=HYPERLINK(1)", HOSTILE, long, "'@SUM(A1)", "-5"]
    lines = questions_markdown(rows).splitlines()
    assert len(lines) == 2 + len(texts)
    assert lines[3].startswith("| \\</script\\>\\<img src=x onerror=alert(1)\\> \\| \\*a\\* =1+1 | A |")
    assert len(page_rows(rows)[2]["q"]) <= LONGEST + 2
    assert "<" not in script_json(page_rows(rows))
    assert harmless("+a") == "'+a"
    assert harmless(" =a") == "' =a"


def test_domains_are_drawn_if_there_are_several_with_enough_answers() -> None:
    many = confidence_groups(["a"] * 5 + ["b"] * 4, [0.5] * 9)
    assert {name: len(each) for name, each in many.items()} == {"all answers": 9, "a": 5}
    assert list(confidence_groups(["a"] * 3, [0.5] * 3)) == ["a"]
    crowd = confidence_groups([str(n % 40) for n in range(400)], [0.5] * 400)
    assert len(crowd) == 12
    figure = confidence_figure(many)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len({axes.get_ylim() for axes in shown}) == 1


def test_domains_with_enough_graded_answers_have_reliability_diagrams_of_their_own(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    records = [make_record(n, digit=n % 10, domain="abc"[min(n // 50, 2)]) for n in range(130)]
    panels = domain_panels(make_report(records))
    assert [(title, np.size(confidences)) for title, confidences, _ in panels] == [("a", 50), ("b", 50)]
    assert np.asarray(panels[0][1])[:3] == pytest.approx([0.05, 0.15, 0.25])  # what the adapted model reports
    assert domain_panels(make_report(records[:60])) == []


def test_a_questions_file_without_a_page_is_somebodys_own(tmp_path: Path) -> None:
    from secl.errors import ParameterError

    (tmp_path / "questions.csv").write_text("question\nWhy?\n")
    with pytest.raises(ParameterError, match=r"holds 'questions\.csv'"):
        check_folder(tmp_path)
    (tmp_path / "report.html").touch()
    check_folder(tmp_path)


def test_the_terminal_prints_few_answers_and_of_many_those_that_need_a_person(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    from rich.console import Console

    def printed(count: int) -> str:
        records = [
            make_record(n, digit=4 if n % 2 else 8, correct=None, frozen_correct=None, answer=f"\x1b[31m{n}")
            for n in range(count)
        ]
        screen = Console(file=io.StringIO(), width=100)
        print_run(make_report(records), screen, None)
        return str(screen.file.getvalue())  # type: ignore[attr-defined]

    few, many = printed(4), printed(60)
    assert all(f"\\x1b[31m{n}" in few for n in range(4))
    assert "\x1b[31m" not in few + many
    assert "question 58" not in many
    assert many.count("low confidence") == 10
    assert "About 65% of 60 answers are right" in many


@pytest.mark.slow
def test_in_a_browser_one_searches_sorts_and_turns_pages_and_no_text_is_run(
    tmp_path: Path, make_record: MakeRecord, make_report: MakeReport, sketched: None
) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    records = [make_record(n, digit=n % 10, domain=HOSTILE if n % 3 else "other") for n in range(120)]
    records[7] = replace(records[7], question=Question(HOSTILE, (HOSTILE, "no"), "A", domain=HOSTILE, id="7"))
    page_file = write_report(tmp_path, [make_report(records)])
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page, problems = browser.new_page(), list[str]()
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        page.on("dialog", lambda dialog: problems.append("a dialog"))
        page.on("console", lambda message: problems.append(message.text))
        page.goto(page_file.as_uri())
        rows = page.locator("table.answers tbody tr")
        count = page.locator(".count")
        assert rows.count() == 50
        page.locator("[name=on]").click()
        assert rows.first.locator("td").first.text_content() == "50"
        page.locator("table.answers thead .c button").click()
        assert rows.first.locator(".c").text_content() == "0.050"
        page.locator("table.answers thead .c button").click()
        assert rows.first.locator(".c").text_content() == "0.950"
        page.fill("[name=search]", "onerror NO")
        count.filter(has_text="1 of 120 questions").wait_for()
        rows.locator("summary").click()
        assert HOSTILE.split("\n")[0] in str(rows.locator(".full").text_content())
        page.fill("[name=search]", "")
        page.select_option("[name=domain]", label="other")
        count.filter(has_text="40 of 120 questions").wait_for()
        page.fill("[name=most]", "0.3")
        count.filter(has_text="12 of 120 questions").wait_for()
        browser.close()
    assert problems == []
