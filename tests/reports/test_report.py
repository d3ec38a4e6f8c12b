"""A report: one list of sections, a page that can show every text of a record, and the other files."""

import base64
import hashlib
import io
import re
import shlex
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from secl import Question, Record, References
from secl.errors import StorageError
from secl.evidence import CalibratedConfidence
from secl.reports import folder as folder_module
from secl.reports.answers import (
    answered,
    flags_in,
    neediest,
    not_returned,
    remarks,
    right_answer,
    signs_of,
    wrong_table,
)
from secl.reports.folder import write_report
from secl.reports.result import headline
from secl.reports.run_report import RunReport, panels
from secl.reports.sections import print_sections, sections_of
from tests.answers import make_record, make_report, make_stream, weighed

pytestmark = pytest.mark.heavy

XHTML = "{http://www.w3.org/1999/xhtml}"

HOSTILE = "<script>alert('1')</script> & \"quoted\" $x_1$ {{ 7*7 }} {% raw %} ]]> --> \x00\x0b\u202e 日本 </li></main>"
CLEAN = " ".join(HOSTILE.replace("\x00\x0b", "\ufffd\ufffd").split())


def written(folder: Path, run: RunReport) -> ET.Element:
    """The page of a written report, parsed as strictly as XML is."""
    return ET.fromstring(write_report(folder, run).read_text(encoding="utf-8"))


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def headings(page: ET.Element) -> list[str]:
    return [text_of(heading) for heading in page.iter(f"{XHTML}h2")]


@pytest.fixture
def various() -> list[Record]:
    """A sure answer, two with low confidences, and one that secl could not read; none of them graded."""
    sure, low, differs, unread = (
        make_record(n, digit=digit, digit_mass=mass, answer=answer, correct=None, frozen_correct=None)
        for n, (digit, mass, answer) in enumerate([(9, 0.9, "A"), (2, 0.9, "A"), (8, 0.9, "A"), (1, 0.1, None)])
    )
    return [sure, low, replace(differs, posterior=weighed("uv", 0.3, 0.7)), unread]


def test_a_graded_run_has_its_sections_in_order_and_what_few_people_need_is_folded() -> None:
    learned, frozen = make_report(make_stream(60)), make_report(make_stream(60), learned=False, method="norm_p_true")
    sections = list(sections_of(learned))
    assert [section.title for section in sections if not section.folded] == [
        "Can you act on these confidences?",
        "Result",
        "Summary",
        "Which answers may be accepted?",
        "By domain",
        "Most confident wrong answers",
        "Every question",
        "The gate over the stream",
    ]
    folded = [section.title for section in sections if section.folded]
    assert folded == ["Reliability of the other confidences", "How the run was made"]
    assert sections[0].sentences[0].startswith(("Yes", "No", "Not proven"))
    assert [picture.name for picture in sections[1].pictures] == ["reliability"]
    assert [panel.title for panel in panels(learned)[0]] == ["Stated (frozen)", "SECL"]
    assert len(panels(learned)[1]) == len(learned.summary.estimators) - 2
    assert [panel.title for panel in panels(frozen)[0]] == ["Stated (frozen)", "Normalised P(True)"]


def test_the_terminal_has_the_titles_and_tables_of_the_page(tmp_path: Path, sketched: None) -> None:
    run = make_report(make_stream(30), total=50)
    page = written(tmp_path, run)
    screen = Console(file=io.StringIO(), width=80)
    print_sections(list(sections_of(run)), screen)
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    for section in sections_of(run):
        assert section.title in headings(page)
        assert not section.tables or section.title in shown
    assert max(len(line) for line in shown.splitlines() if not line.startswith("  secl run ")) <= 80
    assert "30 of 50 questions answered" in text_of(page)
    made = "secl run --model scripted --benchmarks capitals --method secl --evidence.tau 0.7 --out NEW"
    for words in ("ffffffffffff", "tau = 0.7", "machine abacus", "LoRA of rank 8 on q_proj, layers 3", made):
        assert words in text_of(page)
    assert "f" * 13 not in text_of(page)
    weights = {"base_model_name_or_path": "/somewhere/SmolLM2.Q4_1-bfloat16"}
    elsewhere = make_report(make_stream(30), adapter=weights)
    assert "/somewhere" not in text_of(written(tmp_path, elsewhere))


def test_the_page_needs_nothing_from_outside_and_shows_whatever_texts_hold_as_written(tmp_path: Path) -> None:
    records = []
    for position in range(6):
        plain = make_record(position, digit=9 - position, correct=bool(position % 2), domain=f"{HOSTILE}\ud800")
        question = Question(HOSTILE, (HOSTILE, f"{HOSTILE} 2"), "B", domain=f"{HOSTILE}\ud800", id=str(position))
        if position == 2:
            question = Question(HOSTILE, reference=References((HOSTILE,), ("x",)), form="sentence")
        answer = None if position == 4 else "A" if question.options else HOSTILE
        records.append(replace(plain, question=question, reply=replace(plain.reply, text=HOSTILE, answer=answer)))
    page = written(tmp_path, make_report(records, name=HOSTILE, model=HOSTILE))
    tags = {element.tag.split("}")[-1] for element in page.iter()}
    assert {"img", "table", "figure", "h1", "details"} <= tags
    assert not tags & {"iframe", "object", "link", "base", "form"}
    (script,) = page.iter(f"{XHTML}script")
    source = Path(folder_module.__file__).with_name("templates") / "questions.js"
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
    (code,) = page.iter(f"{XHTML}code")
    assert shlex.split(text_of(code))[3] == CLEAN
    assert "</main>; B. <script>alert('1')</script>" in text_of(page)  # the options of a wrong answer
    assert "no readable answer" in text_of(page)


