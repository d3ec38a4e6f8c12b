"""A server's state folder: who can read it, what survives a power cut, and how often the manifest is read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from secl.errors import RunError
from secl.runs.store import Store
from secl.server import folder as folders
from secl.server.http.api_keys import Keys
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.waiting import close, settled


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_user_can_enter_a_state_folder(
    make_service: MakeService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Keys(tmp_path / "state").add("a", "read")
    assert (mode(tmp_path / "state"), mode(tmp_path / "state" / "keys.json")) == (0o700, 0o600)
    folder = close(make_service(tmp_path / "new"))
    assert mode(folder) == 0o700
    folder.chmod(0o755)
    ServerStore(folder).close()  # reading changes nothing
    assert mode(folder) == 0o755
    ServerStore(folder, writable=True).close()
    assert mode(folder) == 0o700
    assert "now only its owner can" in caplog.text


def test_a_folder_that_cannot_be_closed_to_others_is_refused(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_is_open", lambda _folder: True)
    with pytest.raises(RunError, match="cannot be closed to other users: its file system does not keep"):
        make_service(tmp_path / "new")

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(RunError, match="Operation not permitted; name a folder of your own"):
        make_service(tmp_path / "newer")


def test_a_run_of_somebody_is_no_state_and_keeps_its_permissions(tmp_path: Path) -> None:
    Store.create(tmp_path / "run", {}).close()
    before = mode(tmp_path / "run")
    with pytest.raises(RunError, match="is a run and no server's state"):
        ServerStore(tmp_path / "run", writable=True)
    assert mode(tmp_path / "run") == before


def test_every_commit_is_synchronised_and_no_batch_reads_the_manifest(make_service: MakeService) -> None:
    service = make_service(keep_text="none")
    assert service.state.rows("PRAGMA synchronous") == [(2,)]  # FULL
    statements: list[str] = []
    service.state.db.set_trace_callback(statements.append)
    for question in toy_stream(3):
        service.ask(question, 10)
    settled(service)
    service.state.db.set_trace_callback(None)
    assert any("INSERT INTO records" in statement for statement in statements)
    assert not [statement for statement in statements if "manifest" in statement]
