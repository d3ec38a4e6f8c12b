"""`secl score`, `secl demo` and the posterior from the shell: tables, JSON, run folders, and what cannot be rated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import secl.cli.run as demo
from secl import Question
from secl.evaluation.estimators import ESTIMATORS
from secl.evidence import Posterior
from secl.reports.run_report import command
from secl.runs.recipes import score_settings
from secl.settings.names import with_set
from secl.testing import toy_stream
from tests.answers import stored
from tests.cli.conftest import Shell, ask_file

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
def test_table_json_and_run_agree(shell: Shell, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = shell("score", pairs).fine
    lines = ended.out.splitlines()
    assert lines[1].split() == ["Question", "Answer", "Confidence", "(frozen)", "P(True)", "PMI", "Grade"]
    answers = ("B. Mercury", "C. Mars", "Lima", "[red]Elvis[/red]")
    for line, answer, verdict in zip(lines[3:], answers, ("", "wrong", "right", "wrong"), strict=False):
        assert answer in line
        assert line.rstrip().endswith(verdict)
    assert "Confidence: the posterior of the answer among its rivals, for " in ended.out
    assert "verdict: unproven (" in ended.out
    rows = json.loads(shell("score", pairs, "--json").out)["answers"]
    assert [row["answer"] for row in rows] == ["B", "C", "Lima", "[red]Elvis[/red]"]
    assert [row["correct"] for row in rows] == [None, False, True, False]
    assert shell("score", pairs, "--out", tmp_path / "run").code == 0
    for row, record in zip(rows, stored(tmp_path / "run"), strict=True):
        assert (row["confidence"], row["reply"]["stated"]) == (record.confidence, record.reply.stated)
        compared = record.evidence.candidates
        assert compared is not None
        own = record.question.letters.index(row["answer"]) if record.question.options else 0
        likelihood = compared.likelihoods[own]
        assert (likelihood is None) is (not record.question.options)  # an open answer is compared with further ones
        assert row["pmi"] == (None if likelihood is None else likelihood.given - likelihood.alone)
    assert "unlisted" not in ended.out
    monkeypatch.setattr(Posterior, "unlisted", True)
    assert "For 4 answers an unlisted answer is the most probable: the model would" in shell("score", pairs).out


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


@pytest.mark.usefixtures("scripted")
def test_flags_reach_the_posterior_and_equal_options_are_equally_probable(shell: Shell, tmp_path: Path) -> None:
    equal = Question("2+2?", ("5", "4", "4"), "B")
    mine, folder = ask_file(tmp_path / "mine.jsonl", [*toy_stream(60), equal]), tmp_path / "out"
    flags = ("--set", "posterior.views=letters,likelihood,p_true", "--answer", "best")
    ended = shell("run", "--questions", mine, "--method", "posterior", "--out", folder, *flags)
    assert ended.code == 0
    assert ended.err == f"warning: {mine}: question 'mine-0061' has an option twice; equal options count as one.\n"
    records = stored(folder)
    posteriors = [record.posterior for record in records if record.posterior is not None]
    assert posteriors[60].probabilities[1] == posteriors[60].probabilities[2]
    # The scripted P(True) has no P(False), so it is asked but gives no view.
    assert [view for view, _ in posteriors[59].weights] == ["letters", "likelihood"]
    assert all(record.answers_best and record.evidence.p_true is not None for record in records)
    assert json.loads((folder / "summary.json").read_text())["answered_best"] == 61
    assert any(record.best_answer != record.reply.answer for record in records)


@pytest.mark.usefixtures("scripted")
def test_the_demo_ends_in_one_screen(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(demo.DEMO, "stream.benchmarks", ("capitals:40", "science:40"))
    ended = shell("demo").fine
    lines = ended.out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert "80 questions answered." in lines
    rows = json.loads((tmp_path / "runs" / "demo" / "summary.json").read_text())["estimators"]
    for name in ("stated", "posterior", "posterior_best", "secl"):
        row, title = rows[name], ESTIMATORS[name].title
        shares = [f"{100 * row[key]:.1f}%" for key in ("accuracy", "mean_confidence")]
        cells = f"{title} {' '.join(shares)} {row['brier']:.3f} {row['auroc']:.3f}"
        assert cells in [" ".join(line.split()) for line in lines]
    assert (tmp_path / "runs" / "demo" / "report.html").exists()


def test_useless_settings_are_left_out_and_others_reach_the_run(shell: Shell, begun: list[Any], pairs: Path) -> None:
    useless = {"loop.answer": "best", "model.answer_weights": "frozen", "loop.accept": 0.8}  # of an older run
    recipe = score_settings(Path("a.csv"), useless)
    assert command(recipe, "score") == "secl score a.csv --model smollm2 --accept 0.8 --out NEW"
    for pair in ("seed=3", "stream.order=reversed", "loop.accept=0.9"):
        shell("score", pairs, "--set", pair, "--out", "NEW")
        settings, _ = begun.pop()
        assert settings == score_settings(pairs, with_set(None, (pair,)))
        assert settings != score_settings(pairs, {})


def test_flags_that_do_not_go_together_are_refused(pairs: Path, tmp_path: Path, refused: Any) -> None:
    for arguments, *words in (
        (("--json", "--out", tmp_path / "run"), "--json", "--out"),
        (("--set", "evidence.extra_evidence=dinco"), "dinco"),
        (("--set", "loop.answer=best"), "leave loop.answer out"),
    ):
        refused(("score", pairs, *arguments), *words)
    refused(("score", tmp_path / "nothing.csv"), "nothing.csv")

    pairs.write_text("question,A,B,answer\nCapital of France?,Rome,Paris,Paris\nCapital of Italy?,Rome,Pisa,Oslo\n")
    refused(("score", pairs), "line 3 cannot be rated", "none of its options")
