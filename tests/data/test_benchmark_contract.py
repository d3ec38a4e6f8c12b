"""Every benchmark keeps the contract of `secl.data.benchmarks`; a new entry is tested here without another line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secl.data.benchmarks import BENCHMARKS, Benchmark, OfficialBenchmark, QuizBenchmark, load
from secl.errors import DataError, ParameterError
from secl.grading import grade
from secl.question import References


@pytest.fixture(params=BENCHMARKS.values(), ids=list(BENCHMARKS))
def benchmark_entry(request: pytest.FixtureRequest) -> Benchmark:
    entry: Benchmark = request.param
    return entry


@pytest.fixture
def data(benchmark_entry: Benchmark, request: pytest.FixtureRequest) -> Path | None:
    """The folder that the entry reads; the test is skipped without the official files."""
    if isinstance(benchmark_entry, QuizBenchmark):
        return None
    folder: Path = request.getfixturevalue("official_data")
    return folder


def test_its_questions_have_its_form_different_ids_and_references_that_are_right(
    benchmark_entry: Benchmark, data: Path | None
) -> None:
    questions = load(benchmark_entry.name, data=data)
    assert {question.form for question in questions} == {benchmark_entry.form}
    assert len({question.id for question in questions}) == len(questions)
    assert len({question.domain for question in questions}) == 1
    for question in questions[:50]:
        reference = question.reference
        assert reference is not None
        assert grade(question, reference.correct[0] if isinstance(reference, References) else reference) is True


def test_the_first_questions_do_not_depend_on_how_many_are_loaded(
    benchmark_entry: Benchmark, data: Path | None
) -> None:
    questions = load(benchmark_entry.name, data=data)
    assert load(benchmark_entry.name, 7, data=data) == questions[:7]
    available, _ = benchmark_entry.open(data, 42)
    assert len(questions) == (benchmark_entry.default_count or available)
    with pytest.raises(DataError, match=f"^{benchmark_entry.name} has {available} questions but {available + 1} were"):
        load(benchmark_entry.name, available + 1, data=data)


def test_an_unknown_benchmark_lists_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=rf"'gsm9k' is unknown; the benchmarks are {', '.join(BENCHMARKS)}\.$"):
        load("gsm9k", 1)


def test_one_entry_is_all_that_a_new_benchmark_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = BENCHMARKS["gsm8k"]
    assert isinstance(entry, OfficialBenchmark)
    rows = [("mine, row 0", {"question": "1 + 1?", "answer": "#### 2"})]
    monkeypatch.setitem(BENCHMARKS, "mine", replace(entry, name="mine", read_files=lambda _: iter(rows)))
    assert [question.reference for question in load("mine", data=tmp_path)] == ["2"]
