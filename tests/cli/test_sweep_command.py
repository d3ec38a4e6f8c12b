"""`secl sweep` from the shell, on a tiny model."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secl.evaluation.estimators import ESTIMATORS
from secl.runs import runner
from secl.runs.runner import SUMMARY
from secl.runs.sweep import Job, is_finished, plan, read_sweep
from tests.cli.conftest import Shell

pytestmark = pytest.mark.heavy

GRID = """
model.name = "{model}"
stream.benchmarks = ["capitals:5", "science:5"]
[grid]
seed = [42, 43]
[[runs]]
method = "secl"
gate = {{burst = 4, warmup = 3, threshold = 2.0}}
[[runs]]
method = "norm_p_true"
"""


@pytest.fixture
def recipe(tmp_path: Path, tiny_llama: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(GRID.format(model=tiny_llama))
    return path


def jobs_of(recipe: Path, out: Path) -> list[Job]:
    return plan(read_sweep(recipe), out)


def test_a_sweep_shows_what_it_is_made_of_does_it_and_compares_the_runs(
    shell: Shell, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "[red]runs[/b]"  # which rich would take for markup
    jobs, command = jobs_of(recipe, out), ("sweep", recipe, "--out", out)

    dry = shell(*command, "--dry-run").fine
    shown = [line.split(maxsplit=2) for line in dry.out.splitlines()[2:6]]
    assert [line[:2] for line in shown] == [[job.name, "waiting"] for job in jobs]
    assert all("method norm_p_true" in line[2] for line in shown[2:])
    assert f"4 runs, 0 of them finished, in {out}" in dry.out
    assert not out.exists()

    ended = shell(*command).fine
    assert all(map(is_finished, jobs))
    rows = ended.out[ended.out.index("Folder") :]
    for job in jobs:
        name = job.settings.method
        summary = json.loads((job.folder / SUMMARY).read_text())["estimators"][name]
        (row,) = (line for line in rows.splitlines() if line.startswith(job.folder.name))
        numbers = rf"{summary['brier']:.3f} +{summary['ece']:.3f} .* {summary['n']} *$"
        assert re.search(f"{re.escape(ESTIMATORS[name].title)} +{numbers}", row)
    assert rows.splitlines()[-1] == f"run folders: {out}/"

    monkeypatch.setattr(runner, "load_model", lambda recipe: pytest.fail("a finished run was repeated"))
    monkeypatch.setenv("COLUMNS", "60")  # a narrow terminal breaks no folder name
    again = shell(*command).fine
    assert [line.split()[:2] for line in again.out.splitlines()[2:6]] == [[job.name, "finished"] for job in jobs]
    assert again.out[again.out.index("Folder") :] == rows
    assert shell("report", jobs[0].folder).fine


def test_a_stopped_sweep_goes_on(
    shell: Shell, recipe: Path, tmp_path: Path, interrupt_at: Callable[[int], None]
) -> None:
    command = ("sweep", recipe, "--out", tmp_path / "out")
    interrupt_at(14)
    ended = shell(*command)
    assert (ended.code, ended.err) == (2, "secl: stopped with 1 of 4 runs finished; the same command continues.\n")
    states = [line.split()[1] for line in shell(*command, "--dry-run").out.splitlines()[2:6]]
    assert states == ["finished", "waiting", "3", "waiting"]  # one seed: the first and the third


def test_bad_input_is_refused_in_one_sentence(shell: Shell, refused: Any, recipe: Path, tmp_path: Path) -> None:
    out, path, stream = ("--out", tmp_path / "out"), tmp_path / "bad.toml", 'stream.benchmarks = ["capitals:2"]'
    refused(("sweep", path, *out), "bad.toml", "cannot be read")
    for text, more, *words in (
        (f"{stream}\nsede = 1", (), "no setting 'sede'", "[grid] and [[runs]]", "seed"),
        (f"{stream}\n[grid]\nsede = [1]", (), "no setting 'sede'", "[grid] and [[runs]]"),
        (f"{stream}\n[gird]\nseed = [1]", (), "no setting 'gird.seed'", "[grid] and [[runs]]"),
        (f"{stream}\n[grid]\nseed = 1", (), "seed in [grid] is 1", "a list"),
        ("benchmarks = [", (), "not valid TOML"),
        (stream, ("--on", "moon"), "--on is 'moon'", "ray://HOST:PORT"),
        (stream, ("--workers", 3), "--workers", "--on ray"),
        (stream, ("--on", "ray", "--workers", 0), "number of workers", "not 0"),
    ):
        path.write_text(text)
        refused(("sweep", path, *out, *more), *words)
    folder = jobs_of(recipe, tmp_path / "out")[1].folder
    folder.mkdir(parents=True)
    (folder / "letter").touch()
    refused(("sweep", recipe, *out), folder, "not empty")
    shutil.rmtree(folder)
    assert shell("sweep", recipe, *out, "--dry-run").code == 0
