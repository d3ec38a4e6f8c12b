"""The official benchmark files, where they are: counts, first questions, and that their answers grade as right."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from secl.data.benchmarks import load
from secl.errors import DataError
from secl.grading import grade, parse_number
from secl.question import References


@pytest.fixture(scope="module")
def official() -> Path:
    data = Path(os.environ.get("SECL_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not data.is_dir():
        pytest.skip("the official benchmark files are not here; set SECL_DATA to their folder")
    return data


@pytest.mark.parametrize(
    ("name", "count"), [("gsm8k", 7473), ("mmlu", 14042), ("arc", 1172), ("truthfulqa", 817), ("truthfulqa_gen", 817)]
)
def test_the_official_files_have_the_published_number_of_questions(name: str, count: int, official: Path) -> None:
    questions = load(name, None, data=official)
    assert len(questions) == len({question.id for question in questions}) == count
    assert load(name, 5, data=official) == questions[:5]
    with pytest.raises(DataError, match=f"{name} has {count} questions"):
        load(name, count + 1, data=official)


def test_every_official_gsm8k_reference_is_its_own_right_answer(official: Path) -> None:
    lines = (official / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    for question, line in zip(load("gsm8k", None, data=official), lines, strict=True):
        row = json.loads(line)
        assert question.text == row["question"].strip()
        assert isinstance(question.reference, str)
        assert parse_number(row["answer"]) == parse_number(question.reference) is not None
        assert grade(question, row["answer"]) is True


def test_official_truthfulqa_answers_agree_between_its_two_files(official: Path) -> None:
    choices = {question.text: question for question in load("truthfulqa", None, data=official)}
    for question in load("truthfulqa_gen", None, data=official):
        assert isinstance(question.reference, References)
        choice = choices[question.text]
        right = choice.option(str(choice.reference)).rstrip(".")
        assert right == question.reference.correct[0].rstrip(".")
