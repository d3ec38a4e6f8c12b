"""`secl demo` from the shell, on a model that follows a script, and its numbers on real weights."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from secl.cli import demo
from secl.display import percent
from secl.runs.store import Store
from secl.scores import SCORES, Series
from tests.cli.conftest import Shell


def surest_wrong(folder: Path, name: str) -> float:
    """Share of wrong answers among the surest fifth, counted one by one."""
    with Store(folder) as store:
        rated = [(SCORES[name].of(each), each, SCORES[name].answer(each)) for each in store.records()]
    surest = sorted(rated, key=lambda each: -(each[0] or 0.0))[: round(len(rated) / 5)]
    return sum(answer != each.question.reference for _, each, answer in surest) / len(surest)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(demo.QUIZ, "stream.benchmarks", ("capitals:20", "science:20"))
    return tmp_path / "runs" / "demo"


@pytest.mark.usefixtures("scripted")
def test_the_demo_shows_five_questions_the_surest_fifth_classes_and_a_text(shell: Shell, place: Path) -> None:
    ended = shell("demo").fine
    lines = ended.out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    text = " ".join(ended.out.split())
    positions = [
        text.index(title) for title in ("Five questions", "All 40 questions", "Five classes", "A text", "page:")
    ]
    assert positions == sorted(positions)
    ours, stated = (f"{100 * surest_wrong(place, name):.2g}%" for name in ("posterior_best", "stated"))
    assert f"Accept the surest fifth: {ours} wrong. By the model's own word: {stated} wrong." in text
    assert "Of 40 messages, the model's own choices are right for" in text
    five = text[text.index("at equal steps") : text.index("All 40")]
    assert len(re.findall(r"\b(?:right|wrong)\b", five)) == 10
    rows = json.loads((place / "summary.json").read_text())["estimators"]
    for who, name in (("the model states", "stated"), ("secl says", "posterior_best")):
        shares = " ".join(percent(rows[name][key]) for key in ("accuracy", "mean_confidence"))
        assert f"{who} {shares} {rows[name]['brier']:.3f} {rows[name]['auroc']:.3f}" in text
    page = (place / "report.html").read_text()
    assert page.index("Five questions") < page.index("A text") < page.index("Result")


@pytest.mark.usefixtures("scripted")
def test_the_demo_continues_and_shows_the_same_again(shell: Shell, place: Path) -> None:
    first = shell("demo").fine
    assert shell("demo").fine.out == first.out
    assert {each.name for each in place.iterdir() if each.is_dir()} >= {"classes", "text"}


@pytest.mark.usefixtures("scripted")
def test_the_demo_refuses_the_folder_of_another_run(shell: Shell, place: Path) -> None:
    assert shell("run", "--benchmarks", "capitals:3", "--method", "stated", "--out", place).fine
    refused = shell("demo")
    assert refused.code == 2
    assert "has another run (" in refused.err
    assert "name another folder with --out." in refused.err
    assert not (place / "classes").exists()


def test_the_surest_are_the_most_confident_graded_answers() -> None:
    confidence = np.array([0.1, 0.9, 0.8, 0.2, 0.3, 0.95, 0.4, 0.5, 0.6, 0.7])
    right = np.array([0, 0, 1, 1, 1, 1, 1, 1, 1, 1.0])
    assert demo.wrong_among_surest(Series(np.arange(10), confidence, right)) == 0.5
    right[1] = math.nan
    assert demo.wrong_among_surest(Series(np.arange(10), confidence, right)) == 0.0
    assert math.isnan(demo.wrong_among_surest(Series()))
