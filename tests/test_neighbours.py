"""The examples for other libraries, each run by a Python that has that library; they skip where it has not.

SECL_NEIGHBOURS=ENV/bin/python python -m pytest tests/test_neighbours.py      # else the Python of the tests
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import secl
from secl.data.streams import load_stream
from tests.conftest import ROOT

pytestmark = pytest.mark.heavy

PYTHON = os.environ.get("SECL_NEIGHBOURS", sys.executable)
COUNT = 6
FOUND = re.compile(
    r"SeclUncertainty (?P<uncertainty>[0-9.]+)  MaximumSequenceProbability [0-9.]+  "
    r"(?P<question>.+?)  ->  (?P<answer>.+)"
)
"""A line of the example for lm-polygraph."""


def needs(package: str) -> pytest.MarkDecorator:
    """Skip where the package cannot be imported."""
    asked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    missing = subprocess.run([PYTHON, "-c", asked], check=False).returncode != 0
    return pytest.mark.skipif(missing, reason=f"needs {package} (set SECL_NEIGHBOURS to a Python that has it)")


def output(*command: object) -> str:
    """What a command prints, in the root of the project with its sources."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=600
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def read_log(folder: Path) -> dict[str, Any]:
    """The only log of inspect_ai in a folder."""
    (file,) = folder.glob("*.eval")
    log: dict[str, Any] = json.loads(output(Path(PYTHON).with_name("inspect"), "log", "dump", file))
    return log


@pytest.fixture(scope="module")
def records(tiny_llama: Path) -> list[secl.Record]:
    """What this library alone says to the questions of the examples, which pass on neither ids nor domains."""
    asked = [
        secl.Question(question.text, options=question.options, reference=question.reference)
        for question in load_stream(["capitals", "science"], COUNT // 2)
    ]
    calibrator = secl.Calibrator.load(str(tiny_llama), method="posterior")
    return list(calibrator.run(asked))


@needs("inspect_ai")
def test_a_solver_of_inspect_answers_with_confidences_and_its_scorer_measures_them(
    tiny_llama: Path, tmp_path: Path, records: list[secl.Record]
) -> None:
    script, settings = "examples/with_inspect_ai.py", ["-T", f"model={tiny_llama}", "-T", f"count={COUNT}"]
    inspect = Path(PYTHON).with_name("inspect")
    output(inspect, "eval", script, "--model", "none", "--log-dir", tmp_path, "--max-samples", 1, *settings)
    log = read_log(tmp_path)
    assert log["status"] == "success"
    for sample, record in zip(log["samples"], records, strict=True):
        score = sample["scores"]["calibration"]
        assert sample["input"] == record.question.text
        assert (score["answer"], score["value"]) == (record.answer, record.correct)
        assert score["metadata"]["confidence"] == pytest.approx(record.confidence, abs=1e-3)
    measures = secl.measure([each.confidence for each in records], [bool(each.correct) for each in records])
    metrics = {name: metric["value"] for name, metric in log["results"]["scores"][0]["metrics"].items()}
    assert metrics == pytest.approx(
        {"accuracy": measures.accuracy, "brier": measures.brier, "ece": measures.ece}, abs=1e-3
    )


@needs("inspect_ai")
def test_a_run_becomes_a_log_of_inspect(tiny_llama: Path, tmp_path: Path) -> None:
    settings = {"model": str(tiny_llama), "benchmarks": ("capitals:4", "arithmetic:2"), "method": "posterior"}
    run = tmp_path / "mine"
    running = secl.start_run(secl.RunSettings.of(settings), run)
    running.proceed()
    running.store.close()
    script = ROOT / "examples" / "with_inspect_view.py"
    assert output(PYTHON, script, run, tmp_path / "logs").strip() == f"wrote {tmp_path / 'logs' / 'mine.eval'}"
    log = read_log(tmp_path / "logs")
    with secl.Store(run) as store:
        expected = list(store.records())
    assert [sample["metadata"]["question"] for sample in log["samples"]] == [each.question.id for each in expected]
    for sample, record in zip(log["samples"], expected, strict=True):
        assert sample["scores"]["confidence"]["value"] == record.confidence
        assert sample["scores"]["correct"]["value"] == record.correct
        assert sample["target"] == record.question.reference
    assert log["results"]["scores"][0]["metrics"]["brier"]["value"] > 0


@needs("lm_eval")
def test_lm_eval_measures_the_posterior(tiny_llama: Path, records: list[secl.Record]) -> None:
    said = output(PYTHON, ROOT / "examples" / "with_lm_eval.py", tiny_llama, COUNT)
    results = json.loads(said.splitlines()[-1])
    right = total = 0.0
    for record in records:
        assert record.posterior is not None
        gold = record.question.letters.index(str(record.question.reference))
        right += record.posterior.best == gold
        total += sum((p - (i == gold)) ** 2 for i, p in enumerate(record.posterior.probabilities))
    assert results["acc,none"] == pytest.approx(right / COUNT)
    assert results["brier_score,none"] == pytest.approx(total / COUNT, abs=1e-3)


@needs("lm_polygraph")
def test_lm_polygraph_gets_what_this_library_says_of_an_answer(tiny_llama: Path) -> None:
    lines = output(PYTHON, ROOT / "examples" / "with_lm_polygraph.py", tiny_llama, tiny_llama).splitlines()
    found = [FOUND.fullmatch(line) for line in lines if line.startswith("SeclUncertainty")]
    assert len(found) == 3
    calibrator = secl.Calibrator.load(str(tiny_llama))
    for match in found:
        assert match is not None
        record = calibrator.score(match["question"], ast.literal_eval(match["answer"]))
        assert float(match["uncertainty"]) == pytest.approx(1 - record.confidence, abs=2e-3)
