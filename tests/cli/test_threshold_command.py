"""`secl threshold`: what it promises, what it calls an estimate, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.answers import answered, run_folder
from tests.cli.conftest import Shell

CONFIDENCE = [0.9] * 60 + [0.5] * 60


def test_labels_give_a_promise_and_json_has_its_numbers(shell: Shell, tmp_path: Path) -> None:
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


def test_without_labels_it_is_an_estimate(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [None] * 120))
    out = shell("threshold", run, "--risk", 0.1).out
    assert out.startswith(
        "Accept at 0.7 or above: 50% of answers, about 10% of them wrong by the confidences alone: an estimate.\n"
    )
    assert "certainty" not in out
    assert shell("threshold", run, "--risk", 0.01).out.startswith("By the confidences alone no answer is sure enough")


SURE = [0.9 - 0.01 * k for k in range(28)]


@pytest.mark.parametrize(
    ("confidence", "correct", "said"),
    [
        pytest.param(
            SURE,
            [False, *[True, False] * 13, False],
            "No useful threshold: 15 of 28 graded answers are wrong, the surest included.\n"
            "At most 10% wrong with 90% certainty would take at least 22 right answers in a row above it.\n"
            "Next: look at every answer, or try another confidence: secl check --questions FILE\n",
            id="the surest are wrong",
        ),
        pytest.param(
            [*SURE[:5], 0.1],
            [True, False, False, False, False, None],
            "No useful threshold: 4 of 5 graded answers are wrong, some of the surest included.\n"
            "At most 10% wrong with 90% certainty would take at least 22 right answers in a row above it.\n"
            "Next: label the other one and ask 16 more questions.\n",
            id="few labels, and the surest are wrong",
        ),
        pytest.param(
            [0.9] * 40,
            [True] * 15 + [None] * 25,
            "Too few labels: 0 of 15 graded answers are wrong.\n"
            "At most 10% wrong with 90% certainty takes about 22 labels if the rest are like these.\n"
            "The lowest share of wrong ones that can be promised now is 15%.\n"
            "Next: label 7 more.\n",
            id="too few labels",
        ),
    ],
)
def test_without_a_threshold_it_says_why_and_what_next(
    shell: Shell, tmp_path: Path, confidence: list[float], correct: list[bool | None], said: str
) -> None:
    run = run_folder(tmp_path / "run", answered(confidence, correct))
    assert shell("threshold", run, "--risk", 0.1).out == said


def test_what_makes_no_sense_is_refused(refused: Any, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered([0.9] * 5, [True] * 5))
    refused(("threshold", run), "--risk")
    refused(("threshold", run, "--risk", 0), "from 1e-09 to 1, without 1", "no number of labels")
    refused(("threshold", run, "--risk", 1), "from 1e-09 to 1, without 1")
    refused(("threshold", run, "--risk", "often"), "often")
    refused(("threshold", run, "--risk", 0.1, "--certainty", 1), "certainty")
    refused(("threshold", tmp_path / "nosuch", "--risk", 0.1), "nosuch", "not a run folder")
    empty = run_folder(tmp_path / "empty", [])
    refused(("threshold", empty, "--risk", 0.1), "nothing to accept")
