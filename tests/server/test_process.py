"""`secl serve` in a process of its own, asked to end and killed under load: nothing that was said is lost or doubled.

SECL_RESTARTS=50 python -m pytest tests/server/test_process.py -s
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from secl.errors import ParameterError
from secl.gates import replay
from secl.runs.manifest import Manifest
from secl.server.http import process
from secl.server.http.process import answer_until_stopped, bind, create_app, is_local, listening, url
from secl.server.online.service import Service
from secl.server.store import ServerStore
from tests import processes
from tests.server.conftest import Make, Patch
from tests.server.waiting import Slow, examined, until

RESTARTS = int(os.environ.get("SECL_RESTARTS", "1"))
KEEPING, CONNECTING = 2, 2
"""Numbers of clients that keep their connection, and of clients that connect for every question."""


class Client(threading.Thread):
    """Asks and rates until `stop`, without pauses and without repetitions."""

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
                    body = {"question": question, "options": ["yes", "no"], "detail": "full"}
                    secl = client.post("/v1/ask", json=body).raise_for_status().json()
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
    """A server that learns, at a socket that stays open after the server."""
    recipe = log.with_suffix(".toml")
    recipe.write_text('method = "secl"\ngate = {warmup = 5, burst = 30}\nloop.bin_gate = "off"\n', encoding="utf-8")
    arguments = ("serve", state, recipe, "--model", model, "--served-model-name", "served")
    return processes.start(log, *arguments, *flags, listener=listener)


@pytest.mark.heavy
def test_nothing_said_is_lost_when_a_server_ends_or_is_killed(tiny_llama: Path, tmp_path: Path) -> None:
    state, log, stop = tmp_path / "state", tmp_path / "log", threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        clients = [Client(address, number, stop) for number in range(KEEPING + CONNECTING)]
        process = served(log, tiny_llama, state, listener)

        def more_replies() -> None:
            before = [len(client.replies) for client in clients]
            pairs = [*zip(clients, before, strict=True)]
            until(lambda: all(len(client.replies) > count for client, count in pairs) or not process.is_alive())
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
    assert log.read_text().count("resumed after ") == 2 * RESTARTS


def check(folder: Path, clients: list[Client]) -> None:
    """Check that all replies have records, decisions follow from entropies, and all versions and updates are stored."""
    with ServerStore(folder) as state:
        assert examined(state)[1] == []
        records = list(state.records())
        replies = [item for client in clients for item in client.replies.items()]
        assert len(replies) == len(dict(replies)), "one record for two replies"
        for name, secl in replies:
            reply = state.find(name).record.reply
            told = secl["detail"]["reply"]
            assert (told["bins"], told["version"]) == (list(reply.bins), reply.version)
        said = {state.find(name).record.position: label for client in clients for name, label in client.labels.items()}
        labels = {label.position: label.correct for label in state.labels()}
        assert {position: labels.get(position) for position in said} == said
        gate = Manifest.of(state).settings.build_gate()
        assert [r.decision for r in records] == replay(gate, [r.reply.entropy for r in records])
        updates = [record.update.version for record in records if record.update is not None]
        assert sorted(updates) == list(range(1, len(updates) + 1))


KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")

LOOKS = """
import os, sys

class Looks:
    def find_spec(self, name, *_):
        if name == "torch":
            print(*map(os.environ.get, names), flush=True)
            os._exit(0)

sys.argv, names = sys.argv[:-2], sys.argv[-2:]
sys.meta_path.insert(0, Looks())
from secl.cli import main
main()
"""
"""Serves, and prints two environment variables in place of the first import of PyTorch."""


@pytest.mark.parametrize("own", [{}, {"LRU_CACHE_CAPACITY": "7"}], ids=str)
def test_kernels_are_limited_before_pytorch_starts_unless_users_do_so(tmp_path: Path, own: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in KERNELS} | own
    command = [sys.executable, "-c", LOOKS, "serve", str(tmp_path / "state"), "--port", "0", *KERNELS]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout.split() == [own.get(name, "64") for name in KERNELS], ran.stderr


def test_a_signal_while_the_state_is_restored_ends_the_server(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service(start=False)
    begin, ready = service.start, list[str]()

    def start() -> None:
        signal.raise_signal(signal.SIGTERM)
        begin()

    monkeypatch.setattr(service, "start", start)
    with bind("127.0.0.1", 0) as listener:
        answer_until_stopped(service, listener, lambda: ready.append("y"), [])
    assert (ready, service.alive) == ([], False)


def test_a_passed_socket_is_the_same_one_and_no_child_gets_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as parent:
        duplicate = os.dup(parent.fileno())
        os.set_inheritable(duplicate, True)
        with listening(None, None, duplicate) as listener:
            assert listener.getsockname() == parent.getsockname()
            assert not listener.get_inheritable()
            assert url(listener) == f"http://127.0.0.1:{parent.getsockname()[1]}/"


def test_what_is_no_listening_tcp_socket_is_refused() -> None:
    others: list[Any] = [open(os.devnull, "rb")]  # noqa: SIM115
    others += [socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)]
    others += [socket.socket()]  # does not listen, like a socket of systemd with Accept=yes
    for other in others:
        with other, pytest.raises(ParameterError, match="which is no listening TCP socket"):
            listening(None, None, os.dup(other.fileno()))


@pytest.mark.parametrize(("host", "local"), [("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)])
def test_a_socket_is_local_by_its_own_address(host: str, local: bool) -> None:
    with bind(host, 0) as listener:
        assert is_local(listener) is local


@pytest.fixture
def service(make_service: Make) -> Service:
    return make_service(model=Slow())


def test_one_request_too_many_is_refused(service: Service, monkeypatch: Patch) -> None:
    monkeypatch.setattr(process, "MAX_CONCURRENT", 2)
    model, ready = service.model, threading.Event()
    assert isinstance(model, Slow)
    with bind("127.0.0.1", 0) as listener, ThreadPoolExecutor(3) as pool:
        server = process.Server(create_app(service), service, ready.set, [])
        pool.submit(server.run, [listener])
        assert ready.wait(20)
        ask = f"{url(listener)}v1/ask"
        asked = [pool.submit(httpx.post, ask, json={"question": "Why?"}, timeout=60) for _ in range(2)]
        assert model.begun.wait(20)
        until(lambda: len(server.server_state.tasks) == 2)
        refused = httpx.get(f"{url(listener)}healthz")
        model.go.set()
        assert [each.result().status_code for each in asked] == [200, 200]
        server.should_exit = True
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
    assert refused.headers["retry-after"] == "1"
