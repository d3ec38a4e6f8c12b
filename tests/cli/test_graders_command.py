"""Graders from the shell: named for a run, and another one for the report of a finished run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secl.question import Question
from secl.runs.runner import start_run
from secl.runs.settings import RunSettings
from secl.testing import ScriptedModel
from tests.cli.conftest import Shell


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A finished run over ten open questions, whose references are a part of the scripted answer or not in it."""
    model = ScriptedModel()
    rows = []
    for number in range(10):
        text = f"Question number {number}?"
        answer = model.answer(Question(text)).reply.answer or ""
        rows.append({"question": text, "reference": answer if number < 5 else f"{answer} and more"})
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    folder = tmp_path / "run"
    run = start_run(
        RunSettings.of({"stream.questions": str(path), "method": "stated"}), folder, lambda _: ScriptedModel()
    )
    with run.store:
        run.proceed()
        run.finish()
    return folder


def test_a_report_grades_anew_beside_the_run_and_leaves_its_summary_alone(shell: Shell, finished: Path) -> None:
    before = (finished / "summary.json").read_text()
    said = shell("report", finished, "--grader", "regex")
    assert said.code == 0, said.err
    assert (finished / "graded-regex" / "report.html").exists()
    assert (finished / "summary.json").read_text() == before


def test_a_grader_that_is_none_or_that_does_not_fit_is_one_sentence(shell: Shell, finished: Path) -> None:
    assert "fuzzy" in shell("report", finished, "--grader", "fuzzy").err
    said = shell("report", finished, "--grader", "overlap")
    assert said.code == 2
    assert "no wrong answers" in said.err
    assert not (finished / "graded-overlap").exists()
