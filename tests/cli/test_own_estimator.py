"""`--estimator FILE.py:NAME`: a user's confidence in the tables of recorded runs."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secl.errors import ParameterError
from secl.records import Record
from secl.runs import RunSettings, Store, start_run, summarise
from secl.scores import SCORES
from secl.testing import ScriptedModel
from tests.answers import make_record
from tests.cli.conftest import Shell, scripted_run

MINE = """
import math
from secl.scores import Score

def halved(record):
    return record.confidence / 2

def unknown(record):
    return None if record.position else 0.5

def above(record):
    return 1.5

def missing(record):
    return math.nan

def failing(record):
    return record.nothing

def stated(record):
    return 0.5

def text(record):
    return "0.5"

ready = Score("ready", "Ready made", lambda record: 0.25)
broken = Score("broken", "Broken", lambda record: -1.0)
number = 0.5
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return scripted_run(tmp_path / "run", method="norm_p_true")


def test_a_function_in_a_file_is_a_row_of_the_tables_of_a_recorded_run(shell: Shell, mine: Path, made: Path) -> None:
    flags = [part for name in ("halved", "unknown", "ready") for part in ("--estimator", f"{mine}:{name}")]
    shown = shell("report", made, *flags)
    assert shown.code == 0
    rows = json.loads((made / "summary.json").read_text())["estimators"]
    with Store(made) as store:
        records = list(store.records())
    assert rows["halved"]["mean_confidence"] == pytest.approx(np.mean([r.confidence / 2 for r in records]))
    assert (rows["unknown"]["n"], rows["ready"]["mean_confidence"]) == (1, 0.25)
    for printed in (shown.out, shell("report", made, *flags, "--full").out):
        assert "halved" in printed
        assert "Ready made" in printed
    assert "halved" in (made / "report.html").read_text()
    assert shell("report", made).code == 0
    assert "halved" not in json.loads((made / "summary.json").read_text())["estimators"]


def test_a_function_in_a_file_is_a_side_of_a_comparison(shell: Shell, mine: Path, made: Path) -> None:
    for names in (("norm_p_true", f"{mine}:halved"), (f"{mine}:halved", f"{mine}:ready")):
        command = ("compare", made, *(part for name in names for part in ("--estimator", name)))
        (answer,) = json.loads(shell(*command, "--json").fine.out)["comparisons"]
        assert "halved" in {answer[side]["estimator"] for side in "ab"}
        assert "halved" in shell(*command).out


def test_a_comparison_says_what_a_star_behind_a_name_means_only_beside_fitted_confidences(
    shell: Shell, mine: Path, made: Path
) -> None:
    assert "behind a name" not in shell("compare", made, "--estimator", "stated", "--estimator", f"{mine}:halved").out
    assert "A * behind a name marks a confidence that was fitted to grades." in " ".join(
        shell("compare", made).fine.out.split()
    )


def test_a_function_in_a_file_is_a_row_of_a_check(shell: Shell, refused: Any, mine: Path, tmp_path: Path) -> None:
    questions, folder = tmp_path / "questions.csv", tmp_path / "posterior"
    questions.write_text("question,options,reference\nWhat is 1 plus 1?,2 | 3,2\nWhat is 2 plus 2?,3 | 4,4\n")
    run = start_run(RunSettings.of({"stream.questions": str(questions)}), folder, lambda _: ScriptedModel())
    with run.store:
        run.proceed()
    assert re.search(r"halved +100.0% +\d", shell("check", folder, "--estimator", f"{mine}:halved").out)
    refused(("check", folder, "--estimator", f"{mine}:above"), "'above'", "1.5")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("above", ["'above'", "1.5", "from 0 to 1"]),
        ("missing", ["'missing'", "nan", "from 0 to 1"]),
        ("text", ["'text'", "'0.5'", "from 0 to 1"]),
        ("broken", ["'broken'", "-1.0", "from 0 to 1"]),
        ("failing", ["'failing'", "AttributeError", "nothing"]),
        ("number", ["float", "function of a record"]),
        ("absent", ["defines no absent"]),
    ],
)
def test_an_estimator_that_gives_no_probability_is_refused_in_one_sentence(
    refused: Any, mine: Path, made: Path, name: str, words: list[str]
) -> None:
    refused(("report", made, "--estimator", f"{mine}:{name}"), *words)
    refused(("compare", made, "--estimator", "norm_p_true", "--estimator", f"{mine}:{name}"), *words)


def test_a_file_that_cannot_be_read_and_names_of_built_in_confidences_are_refused(
    refused: Any, mine: Path, made: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def halved(:\n")
    refused(("report", made, "--estimator", f"{tmp_path / 'no.py'}:halved"), "there is no file", "no.py")
    refused(("report", made, "--estimator", f"{bad}:halved"), "SyntaxError")
    refused(("report", made, "--estimator", "posterior"), "'posterior'", "FILE.py:NAME")
    refused(("report", made, "--estimator", f"{mine}:stated"), "'stated'", "rename")


def test_summaries_take_functions_beside_scores() -> None:
    records = [make_record(number, correct=number % 2 == 0) for number in range(4)]

    def single(record: Record) -> float | None:
        return np.float32(0.25) if record.position < 3 else None  # type: ignore[return-value]

    found = summarise(records, [SCORES["stated"], single], intervals=False).estimators
    assert list(found) == ["stated", "single"]
    assert (found["single"].n, found["single"].mean_confidence, found["single"].accuracy) == (3, 0.25, 2 / 3)
    with pytest.raises(ParameterError, match="returned True for question '0'; it must return a number from 0 to 1"):
        summarise(records, [lambda _: True])
