"""Servers, pruning and backups that are killed at random moments: nothing is lost.

SECL_KILLS=50 python -m pytest tests/server/test_kill_keeping.py
"""

from __future__ import annotations

import os
import random
import threading
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from secl.records import Record
from secl.runs.folder import FILE
from secl.server.folder import backup
from secl.server.online.factory import serving_settings
from secl.server.retention import Retention, prune
from secl.server.store import ServerStore
from tests import processes
from tests.server.folders import filled
from tests.server.test_kill import CLIENTS, LEARNING, Said, Server, grows, load
from tests.server.waiting import examined

pytestmark = pytest.mark.heavy

KILLS = int(os.environ.get("SECL_KILLS", "2"))

RECORDS, KEPT = 600, 150


def wait_until(condition: Any, process: Any) -> None:
    """Wait until something has happened, or the process has ended."""
    end = time.monotonic() + 120
    while process.is_alive() and not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def first_of(folder: Path) -> int:
    with ServerStore(folder) as state:
        return state.first


def contents(folder: Path) -> dict[int, Record]:
    with ServerStore(folder) as state:
        return {record.position: record for record in state.store.records()}


def prune_folder(folder: Path) -> None:
    """Prune as a server does, in a process that can be killed."""
    with ServerStore(folder, writable=True) as state:
        prune(state, Retention(records=KEPT), rest=0.0)


def test_pruning_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = filled(tmp_path / "state", RECORDS, serving_settings(method="posterior"))
    before, chance = contents(folder), random.Random(7)
    kills = 0
    first = 0
    while True:
        process = get_context("forkserver").Process(target=prune_folder, args=(folder,))
        process.start()
        if kills < KILLS:
            wait_until(lambda first=first: first_of(folder) > first, process)
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
        process.join()
        with ServerStore(folder) as state:
            assert examined(state) == (len(state) - state.first, [])
            assert (len(state), state.counts()) == (RECORDS, {"idle": RECORDS})
            first = state.first
        assert contents(folder) == {position: before[position] for position in range(first, RECORDS)}
        if kills >= KILLS or first == RECORDS - KEPT:
            break
        kills += 1
    assert first == RECORDS - KEPT


def test_a_backup_that_is_killed_leaves_no_half_copy_and_the_state_as_it_was(tmp_path: Path) -> None:
    folder = filled(tmp_path / "state", RECORDS, padding=" " + "x" * 4000)
    chance = random.Random(8)
    log, out = tmp_path / "log", tmp_path / "copy"
    unfinished = out.with_name("copy.unfinished")
    for number in range(KILLS):
        process = processes.start(log, "backup", out, "--state", folder)
        wait_until(lambda: (unfinished / FILE).exists() or out.exists(), process)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        processes.finish(process)
        if out.exists():
            with ServerStore(out) as copy:
                assert examined(copy) == (RECORDS, [])
            out.rename(tmp_path / f"whole-{number}")
    with ServerStore(folder) as state:
        assert examined(state) == (RECORDS, [])
    assert backup(folder, out) == RECORDS
    assert not unfinished.exists()


def test_a_server_that_prunes_and_is_killed_loses_nothing_that_it_keeps(tiny_llama: Path, tmp_path: Path) -> None:
    chance = random.Random(9)
    state, log = tmp_path / "state", tmp_path / "log"
    said = Said()
    flags = ("--keep-records", "10", "--keep-versions", "3")
    for number in range(KILLS):
        server = Server(state, str(tiny_llama), log, LEARNING, *flags)
        clients = [threading.Thread(target=load, args=(server, i, said)) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        grows(said.replies)
        time.sleep(chance.uniform(0, 1.5))
        copier = processes.start(tmp_path / "backup.log", "backup", tmp_path / f"copy-{number}", "--state", state)
        if number % 2:
            server.process.kill()
        processes.finish(copier)
        server.process.kill()
        processes.finish(server.process)
        for client in clients:
            client.join(120)
        with ServerStore(state) as store:
            assert examined(store)[1] == []
            kept = {record.position: record for record in store.store.records()}
            end = len(store)
        assert sorted(kept) == list(range(end - len(kept), end))
        for position, answer in said.replies.items():
            assert position < end
            if position in kept:
                assert answer["secl"]["bins"] == list(kept[position].reply.bins)
        with ServerStore(tmp_path / f"copy-{number}") as copy:
            assert examined(copy)[1] == []
    assert len(said.replies) > KILLS
