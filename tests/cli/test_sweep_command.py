"""`secl sweep` from the shell, on a tiny model."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    shell: Shell, recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "[red]runs[/b]"  # which rich would take for markup
    jobs = jobs_of(recipe, out)

    dry = shell("sweep", recipe, "--out", out, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    shown = [line.split(maxsplit=2) for line in dry.out.splitlines()[2:6]]
    assert [line[:2] for line in shown] == [[job.name, "waiting"] for job in jobs]
    assert all("method norm_p_true" in line[2] for line in shown[2:])
    assert f"4 runs, 0 of them finished, in {out}" in dry.out
    assert not out.exists()

    ended = shell("sweep", recipe, "--out", out)
    assert (ended.code, ended.err) == (0, "")
    assert all(map(is_finished, jobs))
    rows = ended.out[ended.out.index("Folder") :]
    for job in jobs:
        summary = json.loads((job.folder / SUMMARY).read_text())["estimators"]
        name, label = (
            ("secl", "SECL") if job.settings.method == "secl" else ("norm_p_true", re.escape("Normalised P(True)"))
        )
        (row,) = (line for line in rows.splitlines() if line.startswith(job.folder.name))
        brier, ece = summary[name]["brier"], summary[name]["ece"]
        assert re.search(rf"{label} +{brier:.3f} +{ece:.3f} .* {summary[name]['n']} *$", row)

    assert rows.splitlines()[-1] == f"run folders: {out}/"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "load_model", lambda recipe: pytest.fail("a finished run was repeated"))
        patch.setenv("COLUMNS", "60")  # a narrow terminal breaks no folder name
        again = shell("sweep", recipe, "--out", out)
    assert (again.code, again.err) == (0, "")
    assert [line.split()[:2] for line in again.out.splitlines()[2:6]] == [[job.name, "finished"] for job in jobs]
    assert again.out[again.out.index("Folder") :] == rows

    other = shell("report", jobs[0].folder)
    assert (other.code, other.err) == (0, "")


def test_a_sweep_that_is_stopped_says_how_many_runs_are_done(
    shell: Shell, recipe: Path, tmp_path: Path, interrupt_at: Callable[[int], None]
) -> None:
    command = ("sweep", recipe, "--out", tmp_path / "out")
    interrupt_at(14)
    ended = shell(*command)
    assert (ended.code, ended.err) == (2, "secl: stopped with 1 of 4 runs finished; the same command goes on.\n")
    shown = shell(*command, "--dry-run").out
    states = [line.split()[1:4] for line in shown.splitlines()[2:6]]
    assert [state[0] for state in states] == [
        "finished",
        "waiting",
        "3",
        "waiting",
    ]  # one seed: the first and the third


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ('stream.benchmarks = ["capitals:2"]\nsede = 1', (), ("no setting 'sede'", "[grid] and [[runs]]", "seed")),
        ('stream.benchmarks = ["capitals:2"]\n[grid]\nsede = [1]', (), ("no setting 'sede'", "[grid] and [[runs]]")),
        ('stream.benchmarks = ["capitals:2"]\n[gird]\nseed = [1]', (), ("no setting 'gird'", "[grid] and [[runs]]")),
        ('stream.benchmarks = ["capitals:2"]\n[grid]\nseed = 1', (), ("seed in [grid] is 1", "a list")),
        ("benchmarks = [", (), ("not valid TOML",)),
        ('stream.benchmarks = ["capitals:2"]', ("--on", "moon"), ("--on is 'moon'", "ray://HOST:PORT")),
        ('stream.benchmarks = ["capitals:2"]', ("--workers", 3), ("--workers", "--on ray")),
        ('stream.benchmarks = ["capitals:2"]', ("--on", "ray", "--workers", 0), ("number of workers", "not 0")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_refused_in_one_sentence(
    refused: Any, tmp_path: Path, text: str, more: tuple[object, ...], words: tuple[str, ...]
) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    refused(("sweep", path, "--out", tmp_path / "out", *more), *words)


def test_a_sweep_without_a_file_or_with_a_foreign_folder_is_refused(
    shell: Shell, refused: Any, recipe: Path, tmp_path: Path
) -> None:
    refused(("sweep", tmp_path / "none.toml", "--out", tmp_path / "out"), "none.toml", "cannot be read")
    jobs = jobs_of(recipe, tmp_path / "out")
    jobs[1].folder.mkdir(parents=True)
    (jobs[1].folder / "letter").touch()
    refused(("sweep", recipe, "--out", tmp_path / "out"), str(jobs[1].folder), "not empty")
    shutil.rmtree(jobs[1].folder)
    assert shell("sweep", recipe, "--out", tmp_path / "out", "--dry-run").code == 0
