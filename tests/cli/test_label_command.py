"""`secl label`: a review in the terminal, stored word by word."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from secl.runs.labelling import add_label, queue
from secl.runs.store import Store
from tests.cli.conftest import Shell


@pytest.fixture
def reviewed(shell: Shell, tmp_path: Path, scripted: None) -> Path:
    """A finished run of twelve questions of two domains."""
    run = tmp_path / "run"
    assert shell("run", "--benchmarks", "capitals:6,science:6", "--method", "stated", "--out", run).code == 0
    return run


@pytest.fixture
def say(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `secl label` with so many lines from the keyboard."""

    def run(words: str, *arguments: object) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{word}\n" for word in words.split("|"))))
        return shell("label", *arguments)

    return run


def said(run: Path) -> list[bool | None]:
    with Store(run) as store:
        return [label.correct for label in store.label_log()]


def test_a_review_is_stored_and_goes_on_where_it_ended(say: Any, reviewed: Path) -> None:
    ended = say("y|n|maybe|s|q", reviewed)
    assert (ended.code, ended.err) == (0, "")
    assert "1 of 12" in ended.out
    assert ended.out.count("Is it right?") == 5
    assert "2 labels: 1 right, 1 wrong." in ended.out
    assert "Confidence:" not in ended.out
    assert said(reviewed) == [True, False]
    ended = say("n|q", reviewed)
    assert "1 of 10 " in ended.out
    with Store(reviewed) as store:
        labels = store.labels()
    assert len({label.position for label in labels}) == 3
    assert {(label.source, label.chance, label.correct) for label in labels} == {
        ("review", 1.0, correct) for correct in (True, False)
    }
    ended = say("Yes|unsure|none|yesterday|wrong|NO|u|undo|quit", reviewed)  # only the words of the keys are replies
    assert ended.out.count("Is it right?") == 9
    assert said(reviewed) == [True, False, False, True, False, None, None]
    say("no idea|skip|q", reviewed)
    assert len(said(reviewed)) == 7


def test_undo_takes_the_last_word_back_and_asks_again(say: Any, refused: Any, reviewed: Path, tmp_path: Path) -> None:
    ended = say("u|y|u|n|q", reviewed)
    assert ended.code == 0
    assert said(reviewed) == [True, None, False]
    assert "1 label: 0 right, 1 wrong." in ended.out
    with Store(reviewed) as store:
        (label,) = store.labels()
    assert "is taken back" in say("", reviewed, "--undo", label.position).out
    assert said(reviewed) == [True, None, False, None]
    refused(("label", tmp_path / "nosuch"), "is not a run folder")
    refused(("label", reviewed, "--undo", 99), "no record 99", "12")
    refused(("label", reviewed, "--undo", 10**20), f"no record {10**20}", "12")
    refused(("label", reviewed, "--undo", label.position), "nothing to take back")


@pytest.mark.usefixtures("scripted")
def test_the_report_of_a_resumed_run_and_a_comparison_count_its_labels(shell: Shell, tmp_path: Path) -> None:
    rows = "".join(f'{{"question": "Number {n}?", "options": ["x", "y"]}}\n' for n in range(40))
    (tmp_path / "mine.jsonl").write_text(rows)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        run = ("run", "--questions", tmp_path / "mine.jsonl", "--method", "stated", "--out", folder)
        assert shell(*run).code == 0
        with Store(folder, writable=True) as store:
            for position in queue(store)[:30]:
                add_label(store, store.record(position), position % 3 == 0)
    resumed = shell("run", "--resume", folders[0])
    assert resumed.code == 0, resumed.err
    assert json.loads((folders[0] / "summary.json").read_text())["unlabelled"] == 10
    assert "No answer has a label" not in resumed.out
    compared = shell("compare", *folders, "--json")
    assert compared.code == 0, compared.err
    assert json.loads(compared.out)["graded"] == 30


@pytest.mark.usefixtures("scripted")
def test_ask_takes_over_what_labels_taught_and_compares_thresholds_before_them(shell: Shell, tmp_path: Path) -> None:
    run, question = tmp_path / "run", ("ask", "Which one?", "--option", "x", "--option", "y", "--json")
    asked = ("run", "--benchmarks", "capitals:12", "--method", "posterior", "--answer", "best")
    assert shell(*asked, "--out", run).code == 0
    before = json.loads(shell(*question).out)["confidence"]
    refused = shell(*question, "--calibration", run)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "has no labels" in refused.err
    with Store(run, writable=True) as store:
        for position in queue(store):
            add_label(store, store.record(position), False)
    after = json.loads(shell(*question, "--calibration", run, "--accept", before).out)
    assert after["confidence"] < before
    assert after["accepted"]
    # Labels of answers from elsewhere calibrate no answers of the model.
    (tmp_path / "given.csv").write_text("question,answer\nCapital of Peru?,Lima\n")
    assert shell("score", tmp_path / "given.csv", "--out", tmp_path / "scored").code == 0
    with Store(tmp_path / "scored", writable=True) as store:
        add_label(store, store.record(0), True)
    ended = shell(*asked, "--out", tmp_path / "asked", "--calibration", tmp_path / "scored")
    assert (ended.code, "answers: score there, ask here" in ended.err) == (2, True)
