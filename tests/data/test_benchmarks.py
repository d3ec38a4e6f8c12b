"""Benchmarks keep their contract. Folders and the hub give equal questions, and errors name their place."""

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secl.data.benchmarks import BENCHMARKS, Benchmark, load
from secl.errors import DataError
from secl.grading.numbers import parse_number
from secl.grading.rules import grade
from secl.question import References

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
