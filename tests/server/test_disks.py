"""Disks that are really full or read-only: small file systems in memory, where this machine lets a test mount them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secl.errors import RunError, StorageError
from secl.server.folder import backup
from secl.server.retention import Retention
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.folders import filled
from tests.server.waiting import examined, settled

Mount = Callable[..., None]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """A file that takes all space but so many bytes."""
    path = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    path.write_bytes(b"x" * max(0, free - leave))
    return path


def test_a_full_disk_stops_neither_answers_nor_what_follows_when_there_is_space_again(
    make_service: MakeService, disk: Path
) -> None:
    service = make_service(disk / "state")
    questions = toy_stream(200)
    for question in questions[:20]:
        service.ask(question, 10)
    settled(service)
    filler = fill(disk)
    answers = [service.ask(question, 10) for question in questions[20:120]]
    assert not answers[-1].stored
    stored = 20 + sum(answer.stored for answer in answers)
    assert len(service.state) == stored
    service.pruner.policy = Retention(records=5)
    service.pruner.look()
    filler.unlink()
    service.pruner.look()
    assert service.pruner.last_error is None
    assert service.ask(questions[-1], 10).stored
    settled(service)
    assert service.state.first == stored - 5
    assert examined(service.state) == (6, [])


def test_a_backup_to_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path, disk: Path) -> None:
    folder = filled(tmp_path / "state", 50)
    fill(disk, leave=20_000)
    with pytest.raises(StorageError, match=r"disk .*full.*; free space or permissions, then try again\.$"):
        backup(folder, disk / "copy")
    assert [path.name for path in disk.iterdir()] == ["filler"]


def test_a_read_only_disk_is_refused_in_a_sentence(disk: Path) -> None:
    folder = filled(disk / "state", 50)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for attempt in (
        lambda: ServerStore(folder),
        lambda: ServerStore(folder, writable=True),
        lambda: backup(folder, disk / "copy"),
    ):
        with pytest.raises((StorageError, RunError), match=r"[Rr]ead-?only|unable to open") as refused:
            attempt()
        assert "\n" not in str(refused.value)
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    with ServerStore(folder) as state:
        assert examined(state) == (50, [])
