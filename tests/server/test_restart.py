"""A server that is stopped and started again on a socket that stays open: nobody is refused, and nothing is lost.

SECL_RESTARTS=20 python -m pytest tests/server/test_restart.py
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import pytest

from secl.server.entries import position_of
from secl.server.http.api_keys import Keys
from secl.server.http.process import answer_until_stopped, bind
from secl.server.settings import HttpSettings
from secl.server.store import ServerStore
from tests import processes
from tests.server.conftest import MakeService

pytestmark = pytest.mark.heavy

RESTARTS = int(os.environ.get("SECL_RESTARTS", "2"))
KEEPING, CONNECTING = 4, 4
"""Clients that keep their connection, and clients that make one for every question."""


class Client(threading.Thread):
    """Asks without a pause until it is told to stop, and never a second time."""

    def __init__(self, address: str, number: int, stop: threading.Event) -> None:
        super().__init__()
        self.address, self.number, self.stop = address, number, stop
        self.positions: list[int] = []
        self.problems: list[str] = []

    def run(self) -> None:
        headers = {} if self.number < KEEPING else {"connection": "close"}
        with httpx.Client(base_url=self.address, headers=headers, timeout=120) as client:
            while not self.stop.is_set():
                question = f"Is {self.number} times {len(self.positions)} an even number?"
                try:
                    reply = client.post("/v1/ask", json={"question": question, "options": ["yes", "no"]})
                    self.positions.append(position_of(reply.raise_for_status().json()["secl"]["record_id"]))
                except httpx.HTTPError as problem:
                    self.problems.append(f"{type(problem).__name__}: {problem}")


@contextmanager
def asked_without_pause(address: str) -> Iterator[list[Client]]:
    """Clients at work; after the block they have had their last reply."""
    stop = threading.Event()
    clients = [Client(address, number, stop) for number in range(KEEPING + CONNECTING)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        stop.set()
        for client in clients:
            client.join(120)


def more_replies(clients: list[Client], process: BaseProcess, log: Path) -> None:
    """Wait until every client has had another reply."""
    before, end = [len(client.positions) for client in clients], time.monotonic() + 120
    while any(len(client.positions) <= count for client, count in zip(clients, before, strict=True)):
        assert process.is_alive(), log.read_text()
        assert time.monotonic() < end, [client.problems for client in clients]
        assert not any(client.problems for client in clients), [client.problems for client in clients]
        time.sleep(0.02)


def test_no_request_is_refused_or_lost_while_the_server_starts_again(tiny_llama: Path, tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def start() -> BaseProcess:
            return processes.start(log, "serve", "--model", tiny_llama, "--state", state, listener=listener)

        process = start()
        with asked_without_pause(address) as clients:
            try:
                for _ in range(RESTARTS):
                    more_replies(clients, process, log)
                    process.terminate()
                    assert processes.finish(process) == 0, log.read_text()
                    process = start()
                more_replies(clients, process, log)
            except BaseException:
                process.kill()  # so that no client waits for a reply
                listener.close()
                raise
        process.terminate()
        assert processes.finish(process) == 0, log.read_text()
    assert [client.problems for client in clients] == [[]] * len(clients)
    positions = sorted(position for client in clients for position in client.positions)
    with ServerStore(state) as store:
        assert positions == list(range(len(store)))
    assert log.read_text().count("resumed before record") == RESTARTS


def test_a_signal_while_the_state_is_restored_ends_the_server(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(start=False)
    begin, ready = service.start, list[str]()

    def start() -> None:
        signal.raise_signal(signal.SIGTERM)
        begin()

    monkeypatch.setattr(service, "start", start)
    listener = bind("127.0.0.1", 0)
    answer_until_stopped(service, Keys(service.state.folder), HttpSettings(), listener, lambda: ready.append("ready"))
    listener.close()
    assert (ready, service.alive) == ([], False)
