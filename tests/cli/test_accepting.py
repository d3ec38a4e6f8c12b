"""`--accept`: answers below a threshold are marked, counted and exported, and the threshold may change on the way."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.reports.acceptance_report import accepted_line, accepted_sentence
from secl.runs import runner
from secl.runs.runner import resume_run, start_run
from secl.runs.settings import Recipe, RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel
from tests.answers import answered
from tests.cli.conftest import Shell
from tests.runs.conftest import stop_after


@pytest.fixture
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_model", lambda _settings: ScriptedModel(stated=0.75))


def accepted(records: Any) -> list[tuple[float | None, bool | None]]:
    return [(record.accept, record.accepted) for record in records]


@pytest.mark.usefixtures("_scripted")
def test_a_run_marks_counts_and_exports_what_it_does_not_accept(shell: Shell, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = shell("run", "--benchmarks", "capitals:6", "--method", "stated", "--accept", 0.8, "--out", run)
    assert ended.code == 0
    assert "Accepted at 0.8: 0 of 6 answers (0%); " in ended.out
    with Store(run) as store:
        assert accepted(store.records()) == [(0.8, False)] * 6
    rows = list(csv.DictReader(io.StringIO(shell("export", run, "--format", "csv", "--out", "-").out)))
    assert {row["accepted"] for row in rows} == {"False"}
    complete = json.loads(shell("export", run, "--out", "-").out.splitlines()[0])
    assert (complete["accept"], complete["accepted"]) == (0.8, False)
    assert "Accepted at 0.8: 0 of 6 answers" in shell("report", run).out
    assert "accept 0.8" not in shell("compare", run, run, "--estimator", "stated:stated_hard").out


def test_a_resumed_run_may_accept_more(tmp_path: Path) -> None:
    settings = RunSettings.of({"stream.benchmarks": ["capitals:6"], "method": "stated", "loop.accept": 0.8})

    def load(_settings: Recipe) -> ScriptedModel:
        return ScriptedModel(stated=0.75)

    begun = start_run(settings, tmp_path / "run", load)
    with begun.store, pytest.raises(KeyboardInterrupt):
        begun.proceed(stop_after(2))
    resumed = resume_run(tmp_path / "run", {"loop.accept": 0.7}, load)
    with resumed.store:
        resumed.proceed()
        assert accepted(resumed.records) == [(0.8, False)] * 2 + [(0.7, True)] * 4
    text = accepted_sentence(resumed.records)
    assert text is not None
    assert text.startswith("Accepted at thresholds from 0.7 to 0.8: 4 of 6 answers (67%)")


def test_the_count_says_how_many_of_either_kind_are_right() -> None:
    records = [replace(r, accept=0.6) for r in answered([0.9, 0.9, 0.9, 0.5, 0.5], [True, True, False, False, None])]
    assert accepted_sentence(records) == (
        "Accepted at 0.6: 3 of 5 answers (60%); 67% of these are right; 0% of the rejected ones are right."
    )
    assert accepted_sentence(answered([0.9], [True])) is None


def test_one_answer_says_whether_it_is_accepted(shell: Shell, tiny_llama: Path, refused: Any) -> None:
    options = ("--option", "Rome", "--option", "Paris", "--model", tiny_llama)
    assert "\naccepted: 0." in shell("ask", "Capital of France?", *options, "--accept", 0.01).out
    assert "not accepted: 0." in shell("ask", "Capital of France?", *options, "--accept", 0.99).out
    assert "accepted" not in shell("ask", "Capital of France?", *options).out
    refused(("ask", "Capital of France?", *options, "--accept", 2), "accept is 2", "from 0 to 1")
    assert "could not be read" in accepted_line(None, 0.9, 0.5)


def test_answers_from_elsewhere_are_accepted_or_not(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "load_model", lambda _settings: ScriptedModel())
    file = tmp_path / "given.csv"
    file.write_text("question,answer,correct\nCapital of Peru?,Lima,true\nCapital of Chile?,Rio,false\n")
    assert (
        "Accepted at 0.01: 2 of 2 answers (100%); 50% of these are right." in shell("score", file, "--accept", 0.01).out
    )
    rows = json.loads(shell("score", file, "--accept", 0.99, "--json").out)["answers"]
    assert [row["accepted"] for row in rows] == [False, False]


def test_a_threshold_out_of_range_is_refused(refused: Any, tmp_path: Path) -> None:
    refused(
        ("run", "--benchmarks", "capitals:6", "--accept", 1.5, "--out", tmp_path / "run"), "accept is 1.5", "0 to 1"
    )
