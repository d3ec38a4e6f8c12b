"""`secl threshold` and `--accept`: what is promised, called an estimate, marked, counted and exported."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.reports.acceptance_report import accepted_line, accepted_sentence
from secl.runs.runner import resume_run, start_run
from secl.runs.settings import Recipe, RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel
from tests.answers import answered, run_folder
from tests.cli.conftest import Shell
from tests.runs.conftest import stop_after

CONFIDENCE = [0.9] * 60 + [0.5] * 60


def test_labels_give_a_promise_and_confidences_alone_an_estimate(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [True] * 60 + [False] * 60))
    ended = shell("threshold", run, "--risk", 0.05)
    assert ended.code == 0
    assert ended.out.startswith(
        "Accept at 0.7 or above: 50% of answers, at most 5% of them wrong with 90% certainty (from 120 labels).\n"
        "Of the 60 labelled answers above it 0 are wrong, so 3.8% at most.\n"
    )
    assert "random sample" in ended.out
    values = json.loads(shell("threshold", run, "--risk", 0.05, "--json").out)
    assert (values["guarantee"], values["labels"], values["answers"]) == (True, 120, 120)
    assert values["threshold"]["value"] == 0.7
    assert round(values["threshold"]["bound"], 4) == 0.0376
    run = run_folder(tmp_path / "unlabelled", answered(CONFIDENCE, [None] * 120))
    out = shell("threshold", run, "--risk", 0.1).out
    assert out.startswith(
        "Accept at 0.7 or above: 50% of answers, about 10% of them wrong by the confidences alone: an estimate.\n"
    )
    assert "certainty" not in out
    assert shell("threshold", run, "--risk", 0.01).out.startswith("By the confidences alone no answer is sure enough")


SURE = [0.9 - 0.01 * k for k in range(28)]
ROW = "At most 10% wrong with 90% certainty would take at least 22 right answers in a row above it.\n"


@pytest.mark.parametrize(
    ("confidence", "correct", "said"),
    [
        (
            SURE,
            [False, *[True, False] * 13, False],
            f"No useful threshold: 15 of 28 graded answers are wrong, the surest included.\n{ROW}"
            "Next: look at every answer, or try another confidence: secl check --questions FILE\n",
        ),
        (
            [*SURE[:5], 0.1],
            [True, False, False, False, False, None],
            f"No useful threshold: 4 of 5 graded answers are wrong, some of the surest included.\n{ROW}"
            "Next: label the other one and ask 16 more questions.\n",
        ),
        (
            [0.9] * 40,
            [True] * 15 + [None] * 25,
            "Too few labels: 0 of 15 graded answers are wrong.\n"
            "At most 10% wrong with 90% certainty takes about 22 labels if the rest are like these.\n"
            "The lowest share of wrong ones that can be promised now is 15%.\n"
            "Next: label 7 more.\n",
        ),
    ],
    ids=["the surest are wrong", "few labels, and the surest are wrong", "too few labels"],
)
def test_without_a_threshold_it_says_why_and_what_next(
    shell: Shell, tmp_path: Path, confidence: list[float], correct: list[bool | None], said: str
) -> None:
    run = run_folder(tmp_path / "run", answered(confidence, correct))
    assert shell("threshold", run, "--risk", 0.1).out == said


def test_what_makes_no_sense_is_refused(refused: Any, tmp_path: Path) -> None:
    run, empty = run_folder(tmp_path / "run", answered([0.9] * 5, [True] * 5)), run_folder(tmp_path / "empty", [])
    for folder, arguments, *words in (
        (run, (), "--risk"),
        (run, ("--risk", 0), "from 1e-09 to 1, without 1", "no number of labels"),
        (run, ("--risk", 1), "from 1e-09 to 1, without 1"),
        (run, ("--risk", "often"), "often"),
        (run, ("--risk", 0.1, "--certainty", 1), "certainty"),
        (tmp_path / "nosuch", ("--risk", 0.1), "nosuch", "not a run folder"),
        (empty, ("--risk", 0.1), "nothing to accept"),
    ):
        refused(("threshold", folder, *arguments), *words)


def accepted(records: Any) -> list[tuple[float | None, bool | None]]:
    return [(record.accept, record.accepted) for record in records]


@pytest.mark.usefixtures("scripted")
def test_a_run_marks_counts_and_exports_what_it_does_not_accept(shell: Shell, tmp_path: Path, refused: Any) -> None:
    run, asked = tmp_path / "run", ("run", "--benchmarks", "capitals:6", "--method", "stated")
    refused((*asked, "--accept", 1.5, "--out", run), "accept is 1.5", "0 to 1")
    ended = shell(*asked, "--accept", 0.8, "--out", run)
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
    file = tmp_path / "given.csv"  # answers from elsewhere
    file.write_text("question,answer,correct\nCapital of Peru?,Lima,true\nCapital of Chile?,Rio,false\n")
    said = shell("score", file, "--accept", 0.01).out
    assert "Accepted at 0.01: 2 of 2 answers (100%); 50% of these are right." in said
    scored = json.loads(shell("score", file, "--accept", 0.99, "--json").out)["answers"]
    assert [row["accepted"] for row in scored] == [False, False]


def test_a_resumed_run_may_accept_more_and_the_count_says_how_many_of_either_kind_are_right(tmp_path: Path) -> None:
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
