"""`secl score` from the shell: tables, JSON, run folders, and what cannot be rated."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from secl.reports.run_report import command
from secl.runs import runner
from secl.runs.recipes import score_settings
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.settings.names import with_set
from tests.cli.conftest import Shell

PAIRS = """question,A,B,C,answer,rivals,correct
Which planet is closest to the sun?,Venus,Mercury,Mars,mercury,,
Which one is next?,Venus,Mercury,Mars,C. Mars,,false
What is the capital of Peru?,,,,Lima,Cusco | Quito,true
Who wrote Hamlet?,,,,[red]Elvis[/red],,no
"""


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    return path


@pytest.mark.usefixtures("scripted")
def test_answers_are_printed_and_json_and_a_run_have_every_number(shell: Shell, pairs: Path, tmp_path: Path) -> None:
    ended = shell("score", pairs)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[1].split() == ["Question", "Answer", "Confidence", "(frozen)", "P(True)", "PMI", "Grade"]
    answers = ("B. Mercury", "C. Mars", "Lima", "[red]Elvis[/red]")
    for line, answer, verdict in zip(lines[3:], answers, ("", "wrong", "right", "wrong"), strict=False):
        assert answer in line
        assert line.rstrip().endswith(verdict)
    assert "Confidence: the posterior of the answer among its rivals, for " in ended.out
    assert "verdict: unproven (" in ended.out
    rows = json.loads(shell("score", pairs, "--json").out)["answers"]
    assert [(row["answer"], row["correct"]) for row in rows] == [
        ("B", None),
        ("C", False),
        ("Lima", True),
        ("[red]Elvis[/red]", False),
    ]
    assert shell("score", pairs, "--out", tmp_path / "run").code == 0
    with Store(tmp_path / "run") as store:
        records = list(store.records())
    for row, record in zip(rows, records, strict=True):
        assert row["confidence"] == record.confidence
        assert row["reply"]["stated"] == record.reply.stated
        compared, p_true = record.evidence.candidates, record.evidence.p_true
        assert compared is not None
        assert p_true is not None
        assert row["evidence"]["p_true"]["probabilities"][0] == p_true.probabilities[0]
        own = record.question.letters.index(row["answer"]) if record.question.options else 0
        likelihood = compared.likelihoods[own]
        assert (likelihood is None) is (not record.question.options)  # an open answer is compared with further ones
        assert row["pmi"] == (None if likelihood is None else likelihood.given - likelihood.alone)


@pytest.mark.usefixtures("scripted")
def test_columns_may_have_other_names_and_bad_rows_may_be_left_out(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "gpt.jsonl"
    rows: list[dict[str, Any]] = [
        {"prompt": "Capital of Peru?", "gpt": "Lima"},
        {"prompt": "Capital of Chile?", "gpt": ""},
        {"prompt": "Capital of Italy?", "choices": ["Rome", "Pisa"], "gpt": "Oslo"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    ended = shell("score", path, "--columns", "answer=gpt", "--skip-bad", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert [row["text"] for row in found["answers"]] == ["Lima"]
    assert [each["where"] for each in found["skipped"]] == [f"{path}, line 2", f"{path}, line 3"]
    assert ended.err.count("skipped: ") == 2
    assert "A. Rome, B. Pisa" in ended.err


CHANGED = {
    "model.name": "a b",
    "model.dtype": "fp32",
    "model.device": "cuda:1",
    "stream.columns": ("question=prompt", "answer=gpt"),
    "stream.skip_bad": True,
    "stream.per_domain": 3,
    "stream.order": "shuffled",
    "stream.grader": "exact",
    "seed": 7,
    "loop.accept": 0.8,
    "model.calibration": "/labelled run",
    "evidence.p_true": "token",
    "evidence.tau": 0.7,
    "evidence.formula": "exp",
    "evidence.extra_evidence": ("p_true", "candidates"),
    "prompts.p_true_prompt": "paper",
    "prompts.open_confidence": "alongside",
    "posterior.views": ("letters", "p_true"),
    "prompts.distractors": 3,
    "prompts.top_p": 0.9,
}
ELSEWHERE = {"model.name": "m", "model.engine": "openai", "model.endpoint": "http://127.0.0.1:1"}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[RunSettings]:
    """The settings of runs that are begun, each of which is stopped at once."""
    seen: list[RunSettings] = []

    def start_run(settings: RunSettings, _folder: Path, *, mode: str) -> None:
        assert mode == "score"
        seen.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "start_run", start_run)
    return seen


def test_the_command_on_the_page_rates_the_same_answers_again_and_a_setting_wins_over_its_flag(
    shell: Shell, begun: list[RunSettings], pairs: Path
) -> None:
    cases: list[dict[str, Any]] = [CHANGED, ELSEWHERE, *({name: value} for name, value in CHANGED.items())]
    for values in cases:
        recipe = score_settings(Path("it's.csv"), values)
        program, *arguments = shlex.split(command(recipe, "score"))
        assert (program, arguments[-2:]) == ("secl", ["--out", "NEW"])
        assert shell(*arguments).err == "secl: stopped before the first question.\n"
        assert begun.pop() == recipe
    useless = {"loop.answer": "best", "model.answer_weights": "frozen", "loop.accept": 0.8}  # of an older run
    recipe = score_settings(Path("a.csv"), useless)
    assert command(recipe, "score") == "secl score a.csv --model smollm2 --accept 0.8 --out NEW"
    for setting in ("seed=3", "stream.order=reversed", "loop.accept=0.9"):
        shell("score", pairs, "--set", setting, "--out", "NEW")
        settings = begun.pop()
        assert settings == score_settings(pairs, with_set(None, (setting,)))
        assert settings != score_settings(pairs, {})


def test_flags_that_do_not_go_together_are_refused(pairs: Path, tmp_path: Path, refused: Any) -> None:
    refused(("score", pairs, "--json", "--out", tmp_path / "run"), "--json", "--out")
    refused(("score", tmp_path / "nothing.csv"), "nothing.csv")
    pairs.write_text("question\nWhy?\n")
    refused(("score", pairs), "line 2 has no 'answer' to rate")
    pairs.write_text("question,A,B,answer\nCapital of France?,Rome,Paris,Paris\nCapital of Italy?,Rome,Pisa,Oslo\n")
    refused(("score", pairs), "line 3 cannot be rated", "none of its options")
    refused(("score", pairs, "--set", "evidence.extra_evidence=dinco"), "dinco")
    refused(("score", pairs, "--set", "loop.answer=best"), "leave loop.answer out")
    refused(("score", pairs, "--answer-weights", "frozen"), "leave model.answer_weights out")
    refused(("score", pairs, "--set", "method=secl", "--out", tmp_path / "run"), "leave the method 'secl' out")
    assert not (tmp_path / "run").exists()
