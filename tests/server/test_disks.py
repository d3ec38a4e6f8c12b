"""Disks that are really full or read-only: small file systems in memory, where this machine lets a test mount them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secl.server.retention import Retention
from secl.testing import toy_stream
from tests.server.conftest import MakeService
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
