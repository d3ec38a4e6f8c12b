"""The benchmark of thresholds, on fewer streams: complete rows, shares that are shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import thresholds
from tests.answers import answered, run_folder

pytestmark = pytest.mark.heavy


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "STREAMS", 4)
    monkeypatch.setattr(thresholds, "MANY", 2000)


def numbers(row: str) -> list[float]:
    return [float(cell) for cell in row.strip("| ").split(" | ")[1:]]


def test_every_world_and_every_drift_has_its_rows() -> None:
    rows = list(thresholds.simulated())
    assert len(rows) == len(thresholds.WORLDS) * len(thresholds.RISKS) * len(thresholds.LABELS)
    assert all(0 <= value <= 1 for row in rows for value in numbers(row)[2:])
    drifts = list(thresholds.drifting())
    assert len(drifts) == len(thresholds.SHIFTS) * 2
    assert all(0 <= value <= 1 for row in drifts for value in numbers(row))


def test_a_recorded_run_is_halved(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", answered([0.9] * 60 + [0.4] * 60, [True] * 60 + [False] * 60))
    sources = thresholds.recorded(folder)
    assert list(sources) == ["reported"]
    confidence, correct = sources["reported"]
    assert (len(confidence), correct.sum()) == (120, 60)
    (row,) = thresholds.halved(confidence, correct, [0.2])
    # What is above 0.4 is always right, so every half finds that threshold, and it holds in the other half.
    assert row == "| 0.2 | 1.000 | 1.000 | 0.000 | 1.00 | 0.50 |"
