"""Benchmarks: bad input is one sentence, and the verdicts of docs/findings.md are as seldom false as it says."""

from __future__ import annotations

import runpy
import sys
from collections import Counter

import pytest

from benchmarks.sentences import WORLDS, said


@pytest.mark.parametrize("name", ["labels", "posterior", "sentences"])
def test_a_missing_run_is_named(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [name, "nowhere"])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: nowhere is not a run folder (it has no run.sqlite).\n"


@pytest.mark.parametrize(
    ("world", "sentence", "least", "most"),
    [
        ("calibrated, AUROC .72", "overconfident", 0.0, 0.1),
        ("calibrated, AUROC .72", "underconfident", 0.0, 0.1),
        ("calibrated, AUROC .72", "miscalibrated", 0.0, 0.15),
        ("calibrated, AUROC .72", "do not act", 0.0, 0.05),
        ("20 points too high", "overconfident", 0.85, 1.0),
        ("20 points too low", "underconfident", 0.85, 1.0),
        ("AUROC .50, mean right", "separate", 0.0, 0.1),
    ],
)
def test_a_hundred_answers_show_what_is_there_alone(world: str, sentence: str, least: float, most: float) -> None:
    counts = Counter(each for seed in range(40) for each in said(WORLDS[world], 100, seed))
    assert least <= counts[sentence] / 40 <= most