def test_a_page_without_right_answers_estimates(tmp_path: Path, various: list[Record], sketched: None) -> None:
    run = make_report(various)
    page = written(tmp_path, run)
    assert headings(page) == [
        "Can you act on these confidences?",
        "Result",
        "Ungraded answers: what the confidences say",
        "Answers that most need a person",
        "Which answers may be accepted?",
        "Posterior: how probable each candidate is",
        "Every question",
        "Along the stream",
        "How the run was made",
    ]
    assert "about 38% of 4 answers are right" in headline(run)  # .95, .25, .3 and 0
    assert "the stated confidences, without labels. Stated confidences are often too high." in headline(run)
    text = text_of(page)
    assert headline(run) in text
    assert "3 answers of 4: confidence below 0.5. 1 answer of 4: no readable answer." in text
    readable = written(tmp_path, make_report(various[:3]))
    assert not any(cell.text == "–" for cell in readable.iter(f"{XHTML}td"))  # noqa: RUF001
    labelled = make_report([various[0].with_label(True), *various[1:]])
    assert "Of 1 graded answer 100% are right (21 to 100%); the mean confidence of these" in headline(labelled)
    band = CalibratedConfidence(uncalibrated=0.95, calibrated=0.6, low=0.4, high=0.8, labels=12, of_domain=3, until=12)
    moved = make_report([replace(record, labelled=band) for record in various])
    assert "calibrated with up to 12 labels" in headline(moved)
    assert "0.40 to 0.80" in text_of(written(tmp_path, moved))


def test_the_surest_wrong_answers_are_listed_with_their_options() -> None:
    wrong = [make_record(n, digit=n % 9, correct=n % 2 == 0) for n in range(30)]
    table = wrong_table(wrong)
    assert table is not None
    confidences = [float(row[3].text) for row in table.sections[""]]
    assert len(confidences) == 10
    assert confidences == sorted(confidences, reverse=True)
    question = Question("word " * 200, ("yes", "no"), "B")
    table = wrong_table([replace(make_record(correct=False), question=question)])
    assert table is not None
    ((text, returned, right, _, stated),) = table.sections[""]
    assert text.text.endswith("word …")
    assert (text.detail, returned.text, right.text, stated.text) == ("A. yes; B. no", "A. yes", "B. no", "0.950")
    assert wrong_table([make_record()]) is None


def test_signs_say_why_a_person_should_look(various: list[Record]) -> None:
    assert [*map(signs_of, various)] == [(), (), (), ("unreadable", "digits")]
    assert [record.position for record in neediest(various, 9)] == [3, 1, 2, 0]
    assert (various[2].confidence, answered(various[2]), not_returned(various[2])) == (0.3, "A", "more probable: v")
    question = Question("Which?", ("left", "right"), "B")
    posterior = weighed(("left", "right"), 0.2, 0.8)
    record = replace(make_record(correct=False), question=question, posterior=posterior, best_returned=True)
    shown = (answered(record), not_returned(record), right_answer(record))
    assert shown == ("B. right", "the model wrote A. left", "B. right")


def test_a_remark_that_most_answers_have_is_no_flag(various: list[Record]) -> None:
    unread = various[3]
    assert flags_in([*various[:3], unread]) == {*remarks(unread)}
    assert flags_in([*various[:2], unread, unread]) == set()
    changed = replace(make_record(correct=None), reply=replace(various[0].reply, answer="B"))
    assert remarks(changed) == ["changed by adapting"]
    assert flags_in([changed] * 3 + [various[1]]) == set()


def test_of_too_many_answers_some_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sketched: None) -> None:
    run = make_report([make_record(position, digit=position, domain="</script>") for position in range(5)])
    monkeypatch.setattr(folder_module, "MAX_ANSWERS", 3)
    page = written(tmp_path / "page", run)
    assert "This table lists 3 of 5 questions" in text_of(page)
    (section,) = (each for each in page.iter(f"{XHTML}section") if each.get("class") == "questions")
    rows = [[text_of(cell) for cell in line] for line in next(section.iter(f"{XHTML}tbody"))]
    assert rows[0] == ["0", "question 0", "A", "0.050", "right"]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"notes\.txt"):
        write_report(tmp_path / "notes.txt", run)


@pytest.mark.slow
def test_a_browser_searches_sorts_turns_pages_and_runs_no_text(tmp_path: Path, browser: Any, sketched: None) -> None:
    hostile = "</script><img src=x onerror=alert(1)> | *a*\n=1+1"
    records = [make_record(n, digit=n % 10, domain=hostile if n % 3 else "other") for n in range(120)]
    records[7] = replace(records[7], question=Question(hostile, (hostile, "no"), "A", domain=hostile, id="7"))
    page, problems = browser.new_page(), list[str]()
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("dialog", lambda dialog: problems.append("a dialog"))
    page.on("console", lambda message: problems.append(message.text))
    page.goto(write_report(tmp_path, make_report(records)).as_uri())
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
    page.close()
    assert problems == []


def test_each_section_can_be_reached_from_the_navigation(tmp_path: Path, sketched: None) -> None:
    page = written(tmp_path, make_report(make_stream(30)))
    links = [str(link.get("href")) for link in page.iter(f"{XHTML}a")]
    assert links[0] == "#main"
    assert next(page.iter(f"{XHTML}main")).get("id") == "main"
    assert links[1:] == [f"#{section.get('id')}" for section in page.iter(f"{XHTML}section")]
    assert len(set(links)) == len(links) > 8
