"""The command backup, and what commands say of a state that was pruned."""

from __future__ import annotations

import json
from pathlib import Path

from secl.server.retention import Retention, prune
from secl.server.store import ServerStore
from tests.cli.conftest import Shell
from tests.server.folders import filled


def test_a_backup_is_verified_and_pruned_like_any_state(shell: Shell, tmp_path: Path) -> None:
    state, copy = filled(tmp_path / "state", 100), tmp_path / "copy"
    ended = shell("backup", state, copy)
    assert (ended.code, ended.out) == (0, f"{copy} holds 100 records; check it with: secl verify {copy}\n")
    with ServerStore(copy, writable=True) as opened:
        assert prune(opened, Retention(records=30), rest=0.0) == 70
    found = json.loads(shell("verify", copy, "--last", 0, "--json").out)
    assert (found["agrees"], found["examined"], found["first"]) == (True, 30, 70)
    again = shell("verify", copy, "--last", 0)
    assert (again.code, again.err) == (0, "")
    assert "the records before number 70; all this is about those that are kept" in again.out
    assert "was pruned; kept are 70 to 99" in shell("show", copy, "3").err
    assert shell("export", copy, "--out", tmp_path / "x.csv", "--format", "csv").err == (
        f"The records 0 to 69 of {copy} were pruned.\n"
    )
