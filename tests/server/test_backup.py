"""Backups of a running server, and servers that go on from them."""

from __future__ import annotations

import sqlite3
import stat
import threading
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
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "copy").iterdir()}
    assert modes == {FILE: 0o600, "lock": 0o600}


def test_a_backup_while_answers_are_written_is_of_one_moment(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    done = threading.Event()

    def ask() -> None:
        for question in toy_stream(1000):
            if done.is_set():
                return
            service.ask(question, 10)

    client = threading.Thread(target=ask)
    client.start()
    try:
        while len(service.state) < 5:
            pass
        counts = [backup(service.state.folder, tmp_path / f"copy-{number}") for number in range(5)]
    finally:
        done.set()
        client.join()
    assert counts == sorted(counts)
    for number, count in enumerate(counts):
        with ServerStore(tmp_path / f"copy-{number}") as copy:
            assert examined(copy) == (count, [])


def test_what_is_left_of_a_backup_that_was_killed_is_written_over(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    service.ask(toy_stream(1)[0], 10)
    left = tmp_path / "copy.unfinished"
    left.mkdir()
    for name in (FILE, f"{FILE}-wal", f"{FILE}-journal"):
        (left / name).write_bytes(b"half a copy")
    assert backup(service.state.folder, tmp_path / "copy") == 1
    assert not left.exists()


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
