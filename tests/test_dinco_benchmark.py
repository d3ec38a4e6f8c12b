"""DINCO by its authors' script against ours: `python -m benchmarks.peers --dinco FOLDER`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import writing
from benchmarks.peers.__main__ import main
from benchmarks.peers.dinco import agreement, difference_of_nvc, ours_on, save_stand_in
from benchmarks.peers.dinco_ours import rated
from benchmarks.peers.dinco_published import program
from secl.backends.local.model import LocalModel
from secl.backends.local.nli import NliModel
from secl.question import Question

pytestmark = pytest.mark.heavy

QUESTION = Question("What is the capital of Peru?")
ROW: dict[str, Any] = {
    "candidates": ["Lima", "Cusco", "the city of Cusco"],
    "p_yes": [0.8, 0.6, 0.3],
    "entails": [[-1, 0.2, 0.1], [0.3, -1, 0.5], [0.1, 0.25, -1]],  # as the script writes it: -1 for itself
    "contradicts": [[-1, 0.7, 0.4], [0.5, -1, 0.0], [0.2, 0.1, -1]],
    "agreement": [1.0, 0.95, 0.9, 0.2, 0.0],
}
NVC = 0.8 / (0.8 + 0.6 * 0.6 / (1 + 0.25) + 0.3 * 0.3 / (1 + 0.5))


def test_our_formula_reads_the_evidence_of_the_script() -> None:
    assert ours_on(QUESTION, ROW) == pytest.approx((NVC + 3 / 6) / 2)
    assert difference_of_nvc({**ROW, "nvc": NVC + 0.25}) == pytest.approx(0.25)


def test_agreement_is_of_the_formula_on_the_same_evidence_and_of_the_whole_procedures() -> None:
    theirs = [{**ROW, "confidence": (NVC + 0.5) / 2 + shift} for shift in (0.0, 0.01, 0.02)]
    ours = [{"answer": "lima.", "confidence": 0.1}, {"answer": "Quito", "confidence": 0.3}]
    found = agreement([QUESTION] * 3, theirs, [*ours, {"answer": None, "confidence": None}])
    assert found["largest_difference_on_their_evidence"] == pytest.approx(0.02)
    assert (found["questions"], found["rank_correlation"], found["same_answer"]) == (3, pytest.approx(1.0), 0.5)


def test_the_script_runs_on_as_many_questions_as_there_are(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("n_qst = 1000\nseen = [n_qst] * 2\n", encoding="utf-8")
    names: dict[str, Any] = {}
    exec(program(script, 3), names)
    assert names["seen"] == [3, 3]
    script.write_text("count = 1000\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="does not set n_qst once"):
        program(script, 3)


def test_the_stand_in_for_an_entailment_model_has_opinions(tiny_llama: Path, tmp_path: Path) -> None:
    judge = NliModel(str(save_stand_in(tmp_path, str(tiny_llama))), torch.device("cpu"))
    scores = judge.classify(QUESTION, [("Lima", "Cusco"), ("Cusco", "Lima"), ("Lima", "Quito")])
    assert all(0 < p < 1 for pair in scores for p in pair)
    assert len({round(p, 3) for pair in scores for p in pair}) == 6
    again = NliModel(str(save_stand_in(tmp_path / "again", str(tiny_llama))), torch.device("cpu"))
    assert again.classify(QUESTION, [("Lima", "Cusco")])[0] == pytest.approx(scores[0], abs=1e-5)


def test_our_side_rates_the_most_probable_beam(tiny_llama: Path, tmp_path: Path) -> None:
    nli = str(save_stand_in(tmp_path, str(tiny_llama)))
    model = LocalModel.load(str(tiny_llama), dtype="fp32", device="cpu", nli=nli)
    rows = rated(model, [QUESTION, Question("What is the capital of Chad?")])
    assert all((row["answer"] is None) == (row["confidence"] is None) for row in rows)
    assert all(0 <= row["confidence"] <= 1 for row in rows if row["confidence"] is not None)
    assert any(row["answer"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "name an ENVIRONMENT for lm-polygraph"), (["--dinco", "nowhere"], "has no dinco_triviaqa.py")],
)
def test_what_is_missing_is_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(
    "SECL_DINCO" not in os.environ, reason="needs DINCO's script (set SECL_DINCO to the folder with it)"
)
def test_the_published_script_and_our_formula_agree_to_a_millionth(tmp_path: Path, smollm2: str) -> None:
    out, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(f"{writing.BEGIN}\n{writing.END}\n", encoding="utf-8")
    files = ["--out", str(out), "--page", str(page)]
    main(["--dinco", os.environ["SECL_DINCO"], "--model", smollm2, "--questions", "4", "--rounds", "1", *files])
    results = json.loads(out.read_text(encoding="utf-8"))
    for evidence in ("their", "drawn"):
        assert results["agreement"]["dinco_published"][f"largest_difference_on_{evidence}_evidence"] < 1e-6
    assert results["ratios"]["dinco_published_vs_ours"] > 0
    assert "dinco published vs ours" in page.read_text(encoding="utf-8")
