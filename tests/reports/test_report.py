"""A report: one list of sections, a page that holds whatever records hold, and the files beside it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import secl.reports.page as page_module
from secl.errors import ParameterError, StorageError
from secl.evaluation.reason import Reason
from secl.evaluation.trust import Verdict
from secl.evidence import Labelled, Posterior
from secl.question import Question, References
from secl.records import Record
from secl.reports import question_table
from secl.reports.answers import answer_rows, neediest
from secl.reports.figures.confidences import confidence_figure, confidence_groups
from secl.reports.folder import BESIDE_RUN, check_folder, markdown, write_report
from secl.reports.headline import verdict
from secl.reports.question_table import page_rows, wrong_table
from secl.reports.run_report import RunReport, alternatives, best_alternative, domain_panels, panels
from secl.reports.sections import sections_of, shared_sections
from secl.reports.terminal import print_sections
from secl.reports.trust_section import trust_line
from secl.reports.unlabelled import estimate_share, headline
from secl.reports.words import words_table

pytestmark = pytest.mark.heavy

MakeRecord = Callable[..., Record]
MakeStream = Callable[[int], list[Record]]
MakeReport = Callable[..., RunReport]
XHTML = "{http://www.w3.org/1999/xhtml}"

HOSTILE = "<script>alert('1')</script> & \"quoted\" $x_1$ {{ 7*7 }} {% raw %} ]]> --> \x00\x0b\u202e 日本 </li></main>"
CLEAN = " ".join(HOSTILE.replace("\x00\x0b", "\ufffd\ufffd").split())


def written(folder: Path, *runs: RunReport) -> ET.Element:
    """The page of a written report, parsed as strictly as XML is."""
    return ET.fromstring(write_report(folder, runs).read_text(encoding="utf-8"))


def posterior(first: str, second: str, share: float) -> Posterior:
    """Of two candidates, of which the model answers the first."""
    shares = (share, 1 - share)
    return Posterior(candidates=(first, second), probabilities=shares, own=0, weights=(), reliability=None, questions=0)


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def headings(page: ET.Element) -> list[str]:
    return [text_of(heading) for heading in page.iter(f"{XHTML}h2")]


@pytest.fixture
def various(make_record: MakeRecord) -> list[Record]:
    """Answers with 0, 1, 2 and 3 signs, none of them graded."""
    sure, low, differs, unread = (
        make_record(n, digit=digit, digit_mass=mass, answer=answer, correct=None, frozen_correct=None)
        for n, (digit, mass, answer) in enumerate([(9, 0.9, "A"), (2, 0.9, "A"), (8, 0.9, "A"), (1, 0.1, None)])
    )
    return [sure, low, replace(differs, posterior=posterior("u", "v", 0.3)), unread]


def test_a_graded_run_has_its_sections_in_order_and_what_few_people_need_is_folded(
    make_stream: MakeStream, make_report: MakeReport
) -> None:
    sections = sections_of(make_report(make_stream(60)))
    assert [section.title for section in sections if not section.folded] == [
        "May these confidences be acted on?",
        "Summary",
        "Reliability: does 70% mean 70%?",
        "Which answers may be accepted?",
        "By domain",
        "Most confident wrong answers",
        "Every question",
        "The gate over the stream",
    ]
    assert [section.title for section in sections if section.folded] == [
        "Reliability of the other confidences",
        "Ranking and selective prediction",
        "Cost against Brier score",
        "How the run was made",
    ]
    assert sections[0].sentences[0].startswith(("Yes", "No", "That is not proven"))


def test_the_first_reliability_diagrams_are_those_that_matter(make_stream: MakeStream, make_report: MakeReport) -> None:
    learned, frozen = make_report(make_stream(60)), make_report(make_stream(60), learned=False)
    assert [title for title, _, _ in panels(learned)[0]] == ["Stated (frozen)", "SECL"]
    assert len(panels(learned)[1]) == len(learned.summary.estimators) - 2
    row = best_alternative(frozen.summary)
    assert row is not None
    assert row.brier == min(each.brier for each in alternatives(frozen.summary))
    assert [title for title, _, _ in panels(frozen)[0]] == ["Stated (frozen)", row.estimator.title]
    captions = [picture.caption for section in sections_of(frozen) for picture in section.pictures]
    assert any("the second the one with the lowest Brier score of those" in caption for caption in captions)


def test_terminal_and_markdown_have_the_same_titles_and_tables_as_the_page(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport, sketched: None
) -> None:
    run = make_report(make_stream(30), total=50)
    page = written(tmp_path, run)
    screen = Console(file=io.StringIO(), width=80)
    print_sections(sections_of(run), screen)
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    for section in sections_of(run):
        assert section.title in headings(page)
        if section.tables:
            assert section.title in shown
            assert f"## {section.title}" in text
    assert max(map(len, shown.splitlines())) <= 80
    assert "Unfinished: 30 of 50 questions are answered" in text_of(page)


def test_the_page_needs_nothing_from_outside_and_shows_whatever_texts_hold_as_written(
    tmp_path: Path, make_record: MakeRecord, make_report: MakeReport
) -> None:
    records = []
    for position in range(6):
        plain = make_record(position, digit=9 - position, correct=bool(position % 2), domain=f"{HOSTILE}\ud800")
        question = Question(HOSTILE, (HOSTILE, f"{HOSTILE} 2"), "B", domain=f"{HOSTILE}\ud800", id=str(position))
        if position == 2:
            question = Question(HOSTILE, reference=References((HOSTILE,), ("x",)), form="sentence")
        answer = None if position == 4 else "A" if question.options else HOSTILE
        records.append(replace(plain, question=question, reply=replace(plain.reply, text=HOSTILE, answer=answer)))
    page = written(tmp_path, make_report(records, name=HOSTILE, command=HOSTILE))
    tags = {element.tag.split("}")[-1] for element in page.iter()}
    assert {"img", "table", "figure", "h1", "details"} <= tags
    assert not tags & {"iframe", "object", "link", "base", "form"}
    data, script = page.iter(f"{XHTML}script")
    assert data.attrib == {"type": "application/json"}
    source = Path(page_module.__file__).with_name("templates") / "questions.js"
    assert str(script.text) == f"//\n{source.read_text(encoding='utf-8')}//"  # as XML; HTML has the marks of CDATA
    for element in page.iter():
        for name, value in element.attrib.items():
            short = name.split("}")[-1]
            assert not short.startswith("on"), name
            if short in ("href", "src", "srcset", "action", "data"):
                assert value.startswith(("#", "data:image/svg+xml;base64,")), value
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    (inline,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    (rule,) = (each.get("content") or "" for each in page.iter(f"{XHTML}meta") if each.get("http-equiv"))
    assert rule.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in rule
    assert set(re.findall(r"https?://[^\"<\s]+", text)) == {"http://www.w3.org/1999/xhtml"}
    assert [text_of(each) for each in page.iter(f"{XHTML}h1")] == [CLEAN]
    assert [text_of(each) for each in page.iter(f"{XHTML}code")] == [CLEAN]
    assert "</main>; B. <script>alert('1')</script>" in text_of(page)  # the options of a wrong answer
    assert "no readable answer" in text_of(page)


def test_a_page_without_right_answers_has_an_estimate_and_no_empty_table(
    tmp_path: Path, various: list[Record], make_report: MakeReport, sketched: None
) -> None:
    run = make_report(various)
    page = written(tmp_path, run)
    assert headings(page) == [
        "May these confidences be acted on?",
        "Without right answers: what the confidences say",
        "Answers that most need a person",
        "Every question",
        "Which answers may be accepted?",
        "Posterior: how probable each candidate is",
        "Along the stream",
        "How the run was made",
        "The words of this page",
    ]
    assert headline(run).startswith("About 41% of 4 answers are right")  # .95, .25, .3 and .15
    assert "posterior, made without labels (1)" in headline(run)
    text = text_of(page)
    assert headline(run) in text
    assert "3 answers of 4 have a confidence below 0.5." in text
    assert not any(cell.text == "–" for cell in page.iter(f"{XHTML}td"))  # noqa: RUF001
    labelled = make_report([various[0].with_label(True), *various[1:]])
    assert "Of 1 answer with one 100.0% are right (21 to 100%), where the mean of their" in headline(labelled)
    band = Labelled(label_free=0.95, confidence=0.6, low=0.4, high=0.8, labels=12, of_domain=3, until=12)
    moved = make_report([replace(record, labelled=band) for record in various])
    assert "moved by up to 12 labels" in headline(moved)
    assert page_rows(moved.rows)[0]["b"] == [0.4, 0.8]


def test_several_runs_have_shared_sections_and_one_of_each(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport, sketched: None
) -> None:
    runs = [make_report(make_stream(count), name=name) for count, name in ((40, "one *"), (50, "two"))]
    page = written(tmp_path, *runs)
    titles = headings(page)
    assert titles[0] == "All runs"
    assert titles[1].startswith("Side by side. A: one *, SECL; B: two, SECL")
    assert titles[2:] == ["Cost against Brier score", "one *", "two", "The words of this page"]
    identifiers = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(identifiers) == len(set(identifiers)) == 5
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r"href=\"#([^\"]+)\"", text)) == set(identifiers)
    assert text_of(page).count("The runs have not answered the same questions") == 2  # below the picture, too
    same = [make_report(make_stream(40), name=name) for name in "ab"]
    assert "have not answered the same" not in " ".join(shared_sections(same)[0].sentences)
    assert {"1-timeline.png", "2-timeline.svg", "cost.png"} <= {path.name for path in tmp_path.iterdir()}


def test_the_folder_of_a_run_has_a_page_and_two_pictures_and_another_folder_everything(
    tmp_path: Path, make_stream: MakeStream, make_record: MakeRecord, make_report: MakeReport, sketched: None
) -> None:
    mine = {"notes.txt", "my-timeline.png", "summary.json"}
    for name in mine:
        (tmp_path / name).write_text("mine")
    write_report(tmp_path, [make_report(make_stream(40))])
    assert {"summary.md", "summary.tex", "summary.csv", "scores.svg"} <= {path.name for path in tmp_path.iterdir()}
    write_report(tmp_path, [make_report(make_stream(40))], of_run=True)
    assert {path.name for path in tmp_path.iterdir()} == {*mine, "report.html", *BESIDE_RUN}
    write_report(tmp_path, [make_report([make_record(correct=None, frozen_correct=None)])], of_run=True)
    assert {path.name for path in tmp_path.iterdir()} == {*mine, "report.html", "timeline.png"}
    with pytest.raises(ParameterError, match=r"holds 'my-timeline.png' and more than a report"):
        check_folder(tmp_path)
    with pytest.raises(StorageError, match=r"notes\.txt"):
        write_report(tmp_path / "notes.txt", [make_report(make_stream(20))])


def test_the_same_records_make_the_same_report_to_the_last_byte(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport
) -> None:
    for name in ("a", "b"):
        write_report(tmp_path / name, [make_report(make_stream(40))])
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_the_verdict_says_what_adapting_did_or_what_came_closest(
    make_stream: MakeStream, make_report: MakeReport, make_record: MakeRecord
) -> None:
    learned, frozen = make_report(make_stream(60)), make_report(make_stream(60), learned=False)
    secl, row = learned.summary.estimators["secl"], best_alternative(frozen.summary)
    assert f"after adapting it was off by {secl.ece:.3f}, Brier score {secl.brier:.3f}." in verdict(learned.summary)
    assert row is not None
    assert "was best on these answers, off by" in verdict(frozen.summary)
    worse = make_report([make_record(n, frozen_correct=True, p_true=(0.2, 0.7)) for n in range(30)], learned=False)
    assert verdict(worse.summary).endswith(
        "none of the confidences that need no right answers has a lower Brier score."
    )
    chance = [make_record(place, frozen_digit=4, frozen_correct=place % 2 == 0) for place in range(40)]
    said = verdict(make_report(chance, learned=False).summary)
    assert "off by 0.050 on average (chance alone may explain that), Brier score 0.253 (it said 45%" in said
    assert "nothing can be said" in verdict(make_report([make_record(correct=None, frozen_correct=None)]).summary)


@pytest.mark.parametrize(("count", "digit", "shown"), [(19, 9, False), (40, 9, False), (18, 0, True)])
def test_a_difference_that_is_not_shown_is_called_that(
    make_record: MakeRecord, make_report: MakeReport, count: int, digit: int, shown: bool
) -> None:
    records = [make_record(position, digit=digit, correct=False) for position in range(count)]
    assert ("(no difference is shown)." not in verdict(make_report(records, intervals=True).summary)) == shown


def test_the_surest_wrong_answers_are_listed_with_their_options(make_record: MakeRecord) -> None:
    wrong = [make_record(n, digit=n % 9, correct=n % 2 == 0) for n in range(30)]
    table = wrong_table(answer_rows(wrong))
    assert table is not None
    confidences = [float(row[3].text) for row in table.sections[""]]
    assert len(confidences) == 10
    assert confidences == sorted(confidences, reverse=True)
    question = Question("word " * 200, ("yes", "no"), "B")
    table = wrong_table(answer_rows([replace(make_record(correct=False), question=question)]))
    assert table is not None
    ((text, answered, right, _, stated),) = table.sections[""]
    assert text.text.endswith("word …")
    assert (text.detail, answered.text, right.text, stated.text) == ("A. yes; B. no", "A. yes", "B. no", "0.950")
    assert wrong_table(answer_rows([make_record()])) is None


def test_the_table_of_all_questions_has_them_all_as_data_and_of_too_many_those_that_need_a_person(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_record: MakeRecord,
    make_report: MakeReport,
    sketched: None,
) -> None:
    run = make_report([make_record(position, domain="</script>") for position in range(120)])
    page = written(tmp_path, run)
    (section,) = (each for each in page.iter(f"{XHTML}section") if each.get("class") == "questions")
    assert len(list(next(section.iter(f"{XHTML}tbody")))) == 50
    data = json.loads(str(next(section.iter(f"{XHTML}script")).text))
    assert len(data["rows"]) == 120
    plain = {"p": 7, "d": "</script>", "q": "question 7", "a": "A", "c": 0.85, "s": "stated", "g": "right"}
    assert data["rows"][7] == plain
    monkeypatch.setattr(question_table, "MOST", 3)
    assert "Listed are 3 of 120 questions" in text_of(written(tmp_path, run))


def test_signs_say_why_a_person_should_look(various: list[Record], make_record: MakeRecord) -> None:
    rows = answer_rows(various)
    assert [row.signs for row in rows] == [(), ("low",), ("low", "another"), ("unreadable", "low", "digits")]
    assert [row.record.position for row in neediest(rows, 9)] == [3, 2, 1, 0]
    assert (rows[2].source, rows[2].confidence, rows[2].answer, rows[2].another) == ("posterior", 0.3, "A", "v")
    question = Question("Which?", ("left", "right"), "B")
    weighed = posterior("left", "right", 0.2)
    record = replace(make_record(correct=False), question=question, posterior=weighed, answers_best=True)
    (row,) = answer_rows([record])
    assert (row.answer, row.another, row.reference, row.correct) == ("B. right", "A. left", "B. right", True)


def test_the_estimated_share_is_the_mean_and_its_limits_those_of_independent_answers() -> None:
    found = estimate_share([0.9, 0.5, 0.1])
    assert found.n == 3
    assert found.share == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5 - 1.96 * np.sqrt(0.43) / 3)
    assert np.isnan(estimate_share([]).share)


def test_how_the_run_was_made_has_settings_environment_command_and_tokens(
    make_stream: MakeStream, make_report: MakeReport
) -> None:
    run = make_report(make_stream(20))
    text = markdown([run])
    for words in ("ffffffffffff", "tau = 0.7", "machine abacus", "LoRA of rank 8 on q\\_proj, layers 3", run.command):
        assert words in text
    assert "f" * 13 not in text
    assert "| answering, frozen model" in text
    adapter = {**run.manifest["adapter"], "base_model_name_or_path": "/somewhere/SmolLM2.Q4_1-bfloat16"}
    assert "/somewhere" not in markdown([replace(run, manifest={**run.manifest, "adapter": adapter})])


def test_a_page_explains_the_words_that_it_has_and_no_others(make_record: MakeRecord, make_report: MakeReport) -> None:
    def words(*runs: RunReport) -> list[str]:
        return [row[0].text for row in words_table(runs).sections[""]]

    plain = make_report([make_record(n, correct=None, frozen_correct=None) for n in range(4)], learned=False)
    learned = make_report([make_record(n, outcome="trained", p_true=(0.7, 0.2), signal=0.6) for n in range(4)])
    assert not {"Adapted", "AUROC", "Gate, alarm, burst"} & {*words(plain)}
    assert {"Adapted", "AUROC", "P(True), normalised P(True)"} <= {*words(learned)}
    assert words(plain, replace(learned, name="other")) == words(learned)


def test_domains_are_drawn_if_there_are_several_with_enough_answers(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    many = confidence_groups(["a"] * 5 + ["b"] * 4, [0.5] * 9)
    assert {name: len(each) for name, each in many.items()} == {"all answers": 9, "a": 5}
    assert len({axes.get_ylim() for axes in confidence_figure(many).axes if axes.get_visible()}) == 1
    records = [make_record(n, digit=n % 10, domain="abc"[min(n // 50, 2)]) for n in range(130)]
    shown = domain_panels(make_report(records))
    assert [(title, np.size(confidences)) for title, confidences, _ in shown] == [("a", 50), ("b", 50)]
    assert domain_panels(make_report(records[:60])) == []


def test_the_line_of_the_verdict_gives_the_worst_reasons_alone() -> None:
    reasons = (Reason("constant", "stop", "All same."), Reason("tested", "note", "By the way."))
    line = trust_line(Verdict("do not act on it", reasons, questions=9, graded=0))
    assert line == "verdict on the reported confidence: do not act on it. All same."


@pytest.mark.slow
def test_in_a_browser_one_searches_sorts_and_turns_pages_and_no_text_is_run(
    tmp_path: Path, make_record: MakeRecord, make_report: MakeReport, sketched: None
) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    hostile = "</script><img src=x onerror=alert(1)> | *a*\n=1+1"
    records = [make_record(n, digit=n % 10, domain=hostile if n % 3 else "other") for n in range(120)]
    records[7] = replace(records[7], question=Question(hostile, (hostile, "no"), "A", domain=hostile, id="7"))
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
        page.fill("[name=search]", "onerror NO")
        count.filter(has_text="1 of 120 questions").wait_for()
        rows.locator("summary").click()
        assert hostile.split("\n")[0] in str(rows.locator(".full").text_content())
        page.fill("[name=search]", "")
        page.select_option("[name=domain]", label="other")
        count.filter(has_text="40 of 120 questions").wait_for()
        page.fill("[name=most]", "0.3")
        count.filter(has_text="12 of 120 questions").wait_for()
        browser.close()
    assert problems == []
