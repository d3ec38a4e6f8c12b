"""Finished runs of a scripted model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from secl import Calibrator, LoopSettings
from secl.gates import Always, Gate, Never
from secl.testing import ScriptedModel, toy_stream
from secl_paper.compare import FinishedRun


def make_run(gate: Gate, *, stated: float = 0.85, **rule: Any) -> FinishedRun:
    """A scripted run over 40 questions of two domains, with all evidence."""
    calibrator = Calibrator(
        ScriptedModel(stated=stated),
        method="secl",
        gate=gate,
        loop=LoopSettings(evidence_on="always", bin_gate=None, **rule),
        evidence=("p_true", "samples", "dinco", "candidates"),
    )
    return FinishedRun(list(calibrator.run(toy_stream(40))), tau=0.7, layers=(24, 25, 26, 27), learns=True)


@pytest.fixture(scope="session")
def learned() -> FinishedRun:
    """A run that learned from every question."""
    return make_run(Always())


@pytest.fixture(scope="session")
def baseline() -> FinishedRun:
    """A run that does not learn."""
    return replace(make_run(Never()), learns=False)
