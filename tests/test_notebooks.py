"""The notebook-like examples run from the first cell to the last, on a tiny model in the place of the embedded one."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from secl.backends.local.presets import PRESETS
from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[each.stem for each in NOTEBOOKS])
def test_a_notebook_is_cells_of_text_and_code(notebook: Path) -> None:
    cells = notebook.read_text(encoding="utf-8").split("# %%")
    assert cells[0] == ""
    assert cells[1].startswith(" [markdown]\n# # ")
    assert len(cells) > 2
    compile(notebook.read_text(encoding="utf-8"), str(notebook), "exec")


@pytest.mark.heavy
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[each.stem for each in NOTEBOOKS])
def test_a_notebook_runs(
    notebook: Path,
    tiny_llama: Path,
    few_draws: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(PRESETS, "smollm2", replace(PRESETS["smollm2"], source=str(tiny_llama)))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(notebook), run_name="__main__")
    assert capsys.readouterr().out.strip()
