"""A server's state folder: who can read it, what survives a power cut, and how often the manifest is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secl.errors import RunError
from secl.runs.store import Store
from secl.server import folder as permissions
from secl.server.http.api_keys import Keys
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.waiting import settled


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """What most accounts have: new files can be read by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_only_its_user_can_read_a_state_folder(make_service: MakeService) -> None:
    service = make_service()
    for question in toy_stream(12):
        service.ask(question, 10)
    settled(service)
    Keys(service.state.folder).add("a", "read")
    folder = service.state.folder
    assert mode(folder) == 0o700
    modes = {path.name: mode(path) for path in folder.iterdir()}
    assert set(modes) == {"run.sqlite", "run.sqlite-wal", "run.sqlite-shm", "lock", "keys.json", "keys.json.lock"}
    assert set(modes.values()) == {0o600}


def test_a_folder_that_keys_add_makes_is_private(tmp_path: Path) -> None:
    Keys(tmp_path / "state").add("a", "read")
    assert mode(tmp_path / "state") == 0o700


def test_a_state_that_others_could_read_is_closed_to_them(
    make_service: MakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service = make_service()
    service.ask(toy_stream(1)[0], 10)
    service.stop()
    service.state.close()
    folder = service.state.folder
    folder.chmod(0o755)
    published = folder / "published"
    published.mkdir(mode=0o755)
    for path in folder.iterdir():
        path.chmod(0o755 if path.is_dir() else 0o644)
    ServerStore(folder).close()  # reading changes nothing
    assert mode(folder) == 0o755
    ServerStore(folder, writable=True).close()
    assert mode(folder) == mode(published) == 0o700
    assert {mode(path) for path in folder.iterdir() if path.is_file()} == {0o600}
    assert "now only its owner can" in caplog.text


def test_a_folder_that_cannot_be_closed_to_others_is_refused(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permissions, "_open_to_others", lambda _folder: True)
    with pytest.raises(RunError, match="cannot be closed to other users: its file system does not keep"):
        make_service(tmp_path / "new")

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(RunError, match="Operation not permitted; name a folder of your own"):
        make_service(tmp_path / "newer")


def test_a_run_of_somebody_is_no_state_and_keeps_its_permissions(tmp_path: Path) -> None:
    Store.create(tmp_path / "run", {}).close()
    before = mode(tmp_path / "run"), mode(tmp_path / "run" / "run.sqlite")
    with pytest.raises(RunError, match="is a run and no server's state"):
        ServerStore(tmp_path / "run", writable=True)
    assert (mode(tmp_path / "run"), mode(tmp_path / "run" / "run.sqlite")) == before


def test_a_server_synchronises_every_commit_and_a_run_does_not(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()

    def level(store: Store | ServerStore) -> Any:
        return store.db.execute("PRAGMA synchronous").fetchone()[0]

    normal, full = 1, 2
    assert level(service.state) == full
    with Store.create(tmp_path / "run", {}) as run:
        assert level(run) == normal


def test_no_batch_reads_the_manifest(make_service: MakeService) -> None:
    service = make_service(keep_text="none")
    statements: list[str] = []
    service.state.db.set_trace_callback(statements.append)
    for question in toy_stream(3):
        service.ask(question, 10)
    settled(service)
    service.state.db.set_trace_callback(None)
    assert any("INSERT INTO records" in statement for statement in statements)
    assert not [statement for statement in statements if "manifest" in statement]
