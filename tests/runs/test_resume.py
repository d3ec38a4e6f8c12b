"""A run that is killed at any moment and resumed is the run that was not."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl.data.quiz import quiz
from secl.runs.folder import FILE
from secl.runs.runner import SUMMARY
from tests.answers import give_labels, stored
from tests.processes import MOMENTS, finish, start
from tests.tiny import tiny_folder

pytestmark = pytest.mark.heavy

QUESTIONS = 28
PAIRS = ("method=secl", "gate.burst=6", "gate.warmup=4", "gate.threshold=1", "loop.bin_gate=off")
SETTINGS = [part for pair in PAIRS for part in ("--set", pair)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six layers, one of them adapted: a token through the top alone counts a sixth, which no float holds exactly."""
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny", num_hidden_layers=6)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A question file of two domains with a few open questions among them."""
    path = tmp_path_factory.mktemp("questions") / "mine.jsonl"
    asked: list[dict[str, Any]] = []
    for domain in ("capitals", "science"):
        for question in quiz(domain, QUESTIONS // 2 - 1, 5):
            asked.append({"question": question.text, "options": question.options, "domain": domain})
        asked.append({"question": f"Name a word of {domain}.", "reference": "word", "domain": domain})
    path.write_text("\n".join(map(json.dumps, asked)))
    return path


class Case:
    """One recipe, run without interruption once."""

    def __init__(self, folder: Path, *settings: object) -> None:
        self.settings, self.folder = settings, folder
        self.log, self.whole = folder / "log", folder / "whole"

    def start_in(self, run: Path, **how: Any) -> Any:
        return start(self.log, "run", "--out", run, *self.settings, **how)

    def resume(self, run: Path, *changes: object, **how: Any) -> Any:
        return start(self.log, "run", "--resume", run, *changes, **how)

    def said(self) -> str:
        return self.log.read_text().strip().splitlines()[-1]


COMPARED = ("--set", "evidence.extra_evidence=candidates", "--set", "loop.evidence_on=always")
KINDS: dict[str, tuple[object, ...]] = {
    "stream": (),
    "calibration": (),
    "posterior": COMPARED,
    "thoughts": (*COMPARED, "--thinking", "3"),
}


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, model: Path, mine: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    open_too = request.param in ("posterior", "thoughts")
    source = ("--questions", mine) if open_too else ("--benchmarks", "capitals:14,science:14")
    folder, kind = tmp_path_factory.mktemp(request.param), KINDS[request.param]
    if request.param == "calibration":
        taught = Case(folder, "--model", model, "--benchmarks", "science:9", *SETTINGS)
        assert finish(taught.start_in(folder / "taught")) == 0, taught.said()
        give_labels(folder / "taught", lambda position: position % 3 == 0)
        kind = ("--calibration", folder / "taught")
    made = Case(folder, "--model", model, *source, *SETTINGS, *kind)
    assert finish(made.start_in(made.whole)) == 0, made.said()
    return made


def rows(run: Path) -> dict[str, list[Any]]:
    """Everything a run recorded but the clock."""
    db = sqlite3.connect(run / FILE)
    found = {
        table: db.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()
        for table, columns in (("records", "position, body"), ("versions", "*"), ("learner", "*"))
    }
    said = "number, position, correct, confidence, domain, reported, source, chance"
    found["labels"] = db.execute(f"SELECT {said} FROM labels ORDER BY 1").fetchall()
    db.close()
    return found


def assert_same(run: Path, whole: Path) -> None:
    found, wanted_rows = rows(run), rows(whole)
    for table in found:
        assert found[table] == wanted_rows[table], table
    adapters = [{path.name: path.read_bytes() for path in (folder / "adapter").glob("*")} for folder in (run, whole)]
    assert adapters[0] == adapters[1]
    summaries = [json.loads((folder / SUMMARY).read_text()) for folder in (run, whole)]
    assert all(summary["complete"] for summary in summaries)
    assert {**summaries[0], "seconds": None} == {**summaries[1], "seconds": None}


@pytest.mark.slow
def test_a_run_that_dies_at_every_kind_of_moment_and_is_resumed_is_the_same_run(case: Case) -> None:
    run = case.folder / "dying"
    chance = random.Random(7)
    for moment in MOMENTS:
        go_on = case.resume if (run / FILE).exists() else case.start_in
        assert finish(go_on(run, die=(moment, chance.randrange(1, 6)))) == -signal.SIGKILL, case.said()
    assert finish(case.resume(run)) == 0, case.said()
    assert_same(run, case.whole)


def test_ctrl_c_ends_in_one_sentence_and_the_run_goes_on_elsewhere(model: Path, mine: Path, tmp_path: Path) -> None:
    case, run = Case(tmp_path, "--model", model, "--questions", mine, *SETTINGS), tmp_path / "begun"
    assert finish(case.start_in(run, die=("learned", 3), of=signal.SIGINT)) == 2
    sentence = f"secl: stopped after 3 of {QUESTIONS} questions, all recorded; "
    assert case.said() == f"{sentence}continue with: secl run --resume {run}"
    with closing(sqlite3.connect(run / FILE)) as db, db:
        assert db.execute("SELECT COUNT(*) FROM records").fetchone() == (3,)
        other = "UPDATE manifest SET value = json_set(value, '$.processor', 'another') WHERE key = 'environment'"
        db.execute(other)
    assert finish(case.resume(run, *case.settings, "--device", "cpu")) == 0, case.said()
    said = case.log.read_text()
    assert said.count("was begun elsewhere (processor: another there, ") == 1
    assert "the last digits of later records may differ" in said
    assert "Traceback" not in said
    before = rows(run)
    (run / SUMMARY).unlink()
    assert finish(case.resume(run)) == 0, case.said()  # a finished run is only reported
    assert rows(run) == before
    assert json.loads((run / SUMMARY).read_text())["complete"]
    assert case.said().startswith("next: ")
    assert str(run) in case.said()
    records = stored(run)
    assert [record.position for record in records] == list(range(QUESTIONS))
    assert "trained" in {record.outcome for record in records}
