"""`secl upgrade`, and what the other commands say about a folder of the old format."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.cli.conftest import Shell

OLD = Path(__file__).parents[1] / "runs" / "format2"


def test_an_old_run_is_refused_then_upgraded_and_reported(shell: Shell, refused: Any, tmp_path: Path) -> None:
    run = shutil.copytree(OLD / "unfinished", tmp_path / "run")
    (run / "lock").touch()
    for command in (("report", run), ("export", run), ("run", "--resume", run), ("ask", "Why?", "--adapter", run)):
        refused(command, f"convert it with: secl upgrade {run}")
    ended = shell("upgrade", run)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"{run} is upgraded; the old file is run.sqlite.v2.\n"
    assert shell("upgrade", run).out == f"{run} needs no upgrade.\n"
    ended = shell("report", run)
    assert (ended.code, ended.err) == (0, "")
    assert "6 of 9 questions: the run is unfinished." in ended.out


def test_an_old_state_is_refused_then_upgraded_and_read(shell: Shell, refused: Any, tmp_path: Path) -> None:
    state = shutil.copytree(OLD / "state", tmp_path / "state")
    refused(("history", "--state", state), f"convert it with: secl upgrade {state}")
    assert shell("upgrade", state).code == 0
    ended = shell("history", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    assert "for the night" in ended.out


def test_what_is_no_run_is_not_upgraded(refused: Any, tmp_path: Path) -> None:
    refused(("upgrade", tmp_path / "nowhere"), tmp_path / "nowhere", "is not a run folder")
