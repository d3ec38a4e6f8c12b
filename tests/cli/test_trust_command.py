"""Verdicts, labels and other graders in what commands print and write, also of a server's state and its backup."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from secl.question import Question
from secl.runs.runner import start_run
from secl.runs.settings import RunSettings
from secl.server.retention import Retention, prune
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.cli.conftest import Shell
from tests.cli.test_auditing import make_service
from tests.server import conftest as serving
from tests.server.folders import filled
from tests.server.waiting import close

__all__ = ["make_service"]

LABELS = {2: True, 3: False, 5: False, 8: False}


@pytest.fixture
def rated(make_service: serving.Make) -> Path:
    """The folder of a stopped server, four of whose answers people have rated."""
    service = make_service()
    for question in toy_stream(12):
        service.ask(replace(question, reference=None), 10)
    folder = close(service)
    with ServerStore(folder, writable=True) as state:
        for position, correct in LABELS.items():
            state.add_feedback(position, correct)
    return folder


def test_a_report_ends_with_the_verdict_and_the_summary_holds_it(shell: Shell, run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    said = " ".join(shell("report", copy).out.split())
    verdict = json.loads((copy / "summary.json").read_text(encoding="utf-8"))["verdict"]
    assert f"verdict: {verdict['level']} ({verdict['source']} confidence). " in said
    assert set(verdict["reasons"][0]) == {"code", "severity"}


def test_what_people_said_is_in_the_exports_of_a_server_and_its_report_counts_it_as_grades(
    shell: Shell, rated: Path, tmp_path: Path
) -> None:
    rows = list(csv.DictReader(io.StringIO(shell("export", rated, "--format", "csv", "--out", "-").out)))
    said = {position: str(correct) for position, correct in LABELS.items()}
    assert {position: row["label"] for position, row in enumerate(rows) if row["label"]} == said
    assert all(row["correct"] == row["label"] for row in rows)
    lines = [json.loads(line) for line in shell("export", rated, "--out", "-").out.splitlines()]
    assert {position: line["label"] for position, line in enumerate(lines) if line["label"] is not None} == LABELS
    assert all(line["correct"] == line["label"] for line in lines)
    shell("report", rated, "--out", tmp_path / "page")
    with (tmp_path / "page" / "summary.csv").open(encoding="utf-8") as stream:
        counted = {row["estimator"]: row["n"] for row in csv.DictReader(stream) if not row.get("domain")}
    assert counted["stated"] == str(len(LABELS))
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "label the other 8 and ask 38 more questions" in page


def test_a_backup_is_verified_and_pruned_like_any_state(shell: Shell, tmp_path: Path) -> None:
    state, copy = filled(tmp_path / "state", 100), tmp_path / "copy"
    ended = shell("backup", state, copy)
    assert (ended.code, ended.out) == (0, f"{copy} holds 100 records; check it with: secl verify {copy}\n")
    with ServerStore(copy, writable=True) as opened:
        assert prune(opened, Retention(records=30), rest=0.0) == 70
    found = json.loads(shell("verify", copy, "--last", 0, "--json").out)
    assert (found["agrees"], found["examined"], found["first"]) == (True, 30, 70)
    again = shell("verify", copy, "--last", 0)
    assert (again.code, again.err) == (0, "")
    assert "the records before number 70; all this is about those that are kept" in again.out
    assert "was pruned; kept are 70 to 99" in shell("show", copy, "3").err
    assert shell("export", copy, "--out", tmp_path / "x.csv", "--format", "csv").err == (
        f"The records 0 to 69 of {copy} were pruned.\n"
    )


def test_a_report_grades_anew_beside_the_run_and_leaves_its_summary_alone(shell: Shell, tmp_path: Path) -> None:
    """Ten open questions, whose references are a part of the scripted answer or not in it."""
    rows, path, folder = [], tmp_path / "mine.jsonl", tmp_path / "run"
    for number in range(10):
        text = f"Question number {number}?"
        answer = ScriptedModel().answer(Question(text)).reply.answer or ""
        rows.append({"question": text, "reference": answer if number < 5 else f"{answer} and more"})
    path.write_text("\n".join(map(json.dumps, rows)))
    settings = RunSettings.of({"stream.questions": str(path), "method": "stated"})
    run = start_run(settings, folder, lambda _: ScriptedModel())
    with run.store:
        run.proceed()
        run.finish()
    before = (folder / "summary.json").read_text()
    said = shell("report", folder, "--grader", "regex")
    assert said.code == 0, said.err
    assert (folder / "graded-regex" / "report.html").exists()
    assert (folder / "summary.json").read_text() == before
    assert "fuzzy" in shell("report", folder, "--grader", "fuzzy").err
    said = shell("report", folder, "--grader", "overlap")
    assert said.code == 2
    assert "no wrong answers" in said.err
    assert not (folder / "graded-overlap").exists()
