"""`secl check` and `secl compare` from the shell, on a model that follows a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from secl import Question
from secl.evidence import PTrue
from secl.metrics.measures import MEASURES
from secl.records import Reply
from secl.testing import ScriptedModel, toy_stream, unit
from tests.answers import give_labels, stored
from tests.cli.conftest import Interrupt, Shell, ask_file, scripted_run


class Knowing(ScriptedModel):
    """Overconfident, but P(True) knows what is right."""

    def score_p_true(self, question: Question, reply: Reply) -> PTrue:
        right = reply.answer == question.reference
        mine = (0.5 if right else 0.2) + 0.2 * unit(f"k/{question.id}")
        return PTrue(candidates=("it", "that", "this"), probabilities=(mine, 0.2, 0.3), distractor_source="options")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A question file with eighty right answers."""
    return ask_file(tmp_path / "mine.jsonl", toy_stream(80))


def found_by(shell: Shell, command: str, *arguments: object) -> dict[str, Any]:
    """The JSON of a check or a comparison."""
    ended = shell(command, *arguments, "--json").fine
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_a_check_is_a_screen_and_no_file(shell: Shell, use: Any, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(mine.parent))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("COLUMNS", "80")
    use(Knowing(stated=0.9))
    ended = shell("check", "--questions", mine, "--set", "evidence.tau=0.25").fine
    lines = ended.out.splitlines()
    assert lines[0].startswith("Use: secl run --method ")
    assert lines[1].startswith("Why: ")
    assert "Learning (--method secl): adapt: " in " ".join(lines)
    assert any(line.startswith("Stated (frozen)") for line in lines)
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert [path.name for path in sorted(mine.parent.rglob("*")) if path.is_file()] == [mine.name]


AS_CHECKED = ("--method", "posterior", "--set", "evidence.extra_evidence=p_true")
"""What makes a run of one's own that of a check."""


def test_a_run_is_checked_as_it_is(shell: Shell, use: Any, mine: Path, tmp_path: Path, interrupt_at: Interrupt) -> None:
    use(Knowing())
    whole, out = found_by(shell, "check", "--questions", mine), tmp_path / "run"
    assert shell("run", "--questions", mine, *AS_CHECKED, "--answer", "own", "--out", out).code == 0
    interrupt_at(31)
    part = tmp_path / "part"
    assert shell("run", "--questions", mine, "--method", "posterior", "--out", part).code == 2
    use(AssertionError("the model is not needed"))
    assert found_by(shell, "check", out) == whole
    assert any(line.startswith("Learning") for line in whole["sentences"])
    assert "Which method fits?" in shell("report", out, "--full").out
    without = found_by(shell, "check", part)
    assert (without["questions"], without["rated"], without["verdict"]) == (30, 0, "cannot tell")
    assert "no graded answer has normalised P(True)" in without["sentences"][2]
    give_labels(out, lambda _position: True)
    assert found_by(shell, "check", out)["right"] == whole["rated"]


def test_a_stopped_check_can_go_on(shell: Shell, use: Any, mine: Path, tmp_path: Path, interrupt_at: Interrupt) -> None:
    use(Knowing())
    out = tmp_path / "run"
    interrupt_at(31)
    ended = shell("check", "--questions", mine)
    assert ended.err == "secl: stopped after 30 of 80 questions, nothing is kept without --out.\n"
    interrupt_at(31)
    ended = shell("check", "--questions", mine, "--out", out)
    assert (ended.code, ended.out) == (2, "")
    kept = f"secl: stopped after 30 of 80 questions, all recorded; continue with: secl run --resume {out}\n"
    assert ended.err == kept
    assert shell("run", "--resume", out).code == 0
    assert len(stored(out)) == 80
    use(KeyboardInterrupt())
    assert shell("check", "--questions", mine).err == "secl: stopped before the first question.\n"


def test_bad_input_is_refused(refused: Any, use: Any, mine: Path, pair: tuple[Path, Path], tmp_path: Path) -> None:
    use(AssertionError("all of these are found before the model is loaded"))
    learned, asked, missing = pair[0], ("--questions", mine), tmp_path / "missing"
    empty = scripted_run(tmp_path / "empty", method="posterior", asked=0)
    bare = scripted_run(tmp_path / "bare", questions=[Question(f"Why {i}?", id=str(i)) for i in range(5)])
    for arguments, *words in (
        ((), "either benchmarks or a file"),
        (("--questions", tmp_path / "no.jsonl"), "no.jsonl", "does not exist"),
        ((*asked, "--out", tmp_path), tmp_path, "not empty"),
        ((learned,), learned, "methods posterior and baselines"),
        ((learned, *asked), learned, "asks no questions"),
        ((*asked, "--out", learned), learned, "not empty"),
        ((empty,), f"secl run --resume {empty}"),
    ):
        refused(("check", *arguments), *words)
    for sides, *words in (
        ((*pair, "--estimator", "nope"), "'nope'", "stated, ", "secl"),
        ((*pair, "--estimator", ""), "''"),
        ((*pair, "--estimator", "a:b:c"), "'a:b:c'", "stated:secl"),
        ((*pair, "--estimator", "secl"), pair[1], "'secl'", "does not compute it"),
        ((*pair, "--estimator", "dinco"), learned, "'dinco'"),
        ((learned, learned), learned, "two estimators"),
        ((learned, empty), empty, "no questions answered yet"),
        ((bare, bare, "--estimator", "stated:secl"), "none of the 5 questions"),
        ((learned, missing), missing, "not a run folder"),
    ):
        refused(("compare", *sides), *words)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A run that learned and one that did not, over the same questions."""
    return scripted_run(tmp_path / "secl"), scripted_run(tmp_path / "plain", method="norm_p_true")


def test_a_comparison_marks_differences(shell: Shell, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = shell("compare", pair[0], pair[0], "--estimator", "stated:secl").fine
    lines = [line.rstrip() for line in ended.out.splitlines()]
    assert lines[:2] == [f"A: Stated (frozen), {pair[0]}", f"B: SECL, {pair[0]}"]
    assert max(map(len, lines[2:])) <= 80
    assert next(line for line in lines if line.startswith("Mean confidence ")).endswith("*")
    assert not next(line for line in lines if line.startswith("Accuracy ")).endswith("*")
    for row in (*MEASURES.values(), "toy0", "toy1"):
        assert any(line.startswith(f"{row} ") for line in lines), row
    assert lines[-1] == "0 of 60 answers differ."


def test_a_comparison_says_what_sets_the_runs_apart(shell: Shell, pair: tuple[Path, Path], tmp_path: Path) -> None:
    found = found_by(shell, "compare", *pair)
    assert found["settings"] == ["method: secl in A, norm_p_true in B"]
    assert found["notes"] == []
    assert "Settings that differ: method: secl in A, norm_p_true in B." in shell("compare", *pair).out
    assert "Settings" not in shell("compare", pair[0], pair[0], "--estimator", "stated:secl").out
    one = scripted_run(tmp_path / "one", manifest={"model": "a" * 64})
    other = scripted_run(tmp_path / "other", model="llama-3.2-3b", manifest={"model": "b" * 64})
    found = found_by(shell, "compare", one, other)
    assert found["settings"] == ["model.name: smollm2 in A, llama-3.2-3b in B"]
    assert found["notes"] == ["The runs have different models: weights or files differ."]
    found = found_by(shell, "compare", pair[0], scripted_run(tmp_path / "later", questions=toy_stream(63)[3:]))
    assert found["notes"][0].startswith("A has answered 60 questions, B 60. Only the 57 questions")
