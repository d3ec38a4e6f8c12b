"""`secl serve` and `secl keys`, from the shell."""

import hashlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from secl.errors import needs
from secl.server.online.service import open_service
from tests import processes
from tests.cli.conftest import Shell

pytestmark = pytest.mark.heavy


def test_a_key_is_shown_once_listed_without_itself_and_removed(shell: Shell, refused: Any, tmp_path: Path) -> None:
    state = tmp_path / "state"
    refused(("keys", "list", state), "there is no folder", "state", "secl serve")
    refused(("keys", "remove", state, "a"), "no key 'a'; the existing keys are: none")
    refused(("keys", "add", state, "a", "--role", "root"), "no role 'root'", "ask, read, review, admin")
    for name in (" ", "a\n", "x" * 65):
        refused(("keys", "add", state, name), "not a valid name for a key")
    made = shell("keys", "add", state, "ops", "--role", "admin").fine
    token = made.out.strip()
    assert token.startswith("secl_")
    (kept,) = json.loads((state / "keys.json").read_text())
    assert kept == {"name": "ops", "role": "admin", "sha256": hashlib.sha256(token.encode()).hexdigest()}
    listed = shell("keys", "list", state).out
    assert "ops" in listed
    assert "admin" in listed
    assert token not in listed
    assert "'ops' already" in shell("keys", "add", state, "ops").err
    removed = shell("keys", "remove", state, "ops")
    assert (removed.code, "last key" in removed.err) == (0, True)
    assert json.loads((state / "keys.json").read_text()) == []


BAD: list[tuple[tuple[object, ...], str]] = [
    (("--port", 70000), "--port is 70000"),
    (("--host", "0.0.0.0", "--port", 0), "0.0.0.0 can be reached"),
    (("--host", "no.such.host.invalid", "--port", 0), "cannot listen at no.such.host.invalid"),
    (("--method", "secl", "--gate", "always", "--gate.threshold=2"), "has no threshold"),
    (("--max-queue", 0), "queue is 0"),
    (("--timeout", 0), "timeout is 0"),
    (("--keep-text", "some"), "keep-text is 'some'"),
    (("--keep-records", "-1"), "--keep-records is '-1'; give a number of records"),
    (("--model", "no-such-folder"), "no-such-folder"),
]


def test_bad_flags_recipes_and_folders_are_refused(refused: Any, tmp_path: Path, tiny_llama: Path, run: Path) -> None:
    (tmp_path / "r.toml").write_text('stream.benchmarks = ["capitals"]')
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    state, any_port = tmp_path / "state", ("--port", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for folder, flags, word in (
            *((state, flags, word) for flags, word in BAD),
            (state, ("--port", port), f"port {port}"),
            (
                state,
                (tmp_path / "r.toml", *any_port),
                "r.toml: a server gets its questions over HTTP; leave stream.benchmarks out",
            ),
            (tmp_path / "full", any_port, "full"),
            (run, any_port, "not a server's state folder"),
        ):
            model = () if "--model" in flags else ("--model", tiny_llama)
            refused(("serve", folder, *model, *(() if "--port" in flags else any_port), *flags), word)


def test_a_wrong_socket_or_package_is_refused(refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = ("serve", tmp_path / "s")
    refused((*serve, "--fd", "987"), "--fd is 987, which is no listening TCP socket")
    refused((*serve, "--fd", "3", "--host", "127.0.0.1"), "the socket --fd 3 already has an address")
    for name in [name for name in sys.modules if name.startswith(("secl.server.http", "fastapi"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    refused(serve, needs("secl serve", "fastapi", "server"))
    refused(("review", "run"), needs("secl review", "fastapi", "server"))


def test_a_signal_while_the_model_loads_ends_all(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During its import, PyTorch's C++ code calls Python, and aborts if the call raises."""
    cleared, ended = [], []

    def load(*_args: Any, **_named: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            cleared.append(True)

    def end(code: int) -> None:
        ended.append(code)
        raise InterruptedError

    monkeypatch.setattr("secl.server.online.service.open_service", load)
    before = signal.getsignal(signal.SIGTERM)
    assert shell("serve", tmp_path / "s", "--port", 0).code == 128 + signal.SIGTERM
    assert (cleared, signal.getsignal(signal.SIGTERM)) == ([True], before)
    (tmp_path / "interrupted.py").write_text("import os, time\nos.kill(os.getpid(), 15)\ntime.sleep(0.01)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("secl.server.online.service.open_service", lambda *_, **__: import_module("interrupted"))
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(InterruptedError):
        shell("serve", tmp_path / "s", "--port", 0)
    assert ended == [128 + signal.SIGTERM]


class Deaf:
    """An object whose end is interrupted by a signal: Python drops what the handler raises there."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_python_drops_while_the_model_loads_ends_the_server(
    shell: Shell, tmp_path: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    loaded = []

    def load(*args: Any, **named: Any) -> Any:
        Deaf(number)
        loaded.append(open_service(*args, **named))
        return loaded[0]

    monkeypatch.setattr("secl.server.online.service.open_service", load)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: pytest.fail("it serves"))
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    assert shell("serve", tmp_path / "s", "--model", tiny_llama, "--port", 0).code == 0
    assert not loaded[0].alive
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


@contextmanager
def serving(folder: Path, model: Path, *flags: object, host: str = "127.0.0.1") -> Iterator[tuple[BaseProcess, str]]:
    """A server in a process of its own, and its address."""
    log, where = folder.parent / "log", ("--model", model, "--host", host, "--port", 0)
    log.write_text("")
    process = processes.start(log, "serve", folder, *where, "--method", "secl", "--gate.warmup=3", *flags)
    try:
        for _ in range(1200):
            if "secl serves" in log.read_text() or not process.is_alive():
                break
            time.sleep(0.05)
        said = log.read_text()
        assert "secl serves" in said, said
        yield process, said.split(" at ")[1].split("/ ")[0]
    finally:
        if process.exitcode is None:
            process.kill()
            process.join()


def ended(process: BaseProcess, number: signal.Signals) -> int | None:
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(60)
    return process.exitcode


def test_an_address_needs_a_key_and_a_second_server_is_refused(shell: Shell, tmp_path: Path, tiny_llama: Path) -> None:
    folder = tmp_path / "state"
    token = shell("keys", "add", folder, "ops", "--role", "admin").out.strip()
    with serving(folder, tiny_llama, "--served-model-name", "tiny", host="0.0.0.0") as (process, address):
        assert address.startswith("http://0.0.0.0:")
        local = address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{local}/v1/models").status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{local}/v1/models", headers=headers).json()["data"][0]["id"] == "tiny"
        httpx.post(f"{local}/v1/pause", headers=headers, json={"reason": "for a look"}).raise_for_status()
        other = shell("serve", folder, "--model", tiny_llama, "--port", 0, "--method", "secl", "--gate.warmup=3")
        assert (other.code, "is in use by another process" in other.err) == (2, True)
        assert ended(process, signal.SIGTERM) == 0
    log = (tmp_path / "log").read_text()
    assert token not in log
    assert "GET /v1/models 401" in log
    assert "stopping: the server accepts no more connections and answers the received requests (0 in the queue)" in log
    assert log.endswith("stopped after 0 records, version 0; 0 lessons wait; learning is paused (for a look)\n")
