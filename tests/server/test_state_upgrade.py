"""State folders of older formats after an upgrade, which every start of a server makes by itself.

`old_states` holds folders that older versions made with `ScriptedModel`: twelve answers, a burst with four lessons, a
pause, a resume and a rollback, and three words of feedback, of which the last corrects the first. `feedback` is from
before labels and posteriors, `labels` from before chains and checkpoints.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from secl.errors import RunError, StorageError
from secl.runs.folder import FILE
from secl.runs.manifest import Manifest
from secl.runs.runner import build_calibrator
from secl.runs.settings import RunSettings
from secl.server.audit import migrations
from secl.server.audit.integrity import examine
from secl.server.audit.migrations import KEY, kept_as, upgrade_state
from secl.server.audit.schema import STATE_FORMAT
from secl.server.audit.store import ServerStore
from secl.server.online.guardrails import Bounds
from secl.server.online.service import Service
from secl.testing import ScriptedModel, toy_stream

OLD = Path(__file__).parent / "old_states"


@pytest.fixture(params=["feedback", "labels"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(OLD / str(request.param), tmp_path / str(request.param))


def content(folder: Path, table: str, name: str = FILE) -> list[tuple[object, ...]]:
    db = sqlite3.connect(folder / name)
    rows = db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    db.close()
    return rows


def test_a_folder_of_an_older_format_is_not_read_but_says_what_to_do(folder: Path) -> None:
    before = (folder / FILE).read_bytes()
    with pytest.raises(RunError, match=f"older version of secl; start its server once, or .*: secl upgrade {folder}$"):
        ServerStore(folder)
    assert (folder / FILE).read_bytes() == before


def test_a_folder_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = shutil.copytree(OLD / "labels", tmp_path / "newer")
    upgrade_state(folder)
    db = sqlite3.connect(folder / FILE)
    with db:
        db.execute("UPDATE manifest SET value = ? WHERE key = ?", (STATE_FORMAT + 1, KEY))
    db.close()
    for writable in (False, True):
        with pytest.raises(RunError, match=r"state of a newer version of secl .*; install that version\.$"):
            ServerStore(folder, writable=writable)
    with pytest.raises(RunError, match="newer version of secl"):
        upgrade_state(folder)


def test_an_upgrade_keeps_everything_and_the_file_as_it_was(folder: Path) -> None:
    before = (folder / FILE).read_bytes()
    assert upgrade_state(folder)
    assert (folder / kept_as(1)).read_bytes() == before
    for table in ("records", "decisions", "updates", "versions", "learner", "events"):
        assert content(folder, table) == content(folder, table, kept_as(1))
    assert not upgrade_state(folder)
    with ServerStore(folder, writable=True) as state:
        assert examine(state) == (12, [])
        assert state.counts() == {"trained": 4, "idle": 8}
        assert [(label.position, label.correct) for label in state.labels()][-1][0] in (2, 5)
        assert {label.position: label.correct for label in state.labels()} == {2: True, 5: True}
        assert [served.correct for served in state.latest(12)] == [None, None, True, None, None, True] + [None] * 6
    names = {path.name for path in folder.iterdir()}
    assert names == {FILE, kept_as(1), "lock"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_server_goes_on_from_an_older_folder(folder: Path) -> None:
    state = ServerStore(folder, writable=True)
    settings = RunSettings.of(Manifest.of(state).settings.to_json())
    model, twin = ScriptedModel(), ScriptedModel()
    service = Service(
        build_calibrator(settings, model), build_calibrator(settings, twin), state, bounds=Bounds(drift=10)
    )
    service.start()
    try:
        records = [service.ask(question, 20).record for question in toy_stream(16)[12:]]
    finally:
        service.stop()
    assert [record.position for record in records] == [12, 13, 14, 15]
    assert records[0].labelled is not None
    assert records[0].labelled.labels == 2
    assert state.waiting() or examine(state) == (16, [])
    state.close()


@pytest.mark.parametrize("step", [0, 1])
def test_an_upgrade_that_fails_in_the_middle_leaves_the_folder_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    def fail(_db: sqlite3.Connection) -> None:
        raise OSError(28, os.strerror(28))

    before = (folder / FILE).read_bytes()
    steps = (*migrations.STEPS[:step], fail, *migrations.STEPS[step + 1 :])
    monkeypatch.setattr(migrations, "STEPS", steps)
    with pytest.raises(StorageError, match=r"No space left on device; free space or permissions, then start again\.$"):
        upgrade_state(folder)
    assert (folder / FILE).read_bytes() == before
    monkeypatch.undo()
    assert upgrade_state(folder)


def test_pages_of_an_upgraded_folder_can_be_given_back_one_by_one(folder: Path) -> None:
    upgrade_state(folder)
    db = sqlite3.connect(folder / FILE)
    incremental = 2
    assert db.execute("PRAGMA auto_vacuum").fetchone() == (incremental,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()
