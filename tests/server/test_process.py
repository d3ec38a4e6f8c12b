"""`secl serve` in a process of its own, asked to end and killed under load: nothing that was said is lost or doubled.

SECL_RESTARTS=50 python -m pytest tests/server/test_process.py -s
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from secl.gates import replay
from secl.runs.manifest import Manifest
from secl.server.http.api_keys import Keys
from secl.server.http.process import answer_until_stopped, bind
from secl.server.settings import HttpSettings
from secl.server.store import ServerStore
from tests import processes
from tests.server.conftest import MakeService
from tests.server.waiting import examined, until

RESTARTS = int(os.environ.get("SECL_RESTARTS", "1"))
KEEPING, CONNECTING = 2, 2
"""Clients that keep their connection, and clients that make one for every question."""


class Client(threading.Thread):
    """Asks and rates without a pause until it is told to stop, and never a second time."""

    def __init__(self, address: str, number: int, stop: threading.Event) -> None:
        super().__init__()
        self.address, self.number, self.stop = address, number, stop
        self.replies: dict[str, Any] = {}
        self.labels: dict[str, bool] = {}
        self.problems: list[str] = []

    def run(self) -> None:
        headers = {} if self.number < KEEPING else {"connection": "close"}
        with httpx.Client(base_url=self.address, headers=headers, timeout=120) as client:
            while not self.stop.is_set():
                question = f"Is {self.number} times {len(self.replies)} an even number?"
                try:
                    reply = client.post(
                        "/v1/ask", json={"question": question, "options": ["yes", "no"], "detail": "full"}
                    )
                    secl = reply.raise_for_status().json()
                    name = secl["record_id"]
                    assert name not in self.replies, "one record for two replies"
                    self.replies[name] = secl
                    if len(self.replies) % 3 == 0:
                        said = {"record_id": name, "correct": len(self.replies) % 2 == 0}
                        client.post("/v1/feedback", json=said).raise_for_status()
                        self.labels[name] = said["correct"]
                except httpx.HTTPError as problem:
                    self.problems.append(f"{type(problem).__name__}: {problem}")


def served(log: Path, model: Path, state: Path, listener: socket.socket, *flags: object) -> BaseProcess:
    """A server at a socket that stays open when it ends; it learns from every burst."""
    recipe = log.with_suffix(".toml")
    recipe.write_text('method = "secl"\ngate = {warmup = 5, burst = 30}\nloop.bin_gate = "off"\n', encoding="utf-8")
    arguments = ("serve", state, recipe, "--model", model, "--served-model-name", "served")
    return processes.start(log, *arguments, *flags, listener=listener)


@pytest.mark.heavy
def test_nothing_that_was_said_is_lost_or_refused_when_a_server_ends_and_nothing_lost_when_it_is_killed(
    tiny_llama: Path, tmp_path: Path
) -> None:
    state, log, stop = tmp_path / "state", tmp_path / "log", threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        clients = [Client(address, number, stop) for number in range(KEEPING + CONNECTING)]
        process = served(log, tiny_llama, state, listener)

        def more_replies() -> None:
            before = [len(client.replies) for client in clients]
            until(
                lambda: all(len(c.replies) > n for c, n in zip(clients, before, strict=True)) or not process.is_alive()
            )
            assert process.is_alive(), log.read_text()

        for client in clients:
            client.start()
        try:
            for _ in range(RESTARTS):
                more_replies()
                process.terminate()
                assert processes.finish(process) == 0, log.read_text()
                process = served(log, tiny_llama, state, listener)
                more_replies()
                assert [client.problems for client in clients] == [[]] * len(clients)
                process.kill()
                assert processes.finish(process) == -signal.SIGKILL
                process = served(log, tiny_llama, state, listener)
                more_replies()
                for client in clients:
                    client.problems.clear()
        finally:
            stop.set()
            for client in clients:
                client.join(120)
            process.terminate()
            code = processes.finish(process)
    assert code == 0, log.read_text()
    check(state, clients)
    assert log.read_text().count("resumed before record") == 2 * RESTARTS


def check(folder: Path, clients: list[Client]) -> None:
    """All that was said is on record, decisions follow from entropies, versions are kept, and no update is missing."""
    with ServerStore(folder) as state:
        assert examined(state)[1] == []
        records = list(state.store.records())
        replies = [item for client in clients for item in client.replies.items()]
        assert len(replies) == len(dict(replies)), "one record for two replies"
        for name, secl in replies:
            reply = records[state.position_of(name)].reply
            assert (secl["detail"]["bins"], secl["detail"]["version"]) == (list(reply.bins), reply.version)
        said = {state.position_of(name): label for client in clients for name, label in client.labels.items()}
        labels = {label.position: label.correct for label in state.store.labels()}
        assert {position: labels.get(position) for position in said} == said
        gate = Manifest.of(state.store).settings.build_gate()
        assert [r.decision for r in records] == replay(gate, [r.reply.entropy for r in records])
        updates = [record.update.version for record in records if record.update is not None]
        assert sorted(updates) == list(range(1, len(updates) + 1))


def test_a_signal_while_the_state_is_restored_ends_the_server(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(start=False)
    begin, ready = service.start, list[str]()

    def start() -> None:
        signal.raise_signal(signal.SIGTERM)
        begin()

    monkeypatch.setattr(service, "start", start)
    with bind("127.0.0.1", 0) as listener:
        answer_until_stopped(
            service, Keys(service.state.folder), HttpSettings(), listener, lambda: ready.append("y"), []
        )
    assert (ready, service.alive) == ([], False)
