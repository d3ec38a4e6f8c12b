"""Graders in runs: named for a whole file, or by a question itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secl.data.streams import fingerprint
from secl.errors import DataError, ParameterError
from secl.question import Question
from secl.runs.loading import read_stream
from secl.runs.settings import RunSettings
from secl.settings.groups import StreamSettings

ASKED = Question("Who wrote Faust?", reference="Goethe")


def file_of(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_the_grader_of_a_run_is_for_open_questions_that_have_none_of_their_own(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        {"question": "Who?", "reference": "x"},
        {"question": "Who?", "reference": "x", "grader": "exact"},
        {"question": "Which?", "options": ["x", "y"], "reference": "A"},
        {"question": "2 + 2?", "reference": "4", "form": "number"},
        {"question": "Who?", "references": {"correct": ["x"], "incorrect": ["y"]}},
    )
    plain = read_stream(RunSettings.of({"stream.questions": str(path)})).questions
    named = read_stream(RunSettings.of({"stream.questions": str(path), "stream.grader": "contains"})).questions
    assert [question.grader for question in plain] == ["", "exact", "", "", ""]
    assert [question.grader for question in named] == ["contains", "exact", "", "", ""]
    assert fingerprint(plain) == fingerprint(named)  # the same is asked


def test_a_reference_that_does_not_fit_the_grader_is_refused_or_skipped(tmp_path: Path) -> None:
    path = file_of(
        tmp_path, {"question": "Who?", "reference": "x"}, {"question": "What?", "reference": "(", "id": "q2"}
    )
    with pytest.raises(DataError, match="'q2' has the reference '\\('"):
        read_stream(RunSettings.of({"stream.questions": str(path), "stream.grader": "regex"}))
    stream = read_stream(
        RunSettings.of({"stream.questions": str(path), "stream.grader": "regex", "stream.skip_bad": True})
    )
    assert [question.text for question in stream.questions] == ["Who?"]
    assert stream.skipped[0][0].endswith("line 2")


def test_benchmarks_keep_their_official_rules() -> None:
    with pytest.raises(ParameterError, match="official rules"):
        RunSettings.of({"stream.benchmarks": ["capitals"], "stream.grader": "contains"})
    with pytest.raises(ParameterError, match="grader is 'fuzzy'; it must be one of auto, exact"):
        StreamSettings.model_validate({"grader": "fuzzy"})
