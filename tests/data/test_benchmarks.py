"""Benchmarks keep their contract; the built-in quiz; streams in three orders; the same options for all rows."""

import json
import logging
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl import read_rows
from secl.data.benchmarks import BENCHMARKS, Benchmark, arrange, fingerprint, load, load_stream, quiz
from secl.errors import DataError, ParameterError, SeclError
from secl.grading.numbers import parse_number
from secl.grading.rules import grade
from secl.question import Question, References

PUBLISHED = {"gsm8k": 7473, "arc": 1172, "mmlu": 14042, "mmlu_sampled": 14042}
PUBLISHED |= dict.fromkeys(("truthfulqa", "truthfulqa_in_order", "truthfulqa_gen"), 817)
"""Numbers of questions."""


@pytest.mark.parametrize("entry", BENCHMARKS.values(), ids=list(BENCHMARKS))
def test_a_benchmark_has_questions_with_right_references(entry: Benchmark, request: pytest.FixtureRequest) -> None:
    """Skip official benchmarks whose files are missing."""
    data: Path | None = None if entry.read is None else request.getfixturevalue("official_data")
    questions = load(entry.name, data=data)
    assert {question.form for question in questions} == {entry.form}
    assert len({question.id for question in questions}) == len(questions)
    assert len({question.domain for question in questions}) == 1
    for question in questions[:50]:
        reference = question.reference
        assert reference is not None
        assert grade(question, reference.correct[0] if isinstance(reference, References) else reference) is True
    assert load(entry.name, 7, data=data) == questions[:7]
    assert len(questions) == PUBLISHED.get(entry.name, len(questions))
    with pytest.raises(DataError, match=f"^{entry.name} has {len(questions)} questions but {len(questions) + 1} were"):
        load(entry.name, len(questions) + 1, data=data)


