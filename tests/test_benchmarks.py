"""Bad input to a benchmark is one sentence."""

from __future__ import annotations

import runpy
import sys

import pytest


@pytest.mark.parametrize("name", ["labels", "posterior", "sentences"])
def test_a_folder_without_a_run_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "nowhere"])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: nowhere is not a run folder (it has no run.sqlite).\n"
