"""`secl threshold`: what it promises, what it calls an estimate, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.answers import answered, run_folder
from tests.cli.conftest import Shell

CONFIDENCE = [0.9] * 60 + [0.5] * 60


def test_labels_give_a_promise(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [True] * 60 + [False] * 60))
    ended = shell("threshold", run, "--risk", 0.05)
    assert ended.code == 0
    assert ended.out.startswith(
        "Accept above 0.7: 50% of answers, at most 5% of them wrong with 90% certainty (from 120 labels).\n"
        "Of the 60 labelled answers above it 0 are wrong, so 3.8% at most.\n"
    )
    assert "random sample" in ended.out


def test_json_has_the_numbers(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [True] * 60 + [False] * 60))
    values = json.loads(shell("threshold", run, "--risk", 0.05, "--cost-wrong", 10, "--cost-review", 1, "--json").out)
    assert (values["guarantee"], values["labels"], values["answers"]) == (True, 120, 120)
    assert values["threshold"]["value"] == 0.7
    assert round(values["threshold"]["bound"], 4) == 0.0376
    assert values["cost"]["threshold"]["value"] == 0.7


def test_without_labels_it_is_an_estimate(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [None] * 120))
    out = shell("threshold", run, "--risk", 0.1).out
    assert out.startswith(
        "Accept above 0.7: 50% of answers, about 10% of them wrong by the confidences alone: an estimate.\n"
    )
    assert "certainty" not in out
    assert shell("threshold", run, "--risk", 0.01).out.startswith("By the confidences alone no answer is sure enough")


def test_costs_alone_give_the_cheapest_threshold(shell: Shell, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [True] * 60 + [False] * 60))
    assert shell("threshold", run, "--cost-wrong", 10, "--cost-review", 1).out == (
        "Accept above 0.7: 50% of answers; 1,000 answers then cost 500, against 1,000 if people look at all, and 5,000 "
        "if all are accepted (an estimate from 120 labels).\n"
        "Next: secl run ... --accept 0.7, or secl serve ... --accept 0.7\n"
    )
    unlabelled = run_folder(tmp_path / "unlabelled", answered([0.5] * 5, [None] * 5))
    out = shell("threshold", unlabelled, "--cost-wrong", 10, "--cost-review", 1).out
    assert out.startswith(
        "Accept nothing: 1,000 answers cost 1,000 if people look at all, and 5,000 if all are accepted"
    )


def test_each_domain_has_a_line(shell: Shell, tmp_path: Path) -> None:
    domains = ["[b]easy"] * 60 + ["hard"] * 60
    run = run_folder(tmp_path / "run", answered(CONFIDENCE, [True] * 60 + [False] * 60, domains))
    short = shell("threshold", run, "--risk", 0.1).out
    assert short.endswith(
        "Next: secl run ... --accept 0.7, or secl serve ... --accept 0.7\nBy domain: the same with --full.\n"
    )
    out = shell("threshold", run, "--risk", 0.1, "--full").out
    assert "By domain" in out
    assert any(line.split()[:3] == ["[b]easy", "60", "all"] for line in out.splitlines())
    assert any(line.split()[:3] == ["hard", "60", "none"] for line in out.splitlines())


def test_what_makes_no_sense_is_refused(refused: Any, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", answered([0.9] * 5, [True] * 5))
    refused(("threshold", run), "--risk", "--cost-wrong")
    refused(("threshold", run, "--risk", 0), "above 0 and below 1", "no number of labels")
    refused(("threshold", run, "--risk", 1), "above 0 and below 1")
    refused(("threshold", run, "--risk", "often"), "often")
    refused(("threshold", run, "--risk", 0.1, "--confidence", 1), "certainty")
    refused(("threshold", run, "--cost-wrong", 10), "--cost-review")
    refused(("threshold", run, "--cost-wrong", -1, "--cost-review", 1), "-1")
    refused(("threshold", tmp_path / "nosuch", "--risk", 0.1), "nosuch", "not a run folder")
    empty = run_folder(tmp_path / "empty", [])
    refused(("threshold", empty, "--risk", 0.1), "no questions answered yet")
