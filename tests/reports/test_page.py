"""The page: one file, well-formed, with nothing from outside, and true to the records whatever they hold."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import secl.reports.page as page_module
from secl.question import Question, References
from secl.records import Record
from secl.reports.folder import write_report
from secl.reports.headline import verdict
from secl.reports.page import render
from secl.reports.provenance import ledger, provenance
from secl.reports.run_report import RunReport, alternatives, best_alternative, panels
from secl.reports.run_rows import overview
from secl.reports.summary_table import COLUMNS
from secl.reports.wrong_answers import wrong_answers

pytestmark = pytest.mark.heavy

MakeRecord = Callable[..., Record]
MakeStream = Callable[[int], list[Record]]
MakeReport = Callable[..., RunReport]
XHTML = "{http://www.w3.org/1999/xhtml}"

HOSTILE = "<script>alert('1')</script> & \"quoted\" $x_1$ {{ 7*7 }} {% raw %} ]]> --> \x00\x0b\u202e 日本 </li></main>"
CLEAN = HOSTILE.replace("\x00\x0b", "\ufffd\ufffd")


def written(folder: Path, *runs: RunReport) -> ET.Element:
    """The page of a written report, parsed as strictly as XML is."""
    return ET.fromstring(write_report(folder, runs).read_text(encoding="utf-8"))


def without_pictures(*runs: RunReport) -> ET.Element:
    """The page of some runs without its pictures, which take the time."""
    return ET.fromstring(render(runs, [{}] * len(runs), None))


def without_pictures_but(run: RunReport) -> ET.Element:
    """The page of a run with an empty picture where the reliability diagrams stand."""
    return ET.fromstring(render([run], [{"reliability": "<svg></svg>"}], None))


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


@pytest.fixture
def hostile(make_record: MakeRecord) -> list[Record]:
    """Records in which everything that a user or a model writes tries to break out."""
    records = []
    for position in range(6):
        plain = make_record(position, digit=9 - position, correct=bool(position % 2), domain=f"{HOSTILE}\ud800")
        question = Question(HOSTILE, (HOSTILE, f"{HOSTILE} 2"), "B", domain=f"{HOSTILE}\ud800", id=str(position))
        if position == 2:
            question = Question(HOSTILE, reference=References((HOSTILE,), ("x",)), form="sentence")
        answer = None if position == 4 else "A" if question.options else HOSTILE
        records.append(replace(plain, question=question, reply=replace(plain.reply, text=HOSTILE, answer=answer)))
    return records


def test_the_page_needs_nothing_from_outside_and_runs_its_own_script_alone(
    tmp_path: Path, hostile: list[Record], make_report: MakeReport
) -> None:
    page = written(tmp_path, make_report(hostile, name=HOSTILE))
    tags = {element.tag.split("}")[-1] for element in page.iter()}
    assert {"img", "table", "figure", "h1", "style"} <= tags
    assert not tags & {"iframe", "object", "link", "base", "form"}
    data, script = page.iter(f"{XHTML}script")
    assert data.attrib == {"type": "application/json"}
    assert not script.attrib
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
    assert len(re.findall("</script", text)) == 2
    assert "url(" not in text
    assert "@import" not in text
    assert set(re.findall(r"https?://[^\"<\s]+", text)) == {"http://www.w3.org/1999/xhtml"}


def test_whatever_questions_and_answers_hold_is_shown_as_written(
    hostile: list[Record], make_report: MakeReport
) -> None:
    page = without_pictures(make_report(hostile, name=HOSTILE, command=HOSTILE))
    questions = [element.text for element in page.iter(f"{XHTML}p") if element.get("class") == "question"]
    assert questions == [CLEAN] * 3
    assert page.findtext(f".//{XHTML}h1") == CLEAN
    assert page.findtext(f".//{XHTML}code") == CLEAN
    assert page.findtext(f".//{XHTML}title") == f"secl report: {CLEAN}"
    options = [text_of(element) for element in page.iter(f"{XHTML}li") if element.get("class") == "given"]
    assert set(options) == {f"A. {' '.join(CLEAN.split())} ← answered"}
    assert "nothing readable" in text_of(page)
    assert "49" not in "".join(questions)  # type: ignore[arg-type]


def test_identifiers_are_unique_and_everything_referred_to_is_there(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport
) -> None:
    records = make_stream(60)
    page = written(tmp_path, make_report(records, name="a"), make_report(records, name="b"))
    identifiers = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(identifiers) == len(set(identifiers)) == 5
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r"href=\"#([^\"]+)\"", text)) == set(identifiers)


def test_sections_come_in_order_and_pictures_describe_themselves(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport, sketched: None
) -> None:
    page = written(tmp_path, make_report(make_stream(60)))
    assert [text_of(heading) for heading in page.iter(f"{XHTML}h2")] == [
        "May these confidences be acted on?",
        "Summary",
        "Reliability: does 70% mean 70%?",
        "Which answers may be accepted?",
        "Ranking and selective prediction",
        "Confidence of right and of wrong answers",
        "The gate over the stream",
        "Cost against Brier score",
        "By domain",
        "Most confident wrong answers",
        "Every question",
        "How the run was made",
        "The words of this page",
    ]
    pictures = list(page.iter(f"{XHTML}img"))
    assert len(pictures) == 5
    for picture, name in zip(pictures, ("reliability", "risk", "scores", "timeline", "cost"), strict=True):
        assert picture.get("alt")
        image = base64.b64decode(str(picture.get("src")).partition(",")[2])
        assert image == (tmp_path / f"{name}.svg").read_bytes()
    assert all(table.find(f"{XHTML}thead") is not None for table in page.iter(f"{XHTML}table"))
    header = next(page.iter(f"{XHTML}thead"))
    assert tuple(text_of(cell) for cell in header.iter(f"{XHTML}th")) == COLUMNS


def test_the_summary_has_an_interval_under_every_measure(make_stream: MakeStream, make_report: MakeReport) -> None:
    run = make_report(make_stream(40), intervals=True)
    page = without_pictures(run)
    body = next(page.iter(f"{XHTML}tbody"))
    plain = run.summary.to_json()["estimators"]
    for numbers, row in zip(plain.values(), body.iter(f"{XHTML}tr"), strict=True):
        ranges = [numbers["intervals"][m] for m in ("brier", "ece", "auroc", "accuracy")]
        small = [text_of(part) for cell in row.iter(f"{XHTML}td") for part in cell.iter(f"{XHTML}small")]
        side = "within" if numbers["ece_within_floor"] else "above"
        assert small[2] == f"{side} {numbers['ece_floor_95']:.3f}"
        assert len(small) - 1 == len([each for each in ranges if each]) >= 3
    low, high = plain["secl"]["intervals"]["brier"]
    assert f"{low:.3f}–{high:.3f}" in text_of(body)  # noqa: RUF001


def test_the_most_confident_wrong_answers_are_those_of_the_reported_confidence(make_record: MakeRecord) -> None:
    records = [
        make_record(0, digit=9, correct=True, frozen_correct=False),
        make_record(1, digit=3, frozen_digit=9, correct=False, frozen_correct=False),
        make_record(2, digit=7, frozen_digit=2, correct=False, frozen_correct=True, p_true=(0.625, 0.1)),
        make_record(3, digit=9, correct=None, frozen_correct=None),
        make_record(4, digit=7, frozen_digit=9, correct=False, frozen_correct=None),
    ]
    adapted = wrong_answers(records, adapted=True)
    assert [wrong.position for wrong in adapted] == [2, 4, 1]
    assert (adapted[0].before, adapted[0].after, adapted[0].p_true) == ("0.250", "0.750", "0.625")
    frozen = wrong_answers(records, adapted=False)
    assert [wrong.position for wrong in frozen] == [0, 1]
    assert (frozen[0].before, frozen[0].after) == ("0.950", "")
    many = [make_record(position, correct=False) for position in range(30)]
    assert [wrong.position for wrong in wrong_answers(many, adapted=True)] == list(range(10))


def test_long_questions_are_cut_and_another_answer_of_the_frozen_model_is_named(make_record: MakeRecord) -> None:
    plain = make_record(correct=False)
    question = Question("word " * 200, ("yes", "no"), "B")
    (wrong,) = wrong_answers(
        [replace(plain, question=question, frozen=replace(plain.frozen, answer="B"))], adapted=True
    )
    assert len(wrong.text) <= 302
    assert wrong.text.endswith("word …")
    assert wrong.before_of == "B. no"
    assert (wrong.answered, wrong.right) == ("A. yes", "B. no")


def test_the_verdict_says_what_adapting_did_or_what_came_closest(
    make_stream: MakeStream, make_report: MakeReport, make_record: MakeRecord
) -> None:
    records = make_stream(60)
    learned, frozen = make_report(records), make_report(records, learned=False)
    secl = learned.summary.estimators["secl"]
    assert f"after adapting it was off by {secl.ece:.3f}, Brier score {secl.brier:.3f}." in verdict(learned.summary)
    row = best_alternative(frozen.summary)
    assert row is not None
    best = row.estimator.name
    assert best in ("p_true", "norm_p_true")
    assert row.brier == min(each.brier for each in alternatives(frozen.summary))
    chance = " (chance alone may explain that)" if row.ece_within_floor else ""
    assert f"was best on these answers, off by {row.ece:.3f}{chance}, Brier score {row.brier:.3f}." in verdict(
        frozen.summary
    )
    assert list(panels(learned))[:2] == ["stated", "secl"]
    assert list(panels(frozen))[:2] == ["stated", best]
    assert "the second the one with the lowest Brier score of those" in text_of(without_pictures_but(frozen))
    unlabelled = make_report([make_record(correct=None, frozen_correct=None)])
    assert "nothing can be said" in verdict(unlabelled.summary)


def test_no_confidence_is_called_best_that_is_worse_than_what_is_stated(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    records = [make_record(position, frozen_correct=True, p_true=(0.2, 0.7)) for position in range(30)]
    run = make_report(records, learned=False)
    assert verdict(run.summary).endswith(
        "; none of the confidences that need no right answers has a lower Brier score."
    )
    text = text_of(without_pictures_but(run))
    assert "was best" not in text
    assert "though the stated one has a lower one" in text
    assert overview(run)[6] == "Normalised P(True), the best of 2 on these answers"
    assert overview(make_report(records))[6] == "SECL"


def test_an_error_that_chance_may_have_made_is_called_that(make_record: MakeRecord, make_report: MakeReport) -> None:
    records = [make_record(place, frozen_digit=4, frozen_correct=place % 2 == 0) for place in range(40)]
    assert "off by 0.050 on average (chance alone may explain that), Brier score 0.253 (it said 45%" in verdict(
        make_report(records, learned=False).summary
    )


def test_a_difference_that_is_not_shown_is_called_that(make_record: MakeRecord, make_report: MakeReport) -> None:
    def distinguished(count: int, digit: int, intervals: bool = True) -> bool:
        records = [make_record(position, digit=digit, correct=False) for position in range(count)]
        return "(no difference is shown)." not in verdict(make_report(records, intervals=intervals).summary)

    assert (distinguished(19, 9), distinguished(40, 9)) == (False, False)
    assert distinguished(18, 0)
    assert distinguished(18, 9, intervals=False)  # nothing is known of it, so nothing is said


def test_the_gate_statistic_is_promised_only_where_there_is_one(
    make_stream: MakeStream, make_report: MakeReport
) -> None:
    records = make_stream(40)
    blind = [replace(each, decision=replace(each.decision, statistic=None, in_burst=True)) for each in records]
    for stream, promised in ((records, True), (blind, False)):
        run = make_report(stream)
        text = text_of(ET.fromstring(render([run], [{"timeline": "<svg></svg>"}], None)))
        assert "The gate over the stream" in text
        assert ("the statistic that the gate tests" in text) == promised


def test_a_page_without_right_answers_has_answers_and_an_estimate_and_no_empty_table(
    tmp_path: Path, make_record: MakeRecord, make_report: MakeReport, sketched: None
) -> None:
    unlabelled = [
        make_record(position, digit=4 + position, correct=None, frozen_correct=None, domain=f"domain {position % 2}")
        for position in range(3)
    ]
    page = written(tmp_path, make_report(unlabelled))
    assert [text_of(heading) for heading in page.iter(f"{XHTML}h2")] == [
        "May these confidences be acted on?",
        "Without right answers: what the confidences say",
        "Answers that most need a person",
        "Every question",
        "Which answers may be accepted?",
        "Along the stream",
        "How the run was made",
        "The words of this page",
    ]
    text = text_of(page)
    assert "About 55% of 3 answers are right, if the confidences mean what they say (0 to 100%)" in text
    assert "1 answer of 3 has a confidence below 0.5." in text
    assert not any(cell.text == "–" for cell in page.iter(f"{XHTML}td"))  # noqa: RUF001
    assert {path.name for path in tmp_path.glob("*.png")} == {"confidences.png", "risk.png", "timeline.png"}
    assert "0.450" in text


def test_a_page_of_one_class_says_why_there_is_nothing(make_record: MakeRecord, make_report: MakeReport) -> None:
    right = [make_record(position, correct=True, frozen_correct=True) for position in range(6)]
    text = text_of(without_pictures(make_report(right)))
    assert "AUROC is undefined (–) where all answers are right or all are wrong" in text  # noqa: RUF001


def test_the_table_of_all_questions_has_them_all_as_data_and_the_first_as_rows(
    make_record: MakeRecord, make_report: MakeReport
) -> None:
    page = without_pictures(make_report([make_record(position, domain="</script>") for position in range(120)]))
    (section,) = (each for each in page.iter(f"{XHTML}section") if each.get("class") == "questions")
    assert len(list(next(section.iter(f"{XHTML}tbody")))) == 50
    assert "The first 50 of 120 questions" in text_of(section)
    data = json.loads(str(next(section.iter(f"{XHTML}script")).text))
    assert len(data["rows"]) == 120
    assert data["rows"][7] == {
        "p": 7,
        "d": "</script>",
        "q": "question 7",
        "a": "A",
        "c": 0.85,
        "s": "stated",
        "g": "right",
    }


def test_an_unfinished_run_says_so_at_the_top_and_a_finished_one_does_not(
    make_stream: MakeStream, make_report: MakeReport
) -> None:
    records = make_stream(20)
    text = text_of(without_pictures(make_report(records, total=50)))
    assert 0 < text.index("Unfinished: 20 of 50 questions are answered") < text.index("Summary")
    assert "Unfinished" not in text_of(without_pictures(make_report(records)))


def test_how_the_run_was_made_has_settings_environment_command_and_tokens(
    make_stream: MakeStream, make_report: MakeReport
) -> None:
    records = make_stream(20)
    page = without_pictures(make_report(records))
    text = text_of(page)
    for words in ("ffffffffffff", "eeeeeeeeeeee", "tau = 0.7", "machine abacus", "LoRA of rank 8 on q_proj, layers 3"):
        assert words in text
    assert "f" * 13 not in text
    folder = "/somewhere/SmolLM2-135M-Instruct.Q4_1-7000ef98f0f5e9b7-bfloat16"
    for weights, shown in ((folder, folder.removeprefix("/somewhere/")), ("owner/model", "owner/model")):
        made = make_report(records)
        adapter = {**made.manifest["adapter"], "base_model_name_or_path": weights}
        assert ("Weights", shown) in provenance(replace(made, manifest={**made.manifest, "adapter": adapter}))
    assert (
        page.findtext(f".//{XHTML}code")
        == "secl run --model scripted --benchmarks toy --set evidence.tau=0.7 --out NEW"
    )
    assert ledger(records) == [
        ("answering, frozen model", "2,000", "100.0", "100.0%"),
        ("together", "2,000", "100.0", "100.0%"),
    ]


def test_several_runs_share_a_table_and_a_cost_chart_and_have_a_section_each(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport, sketched: None
) -> None:
    runs = [make_report(make_stream(count), name=name, total=50) for count, name in ((40, "one *"), (50, "two"))]
    page = written(tmp_path, *runs)
    assert [text_of(h) for h in page.iter(f"{XHTML}h2")] == [
        "All runs",
        "Side by side",
        "Cost against Brier score",
        "one *",
        "two",
        "The words of this page",
    ]
    lines = [text_of(row) for row in next(page.iter(f"{XHTML}tbody")).iter(f"{XHTML}tr")]
    for line, run in zip(lines, runs, strict=True):
        assert line.startswith(run.name)
        assert f"{run.summary.estimators['secl'].ece:.3f}" in line
    assert text_of(page).count("Unfinished") == 2  # of its run, and of the comparison
    assert len(list(page.iter(f"{XHTML}img"))) == 9
    names = {path.name for path in tmp_path.iterdir()}
    assert {"1-timeline.png", "2-timeline.svg", "cost.png", "summary.csv"} <= names
    assert "timeline.png" not in names
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## one \\*\n")


def test_a_page_explains_the_words_that_it_has_and_no_others(make_record: MakeRecord, make_report: MakeReport) -> None:
    def words(*runs: RunReport) -> list[str]:
        page = without_pictures(*runs)
        (section,) = (each for each in page.iter(f"{XHTML}section") if each.get("id") == "words")
        assert any(link.get("href") == "#words" for link in page.iter(f"{XHTML}a"))
        return [text_of(word) for word in section.iter(f"{XHTML}dt")]

    plain = make_report([make_record(n, correct=None, frozen_correct=None) for n in range(4)], learned=False)
    learned = make_report([make_record(n, outcome="trained", p_true=(0.7, 0.2), signal=0.6) for n in range(4)])
    assert words(plain)[0] == "Stated, frozen"
    assert not {"Adapted", "AUROC", "Gate, alarm, burst"} & {*words(plain)}
    assert {"Adapted", "AUROC", "P(True), normalised P(True)"} <= {*words(learned)}
    assert words(plain, replace(learned, name="other")) == words(learned)


def test_runs_over_different_questions_are_not_put_side_by_side_without_a_word(
    make_stream: MakeStream, make_report: MakeReport
) -> None:
    said = "The runs have not answered the same questions"
    one, same, longer = (make_report(make_stream(n), name=name) for n, name in ((40, "a"), (40, "b"), (50, "c")))
    assert said not in text_of(without_pictures(one, same))
    page = text_of(ET.fromstring(render([one, longer], [{}, {}], "<svg></svg>")))
    assert page.count(said) == 2  # below the table, and below the picture of what they cost


def test_the_same_records_make_the_same_report_to_the_last_byte(
    tmp_path: Path, make_stream: MakeStream, make_report: MakeReport
) -> None:
    for name in ("a", "b"):
        write_report(tmp_path / name, [make_report(make_stream(40))])
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == 16
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_report_removes_what_an_earlier_one_left_and_nothing_else(
    tmp_path: Path, make_stream: MakeStream, make_record: MakeRecord, make_report: MakeReport, sketched: None
) -> None:
    mine = ["notes.txt", "my-timeline.png", "summary.json", "0x-cost.png"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    write_report(tmp_path, [make_report(make_stream(40), name=name) for name in ("a", "b")])
    write_report(tmp_path, [make_report([make_record(correct=None, frozen_correct=None)])])
    assert {path.name for path in tmp_path.iterdir()} == {
        *mine,
        "report.html",
        "summary.md",
        "summary.tex",
        "summary.csv",
        "questions.csv",
        "questions.md",
        "confidences.png",
        "confidences.svg",
        "risk.png",
        "risk.svg",
        "timeline.png",
        "timeline.svg",
    }
    assert all((tmp_path / name).read_text() == "mine" for name in mine)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, make_stream: MakeStream, make_report: Any) -> None:
    from secl.errors import StorageError

    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="file"):
        write_report(tmp_path / "file", [make_report(make_stream(20))])