def test_every_official_reference_is_its_own_right_answer_in_all_files(official_data: Path) -> None:
    lines = (official_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    for question, line in zip(load("gsm8k", None, data=official_data), lines, strict=True):
        row = json.loads(line)
        assert question.text == row["question"].strip()
        assert parse_number(row["answer"]) == parse_number(str(question.reference)) is not None
        assert grade(question, row["answer"]) is True
    choices = {question.text: question for question in load("truthfulqa", None, data=official_data)}
    for question in load("truthfulqa_gen", None, data=official_data):
        assert isinstance(question.reference, References)
        choice = choices[question.text]
        assert choice.option(str(choice.reference)).rstrip(".") == question.reference.correct[0].rstrip(".")


def test_one_entry_is_all_that_a_new_benchmark_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = BENCHMARKS["gsm8k"]
    assert entry.read is not None
    rows = [("mine, row 0", {"question": "1 + 1?", "answer": "#### 2"})]
    monkeypatch.setitem(BENCHMARKS, "mine", replace(entry, name="mine", read=(lambda _: iter(rows), entry.read[1])))
    assert [question.reference for question in load("mine", data=tmp_path)] == ["2"]


ARC_FILE, CSV_HEADER = "arc/ARC-Challenge-Test.jsonl", "Question,Best Answer,Correct Answers,Incorrect Answers\n"

FILES = {
    "gsm8k/train.jsonl": '{"question": "Ann has 2 pens and buys 3?", "answer": "2+3=<<2+3=5>>5\\n#### 5"}\n'
    '{"question": "A van costs 1000 and 234?", "answer": "Add.\\n#### 1,234"}\n',
    "mmlu/test/anatomy_test.csv": '"Bone of\r\nthe arm?",Ulna,Tibia,No,NA,A\r\nLargest organ?,Gut,Skin,Lung,12,B\r\n',
    "mmlu/test/virology_test.csv": '"Say ""virus""?","a,b",c,d,e,D\r\n',
    "mmlu/test/abstract_algebra_test.csv": "Smallest prime?,1,2,3,0,B\r\n",
    ARC_FILE: '{"id": "X_1", "question": {"stem": "Sun is?", "choices": [{"text": "moon", "label": "1"}, '
    '{"text": "star", "label": "2"}]}, "answerKey": "2"}\n',
    "truthfulqa/mc_task.json": json.dumps(
        [{"question": f"Is claim {n} so?", "mc1_targets": {"right": 1, "one": 0, "two": 0, "3": 0}} for n in range(30)]
    ),
    "truthfulqa/TruthfulQA.csv": f"\ufeffType,{CSV_HEADER}"
    "Adversarial,Where from?,Nobody knows,It is open; Nobody knows; ,From Rome; From Pisa\n",
}
"""Made-up rows in the official formats."""

CHOICES = {"text": ["moon", "star"], "label": ["1", "2"]}
TARGETS = {"choices": ["right", "one", "two", "3"], "labels": [1, 0, 0, 0]}
WHERE = {"question": "Where from?", "best_answer": "Nobody knows", "incorrect_answers": ["From Rome", "From Pisa"]}
ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [json.loads(line) for line in FILES["gsm8k/train.jsonl"].splitlines()],
    "mmlu": [
        {"question": question, "subject": subject, "choices": choices, "answer": answer}
        for question, subject, choices, answer in (
            ("Bone of\nthe arm?", "anatomy", ["Ulna", "Tibia", "No", "NA"], 0),
            ("Largest organ?", "anatomy", ["Gut", "Skin", "Lung", "12"], 1),
            ('Say "virus"?', "virology", ["a,b", "c", "d", "e"], 3),
            ("Smallest prime?", "abstract_algebra", ["1", "2", "3", "0"], 1),
        )
    ],
    "arc": [{**json.loads(FILES[ARC_FILE]), "question": "Sun is?", "choices": CHOICES}],
    "truthfulqa": [{"question": f"Is claim {n} so?", "mc1_targets": TARGETS} for n in range(30)],
    "truthfulqa_gen": [{**WHERE, "correct_answers": ["It is open", "Nobody knows", ""]}],
}
"""The same in the schemas of the hub."""
ROWS |= {"truthfulqa_in_order": ROWS["truthfulqa"], "mmlu_sampled": ROWS["mmlu"]}
HUB = {entry.name: (*entry.hub, entry.split) for entry in BENCHMARKS.values() if entry.read is not None}
"""Repository, configuration and split of every official benchmark."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    return tmp_path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """A hub that serves the made-up rows and records the requests."""
    requests: list[tuple[str, str, str]] = []
    by_address = {address: name for name, address in HUB.items()}

    def load_dataset(repository: str, configuration: str, *, split: str) -> list[dict[str, Any]]:
        requests.append((repository, configuration, split))
        return ROWS[by_address[repository, configuration, split]]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.delenv("SECL_DATA", raising=False)
    return requests


@pytest.mark.parametrize("name", HUB)
def test_the_folder_and_the_hub_give_equal_questions(name: str, folder: Path, hub: list[tuple[str, str, str]]) -> None:
    from_folder = load(name, None, data=folder)
    assert hub == []
    assert load(name, None) == from_folder
    assert hub == [HUB[name]]
    assert len(from_folder) == len(ROWS[name])
    assert {(question.domain, question.form) for question in from_folder} == {
        (name.removesuffix("_in_order").removesuffix("_sampled"), BENCHMARKS[name].form)
    }


def test_mmlu_goes_round_robin_over_its_subjects_in_sorted_order(folder: Path) -> None:
    questions = load("mmlu", 4, data=folder)
    subjects = ["abstract_algebra-0000", "anatomy-0000", "virology-0000", "anatomy-0001"]
    assert [question.id for question in questions] == [f"mmlu-{each}" for each in subjects]
    assert [question.reference for question in questions] == ["B", "A", "D", "B"]
    assert (questions[1].text, questions[2].options) == ("Bone of\nthe arm?", ("a,b", "c", "d", "e"))


def test_the_seed_shuffles_the_options_of_truthfulqa(folder: Path) -> None:
    questions = load("truthfulqa", 30, data=folder, seed=1)
    assert questions[:5] == load("truthfulqa", 5, data=folder, seed=1)
    assert questions != load("truthfulqa", 30, data=folder, seed=2)
    assert {question.option(str(question.reference)) for question in questions} == {"right"}
    assert {question.reference for question in questions} == set("ABCD")
    in_order = load("truthfulqa_in_order", data=folder, seed=1)
    assert in_order == load("truthfulqa_in_order", data=folder, seed=2)
    assert [sorted(question.options) for question in in_order] == [sorted(question.options) for question in questions]
    assert {question.reference for question in in_order} == {"A"} != {question.reference for question in questions}


def test_the_seed_draws_the_questions_of_each_subject_of_a_sample_of_mmlu(folder: Path) -> None:
    lines = "".join(f"Question {number}?,1,2,3,4,A\n" for number in range(20))
    (folder / "mmlu/test/anatomy_test.csv").write_text(lines, encoding="utf-8")
    questions, sampled = (load(name, data=folder, seed=1) for name in ("mmlu", "mmlu_sampled"))
    assert load("mmlu_sampled", 9, data=folder, seed=1) == sampled[:9] != questions[:9]
    assert sampled != load("mmlu_sampled", data=folder, seed=2)
    assert {question.id: question for question in sampled} == {question.id: question for question in questions}
    subjects = [[question.id.split("-")[1] for question in each] for each in (sampled, questions)]
    assert subjects[0] == subjects[1]


def test_a_hub_that_fails_names_the_way_around_it_or_the_row(
    hub: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(ROWS, "gsm8k", [ROWS["gsm8k"][0], {"question": "Only this?"}])
    with pytest.raises(DataError, match=r"openai/gsm8k \(main, train\), row 1 .*it lacks 'answer'"):
        load("gsm8k", None)

    def load_dataset(*_: object, **__: object) -> None:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise ConnectionError("no route\nto host")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DataError, match=r"'mmlu' \(cais/mmlu\) cannot be fetched.*--data or SECL_DATA") as caught:
        load("mmlu", 1)
    assert "\n" not in str(caught.value)
    assert caplog.messages == []
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"without --data FOLDER needs datasets; run: pip install .*\[hub\]"):
        load("arc", 1)


BROKEN = [
    ("gsm8k", "gsm8k/train.jsonl", None, r"train\.jsonl does not exist"),
    ("gsm8k", "gsm8k/train.jsonl", '{"question": "a", "answer": "#### 1"}\n{"que', r"train\.jsonl, line 2"),
    ("gsm8k", "gsm8k/train.jsonl", '\n{"question": "a", "answer": "1"}', "line 2 .*no '####'"),
    ("mmlu", "mmlu/test/anatomy_test.csv", '"a\nb",1,2,3,4,A\nc,1,2,3,A\n', r"anatomy_test\.csv, line 3"),
    ("mmlu", "mmlu/test/anatomy_test.csv", "a,1,2,3,4,E\n", "line 1 is not 'question,A,B,C,D,letter'"),
    ("mmlu", "mmlu/test/anatomy_test.csv", "a,1,2,,4,A\n", "line 1 .*empty option"),
    ("arc", ARC_FILE, '{"id": "x"}', "line 1 is not a valid question .it lacks 'question'"),
    ("arc", ARC_FILE, '{"id": 1, "question": 2}', "line 1 .*structure is wrong"),
    ("truthfulqa", "truthfulqa/mc_task.json", "[5]", "item 1 is neither a text nor an object"),
    ("truthfulqa", "truthfulqa/mc_task.json", '[{"question": "a", "mc1_targets": {"x": 1, "y": 1}}]', "exactly one"),
    ("truthfulqa_gen", "truthfulqa/TruthfulQA.csv", "Question,Best Answer\na,b\n", "'Correct Answers'"),
    ("truthfulqa_gen", "truthfulqa/TruthfulQA.csv", f"{CSV_HEADER}a,b,c,\n", "line 2 .*'Incorrect Answers'"),
]


@pytest.mark.parametrize(("name", "file", "content", "message"), BROKEN, ids=[message for *_, message in BROKEN])
def test_a_broken_line_is_named(name: str, file: str, content: str | None, message: str, folder: Path) -> None:
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load(name, None, data=folder)


NAMES = ["arithmetic", "capitals", "science"]

QUESTIONS = st.lists(st.builds(Question, st.sampled_from("abcdef"), domain=st.sampled_from("xyz")), max_size=12)


def test_a_shuffled_stream_mixes_the_domains_by_the_seed() -> None:
    forward = load_stream(NAMES, 10, seed=3)
    assert forward == [question for name in NAMES for question in load(name, 10, seed=3)]
    shuffled = load_stream(NAMES, 10, order="shuffled", seed=3)
    assert shuffled == load_stream(NAMES, 10, order="shuffled", seed=3)
    assert arrange(forward, "shuffled", 3) == shuffled != forward
    assert arrange(forward, "shuffled", 4) != shuffled


@given(QUESTIONS, st.integers())
def test_arranging_keeps_every_question_and_reversing_twice_is_grouping(questions: list[Question], seed: int) -> None:
    assert arrange(questions, "forward") == questions
    assert Counter(arrange(questions, "reversed")) == Counter(questions)
    assert Counter(arrange(questions, "shuffled", seed)) == Counter(questions)
    twice = arrange(arrange(questions, "reversed"), "reversed")
    assert arrange(twice, "reversed") == arrange(questions, "reversed")


@pytest.mark.parametrize(
    ("names", "per_domain", "order", "message"),
    [
        ([], 5, "forward", "no benchmark is named; choose from gsm8k"),
        ("capitals", 5, "forward", "give a list of names"),
        (["capitals"], 0, "forward", "questions of capitals is 0; ask for at least 1"),
        (["capitals"], 5, "sideways", "'sideways' is unknown; the orders are forward, reversed, shuffled"),
    ],
)
def test_a_senseless_stream_is_refused(names: list[str], per_domain: int, order: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load_stream(names, per_domain, order=order)  # type: ignore[arg-type]


def test_the_fingerprint_changes_with_any_field_and_with_the_order() -> None:
    base = Question("Why?", ("x", "y"), "A", "d", "one")
    changes: dict[str, Any] = {"text": "Why not?", "options": ("x", "z"), "reference": "B", "domain": "e", "id": "two"}
    changes |= {"context": "x", "system": "x", "row": (("x", "y"),)}
    changed = [replace(base, **{name: value}) for name, value in changes.items()]
    changed += [replace(base, options=("y", "x")), replace(base, reference=None)]
    changed += [Question("Why?", reference=References((), ("A",)), domain="d", id="one")]
    prints = [fingerprint(questions) for questions in ([], [base], [base, base], *([one] for one in changed))]
    assert len(set(prints)) == len(prints)
    assert fingerprint([base, changed[0]]) != fingerprint([changed[0], base])
    assert all(len(text) == 64 and int(text, 16) >= 0 for text in prints)


@pytest.mark.parametrize(
    ("domain", "questions", "digest"),
    [
        ("arithmetic", 500, "a04473d3813d7132"),
        ("capitals", 176, "644db47cb514e99d"),
        ("science", 683, "4b1d4ea090edeae3"),
        ("misconceptions", 98, "a0f3b8add548324b"),
    ],
)
def test_the_quiz_is_that_of_the_recorded_figures_for_its_seed(domain: str, questions: int, digest: str) -> None:
    asked = quiz(domain)
    assert (len(asked), fingerprint(asked)[:16]) == (questions, digest)
    assert len({question.text for question in asked}) == questions
    one, other = quiz(domain, seed=7), quiz(domain, seed=8)
    assert quiz(domain, 15, 7) == one[:15] != other[:15]
    alike = [{(question.text, *sorted(question.options)) for question in each} for each in (one, other)]
    assert alike[0] == alike[1]
    if domain != "arithmetic":
        assert all(3 <= len({*question.options}) == len(question.options) <= 5 for question in one)


OPTIONS = ["bug", "feature, idea"]
TEMPLATE = "Which team? {subject}: {Body} {{now}}"
TICKETS: list[dict[str, Any]] = [
    {"subject": "Login", "body": "It fails.", "gold": "bug"},
    {"subject": "Dark {mode}", "body": None, "gold": "B"},
    {"subject": "1 + 1", "body": 7, "gold": None},
]


@pytest.mark.parametrize("kind", ["csv", "xlsx", "frame", "list"])
def test_every_kind_of_table_is_classified_by_a_template_and_options(kind: str, tmp_path: Path) -> None:
    frame, csv, xlsx = pd.DataFrame(TICKETS), tmp_path / "tickets.csv", tmp_path / "tickets.xlsx"
    frame.to_csv(csv, index=False)
    frame.to_excel(xlsx, index=False)
    sources: dict[str, Any] = {"frame": frame, "list": TICKETS, "csv": csv, "xlsx": xlsx}
    file = read_rows(sources[kind], options=OPTIONS, template=TEMPLATE)
    texts = ["Which team? Login: It fails. {now}", "Which team? Dark {mode}:  {now}", "Which team? 1 + 1: 7 {now}"]
    assert [question.text for question in file.questions] == texts
    assert {question.options for question in file.questions} == {tuple(OPTIONS)}
    assert [question.reference for question in file.questions] == ["A", "B", None]
    assert [[name for name, _ in question.row] for question in file.questions] == [["subject", "body", "gold"]] * 3
    assert not file.notes


def test_texts_and_questions_are_rows_and_take_the_options() -> None:
    asked = Question("Login fails.", id="x", reference="feature, idea")
    file = read_rows(["Dark mode?", asked], options=OPTIONS)
    first, second = file.questions
    assert (first.text, first.options, first.id) == ("Dark mode?", tuple(OPTIONS), "questions-0001")
    assert second == replace(asked, options=tuple(OPTIONS), reference="B", form="choice")
    assert read_rows([asked]).questions == (asked,)


def test_a_template_comes_before_a_question_column_and_a_row_that_leaves_it_empty_may_be_skipped() -> None:
    file = read_rows([{"question": "Why?", "text": "sky"}], template="What about the {text}?")
    assert (file.questions[0].text, file.questions[0].row[0]) == ("What about the sky?", ("question", "Why?"))
    assert not file.notes
    (note,) = read_rows([{"question": "Why?", "label": "bug"}], options=OPTIONS).notes
    assert note.endswith("if it is the reference, add --columns 'reference=label'.")
    assert len(read_rows([*TICKETS, {"subject": "", "body": None}], template=TEMPLATE, skip_bad=True).questions) == 3


CLASSES: dict[str, Any] = {"options": OPTIONS}
BAD: list[tuple[Any, dict[str, Any], str]] = [
    *(
        (TICKETS, {"template": "{subject}", **how}, message)
        for how, message in (
            ({"template": "{sybject}"}, "'sybject', which is not a column; the columns are 'subject', 'body', 'gold'"),
            ({"template": "{}"}, "the template names '', which is not a column"),
            ({"template": "Which {subject"}, "has an unmatched brace; write {column} for a column, and {{ or }}"),
            ({"template": "Which subject}"}, "has an unmatched brace"),
            ({"template": "Which?"}, "names no column; write {column}"),
            ({"options": ["bug"]}, "there is one option, 'bug'; give at least two"),
            ({"options": ["bug", "bug"]}, "the option 'bug' is given twice"),
            ({"options": ["bug", " "]}, "an option is empty"),
            ({"options": "bug"}, "the options are the text 'bug'; give a list"),
            ({"options": [str(number) for number in range(27)]}, "27 options but only 26 letters"),
        )
    ),
    ([{"question": "a", "options": ["x", "y"]}], CLASSES, "row 1 has its own options, but options for all rows are"),
    ([{"question": "a", "A": "x", "B": "y"}], CLASSES, "row 1 has its own options"),
    ([Question("a", ("x", "y"))], CLASSES, "row 1 has its own options"),
    (["a", Question("a", form="number")], CLASSES, "row 2 cannot be asked"),
    ([Question("a", reference="z")], CLASSES, "row 1 has a reference that names no option: the answer 'z'"),
    ([{"question": "a", "gold": "crash"}], CLASSES, "row 1 has a reference that names no option: the answer 'crash'"),
    ([], CLASSES, "questions holds no question; add one."),
    (pd.DataFrame({"subject": [], "body": []}), {"template": TEMPLATE}, "questions holds no question; add one"),
    ([*TICKETS, {"subject": ""}], {"template": TEMPLATE}, "row 4 has no value in the template's columns ('subject'"),
]


@pytest.mark.parametrize(("rows", "how", "message"), BAD, ids=[message for *_, message in BAD])
def test_a_senseless_template_option_or_row_is_refused(rows: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(SeclError) as caught:
        read_rows(rows, **how)
    assert isinstance(caught.value, ParameterError if rows is TICKETS else DataError)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
