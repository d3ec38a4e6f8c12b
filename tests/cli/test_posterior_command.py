"""`--method posterior` from the shell, on a model that follows a script: flags, files, sweeps, exports and reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import secl.cli.run as demo
from secl.evaluation.estimators import ESTIMATORS
from secl.evidence import CandidateEvidence, Likelihood
from secl.question import Question
from secl.records import Reply
from secl.runs import runner
from secl.runs.store import Store
from secl.testing import ScriptedModel, toy_stream, unit
from tests.cli.conftest import Shell, ask_file


class Knowing(ScriptedModel):
    """Its texts know what is right."""

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        evidence = super().compare_candidates(question, reply)
        if evidence is None:
            return None
        right = question.option(str(question.reference))
        given = [3.0 * (text == right) + 6 * unit(f"t/{question.id}/{text}") - 20 for text in question.options]
        return replace(evidence, likelihoods=tuple(Likelihood(given=each, alone=-20.0, tokens=2) for each in given))


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_model", lambda _settings: Knowing())


def test_flags_reach_the_posterior_and_equal_options_are_equally_probable(shell: Shell, tmp_path: Path) -> None:
    equal = Question("2+2?", ("5", "4", "4"), "B")
    mine, folder = ask_file(tmp_path / "mine.jsonl", [*toy_stream(60), equal]), tmp_path / "out"
    flags = ("--set", "posterior.views=letters,likelihood,p_true", "--answer", "best")
    ended = shell("run", "--questions", mine, "--method", "posterior", "--out", folder, *flags)
    assert (ended.code, ended.err) == (0, "")
    with Store(folder) as store:
        records = list(store.records())
    posteriors = [record.posterior for record in records if record.posterior is not None]
    assert len(posteriors) == 61
    assert posteriors[60].probabilities[1] == posteriors[60].probabilities[2]
    # The scripted P(True) has no P(False), so it is asked but gives no view.
    assert [view for view, _ in posteriors[59].weights] == ["letters", "likelihood"]
    assert (posteriors[59].questions, posteriors[7].questions) == (59, 7)
    assert all(record.answers_best and record.evidence.p_true is not None for record in records)
    assert json.loads((folder / "summary.json").read_text())["answered_best"] == 61
    assert any(record.best_answer != record.reply.answer for record in records)


def test_the_demo_ends_in_one_screen(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(demo.DEMO, "stream.benchmarks", ("capitals:40", "science:40"))
    ended = shell("demo")
    assert (ended.code, ended.err) == (0, "")
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
