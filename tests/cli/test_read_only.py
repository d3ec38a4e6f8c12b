"""Commands on runs, states and backups that lie on a read-only medium."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from secl.errors import StorageError
from secl.runs import RunSettings, Store, folder, start_run
from secl.runs.folder import FILE
from secl.server.retention import backup
from secl.server.verify import examine
from secl.testing import ScriptedModel
from tests.cli.conftest import Shell
from tests.server.waiting import filled

pytestmark = pytest.mark.heavy

BESIDE = {"closed": (), "open": ("-wal", "-shm"), "killed": ("-wal",)}
"""Files beside the database of a copied run: after its process ended, while it ran, and without the shared memory."""


@pytest.fixture(scope="module")
def medium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system with runs, a state and a backup, mounted read-only."""
    here = tmp_path_factory.mktemp("made")
    whole = start_run(RunSettings.of({"stream.benchmarks": ["capitals:9"]}), here / "run", lambda _: ScriptedModel())
    whole.proceed()
    shutil.copytree(here / "run", here / "open")
    shutil.copytree(here / "run", here / "killed", ignore=shutil.ignore_patterns("*-shm"))
    assert (here / "killed" / f"{FILE}-wal").stat().st_size > 0
    whole.finish()
    whole.store.close()
    (here / "run").rename(here / "closed")
    backup(filled(here / "state", 50), here / "backup")
    place = tmp_path_factory.mktemp("medium")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting a file system is not allowed: {mounted.stderr.strip()}")
    try:
        shutil.copytree(here, place, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("name", [*BESIDE, "state", "backup"])
def test_commands_that_read_work_on_a_read_only_medium(shell: Shell, medium: Path, tmp_path: Path, name: str) -> None:
    place, server = medium / name, name in ("state", "backup")
    assert {path.name.removeprefix(FILE) for path in place.glob(f"{FILE}?*")} == {*BESIDE.get(name, ())}
    assert json.loads(shell("verify", place, "--json").out)["examined"] == (50 if server else 9)
    assert "accept from" in shell("threshold", place, "--risk", 0.1).fine.out
    assert shell("report", place, "--out", tmp_path / "report").fine
    assert (tmp_path / "report" / "report.html").exists()
    assert shell("export", place, "--out", tmp_path / "answers.csv").fine
    assert len((tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()) == (51 if server else 10)
    if server:
        assert "50 answers" in shell("history", place).fine.out
        assert "stated confidence" in shell("show", place, 3).fine.out
        assert "50 records" in shell("backup", place, tmp_path / "copy").fine.out
    else:
        assert shell("check", place).fine
        assert (
            "0 of 9 answers differ"
            in shell("compare", place, medium / ("open" if name == "closed" else "closed")).fine.out
        )


def test_commands_that_write_refuse_a_read_only_medium(refused: Shell, medium: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("position,correct\n1,yes\n", encoding="utf-8")
    copy = "Read-only file system; copy the folder to a disk that can be written"
    run, state = medium / "closed", medium / "state"
    for command in (
        ("label", run),
        ("label", run, "--from", tmp_path / "labels.csv"),
        ("run", "--resume", run),
        ("serve", state, "--model", "smollm2"),
        ("keys", "add", state, "app"),
    ):
        refused(command, f"cannot write to {run if run in command else state}", copy)
    for command in (("report", run), ("export", run)):
        refused(command, copy, "or name another place with --out.")


def test_a_copy_to_which_a_process_writes_meanwhile_is_not_read(
    medium: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the medium were a second mount of a folder in use."""
    place = shutil.copytree(medium / "closed", tmp_path / "run")
    copies = []

    def copy_while_a_process_writes(source: Path, target: Path) -> Path:
        copies.append(source)
        with closing(sqlite3.connect(place / FILE)) as db, db:
            db.execute("UPDATE manifest SET value = value || ' ' WHERE key = 'total'")
        os.utime(place / FILE, ns=(len(copies), len(copies)))
        target.write_bytes(source.read_bytes())
        return target

    with monkeypatch.context() as patched:
        patched.setattr("secl.runs.folder.shutil.copyfile", copy_while_a_process_writes)
        with pytest.raises(StorageError, match=r"another process writes to .* all the time; stop it, then try again"):
            folder._open_copy(place / FILE)
    assert len(copies) == folder.COPIES
    with Store(medium / "closed") as store:
        assert examine(store).findings == []
