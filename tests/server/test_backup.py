"""Backups of a running server, and servers that go on from them."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from secl.errors import RunError, StorageError
from secl.runs.folder import FILE
from secl.runs.store import Store
from secl.server.folder import backup
from secl.server.http.api_keys import Keys
from secl.server.recompute import verify
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.waiting import examined, settled


def test_a_server_goes_on_from_a_backup_as_if_nothing_had_happened(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    questions = toy_stream(20)
    for question in questions[:12]:
        service.ask(question, 10)
    settled(service)
    service.state.add_feedback(3, True)
    key = Keys(service.state.folder).add("operator", "admin")
    assert backup(service.state.folder, tmp_path / "copy") == 12
    original = [service.ask(question, 10).record for question in questions[12:]]

    with ServerStore(tmp_path / "copy") as copy:
        assert verify(copy).findings == ()
        assert len(copy) == 12
    restored = make_service(tmp_path / "copy")
    found = Keys(tmp_path / "copy").find(key)
    assert found is not None
    assert found.role == "admin"
    assert restored.learner.model.version == 10
    again = [restored.ask(question, 10).record for question in questions[12:]]
    assert again == original
    assert examined(restored.state) == (20, [])


def test_a_backup_is_private_and_complete_and_leaves_nothing_else(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    service.ask(toy_stream(1)[0], 10)
    settled(service)
    backup(service.state.folder, tmp_path / "copy")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "copy"}
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {FILE}


def test_nothing_is_written_over_and_what_is_no_state_is_refused(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    folder = service.state.folder
    (tmp_path / "there").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("there", "dangling"):
        with pytest.raises(RunError, match="exists already; name a folder that does not"):
            backup(folder, tmp_path / name)
    with pytest.raises(RunError, match="is not a run folder"):
        backup(tmp_path / "there", tmp_path / "copy")
    Store.create(tmp_path / "run", {}).close()
    with pytest.raises(RunError, match="is a run and no server's state; copy its folder"):
        backup(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*; free space or permissions, then try again\.$"):
        backup(folder, tmp_path / "file" / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_damaged_state_gives_no_backup(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    for question in toy_stream(12):
        service.ask(question, 10)
    settled(service)
    service.stop()
    service.state.close()
    path = service.state.folder / FILE
    db = sqlite3.connect(path)
    (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'served'").fetchone()
    (size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    with path.open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * size)
    with pytest.raises(RunError, match="damaged"):
        backup(service.state.folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
