"""Every benchmark keeps the contract of `secl.data.benchmarks`; a new entry is tested here without another line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from secl.data.benchmarks import BENCHMARKS, Benchmark, load
from secl.errors import DataError
from secl.grading.rules import grade
from secl.grading.texts import parse_number
from secl.question import References

PUBLISHED = {
    "gsm8k": 7473,
    "mmlu": 14042,
    "mmlu_sampled": 14042,
    "arc": 1172,
    "truthfulqa": 817,
    "truthfulqa_in_order": 817,
    "truthfulqa_gen": 817,
}
"""Numbers of questions."""


@pytest.mark.parametrize("entry", BENCHMARKS.values(), ids=list(BENCHMARKS))
def test_a_benchmark_has_its_questions_with_references_that_are_right(
    entry: Benchmark, request: pytest.FixtureRequest
) -> None:
    """Official ones are skipped where their files are not here."""
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


def test_every_official_gsm8k_reference_is_its_own_right_answer(official_data: Path) -> None:
    lines = (official_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    for question, line in zip(load("gsm8k", None, data=official_data), lines, strict=True):
        row = json.loads(line)
        assert question.text == row["question"].strip()
        assert parse_number(row["answer"]) == parse_number(str(question.reference)) is not None
        assert grade(question, row["answer"]) is True


def test_official_truthfulqa_answers_agree_between_its_two_files(official_data: Path) -> None:
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
