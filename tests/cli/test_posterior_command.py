"""`--method posterior` from the shell, on a model that follows a script: flags, files, sweeps, exports and reports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import secl.cli.run as demo
from secl.evidence import CandidateEvidence, Likelihood
from secl.grading import grade
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.effect import ROWS
from secl.reports.formatting import number
from secl.runs import runner
from secl.runs.encoding import from_plain
from secl.runs.store import Store
from secl.testing import ScriptedModel, toy_stream, unit
from tests.cli.conftest import Shell


class Loaded(ScriptedModel):
    """A scripted model with what a run records of a loaded one, whose texts know what is right."""

    def check(self, question: Question) -> None:
        """Nothing is too long for it."""

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        evidence = super().compare_candidates(question, reply)
        if evidence is None:
            return None
        known = [option == question.option(str(question.reference)) for option in question.options]
        noise = [6 * unit(f"t/{question.id}/{option}") for option in question.options]
        texts = [
            Likelihood(given=3.0 * right + x - 20, alone=-20.0, tokens=2) for right, x in zip(known, noise, strict=True)
        ]
        return replace(evidence, likelihoods=tuple(texts))


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_model", lambda _settings: Loaded())


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A question file with sixty multiple-choice questions."""
    rows = [
        {"question": q.text, "options": q.options, "reference": q.reference, "domain": q.domain} for q in toy_stream(60)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def done(shell: Shell, mine: Path, tmp_path: Path) -> Callable[..., tuple[list[Record], dict[str, Any], str]]:
    """A run with flags: its records, its summary and what it printed."""

    def run(*flags: object) -> tuple[list[Record], dict[str, Any], str]:
        folder = tmp_path / "out"
        ended = shell("run", "--questions", mine, "--method", "posterior", "--out", folder, *flags)
        assert (ended.code, ended.err) == (0, "")
        with Store(folder) as store:
            return list(store.records()), json.loads((folder / "summary.json").read_text()), ended.out

    return run


def test_flags_reach_the_posterior(done: Any) -> None:
    flags = ("--views", "letters,likelihood,p_true", "--answer", "best")
    records, summary, _ = done(*flags)
    last = records[-1].posterior
    # The scripted P(True) has no P(False), so it is asked but gives no view.
    assert [view for view, _ in last.weights] == ["letters", "likelihood"]
    assert (last.questions, records[7].posterior.questions) == (59, 7)
    assert all(record.answers_best and record.evidence.p_true is not None for record in records)
    assert (summary["without_posterior"], summary["answered_best"]) == (0, 60)
    assert summary["best_changed"] == sum(record.best_answer != record.reply.answer for record in records) > 0


def test_the_summary_has_the_posterior_of_own_and_of_best_answers(done: Any) -> None:
    records, summary, _ = done()
    own, best = (summary["estimators"][name] for name in ("posterior", "posterior_best"))
    assert own["accuracy"] == sum(record.correct for record in records) / 60
    assert best["accuracy"] == sum(bool(grade(r.question, r.best_answer)) for r in records) / 60 > own["accuracy"]
    assert summary["answered_best"] == 0


def test_an_export_has_the_posterior_of_own_and_best_answers(done: Any, shell: Shell, tmp_path: Path) -> None:
    records, *_ = done("--answer", "best")
    rows = list(csv.DictReader(io.StringIO(shell("export", tmp_path / "out", "--format", "csv", "--out", "-").out)))
    for row, record in zip(rows, records, strict=True):
        posterior = record.posterior
        assert float(row["posterior"]) == posterior.confidence
        assert float(row["posterior_best"]) == max(posterior.probabilities)
        assert row["best_answer"] == record.best_answer
        assert (row["answer"], float(row["confidence"])) == (record.best_answer, record.confidence)
        assert row["correct"] == str(record.best_answer == record.question.reference)
        assert (row["own_answer"], row["own_correct"]) == (record.reply.answer, str(record.correct))
        assert float(row["stated_confidence"]) == record.reply.confidence
    assert any(row["answer"] != row["own_answer"] for row in rows)
    lines = [json.loads(line) for line in shell("export", tmp_path / "out", "--out", "-").out.splitlines()]
    assert [(line["answer"], line["confidence"]) for line in lines] == [(r.best_answer, r.confidence) for r in records]
    assert [from_plain(line) for line in lines] == records


def test_an_extra_kind_of_evidence_adds_its_confidences_to_any_method(shell: Shell, mine: Path, tmp_path: Path) -> None:
    flags = ("--method", "secl", "--evidence-on", "always", "--extra-evidence", "candidates")
    assert shell("run", "--questions", mine, "--out", tmp_path / "out", *flags).code == 0
    estimators = json.loads((tmp_path / "out" / "summary.json").read_text())["estimators"]
    assert {"stated", "norm_p_true", "secl", "likelihood", "posterior", "posterior_best"} <= set(estimators)
    assert not {"self_consistency", "dinco"} & set(estimators)


def test_the_demo_ends_with_what_the_posterior_changes(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(demo.DEMO, "benchmarks", ("capitals:40", "science:40"))
    ended = shell("demo", "--out", tmp_path / "demo")
    assert (ended.code, ended.err) == (0, "")
    assert (
        max(map(len, ended.out[ended.out.index("What the posterior") : ended.out.index("pictures:")].splitlines()))
        <= 80
    )
    rows = json.loads((tmp_path / "demo" / "summary.json").read_text())["estimators"]
    effect = ended.out[ended.out.index("What the posterior changes") :].splitlines()
    for name, title in ROWS.items():
        row, (line,) = rows[name], [line for line in effect if line.startswith(f"{title}  ")]
        numbers = [number(row[key], 3) for key in ("brier", "ece", "ece_floor", "auroc")]
        assert line.removeprefix(title).split() == [f"{100 * row['accuracy']:.1f}%", *numbers]
    words = " ".join(effect)
    assert f"candidates are right {100 * rows['posterior_best']['accuracy']:.1f}% of the time" in words
    assert effect[-2:] == [
        f"pictures: {tmp_path / 'demo' / 'reliability.png'} and {tmp_path / 'demo' / 'posterior.png'}",
        f"run folder: {tmp_path / 'demo'}",
    ]


def test_a_sweep_varies_the_posterior(shell: Shell, mine: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "sweep.toml"
    recipe.write_text(
        f'method = "posterior"\nanswer = "best"\nquestions = "{mine}"\n'
        '[grid]\nviews = [["letters"], ["letters", "likelihood"]]\n'
    )
    ended = shell("sweep", recipe, "--out", tmp_path / "sweep")
    assert (ended.code, ended.err) == (0, "")
    views = []
    for folder in sorted(path for path in (tmp_path / "sweep").iterdir() if path.is_dir()):
        with Store(folder) as store:
            posterior = list(store.records())[-1].posterior
            assert posterior is not None
            views.append([view for view, _ in posterior.weights])
    assert sorted(views) == [["letters"], ["letters", "likelihood"]]


def test_equal_options_are_a_warning_and_equally_probable(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [
        {"id": "even", "question": "2+2?", "options": ["5", "4", "4"], "reference": "4"},
        {"id": "odd", "question": "1+2?", "options": ["3", "4"], "reference": "A"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    ended = shell("run", "--questions", path, "--method", "posterior", "--out", tmp_path / "out")
    assert "warning: 1 question with equal options ('even'); they get the same" in ended.out
    with Store(tmp_path / "out") as store:
        posterior = next(store.records()).posterior
    assert posterior is not None
    assert posterior.probabilities[1] == posterior.probabilities[2]
