"""The listening socket, its own or inherited, and what systemd is told."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from secl.errors import ParameterError
from secl.server.http import process
from secl.server.http.app import create_app
from secl.server.http.process import bind, is_local, listening, notify, url
from secl.server.online.service import Service
from tests.server.conftest import MakeService
from tests.server.waiting import Slow


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Says that systemd passes a socket to this process."""
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    return monkeypatch


def test_a_passed_socket_is_the_same_one_and_no_child_gets_it(passed: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as parent:
        duplicate = os.dup(parent.fileno())
        os.set_inheritable(duplicate, True)
        passed.setattr(process, "FIRST_PASSED", duplicate)
        with listening(None, None) as listener:
            assert listener.getsockname() == parent.getsockname()
            assert not listener.get_inheritable()
            assert url(listener) == f"http://127.0.0.1:{parent.getsockname()[1]}/"
    assert not {"LISTEN_PID", "LISTEN_FDS"} & set(os.environ)


def test_what_is_no_listening_tcp_socket_is_refused(passed: pytest.MonkeyPatch) -> None:
    others = (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        socket.socket(socket.AF_INET, socket.SOCK_STREAM),  # it does not listen, as systemd passes with Accept=yes
        open(os.devnull, "rb"),  # noqa: SIM115
    )
    for other in others:
        passed.setenv("LISTEN_PID", str(os.getpid()))
        passed.setenv("LISTEN_FDS", "1")
        passed.setattr(process, "FIRST_PASSED", os.dup(other.fileno()))
        with other, pytest.raises(ParameterError, match="something else than one listening TCP socket"):
            listening(None, None)


def test_a_socket_for_another_process_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "1")
    with listening("127.0.0.1", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(("host", "local"), [("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)])
def test_a_socket_is_local_by_its_own_address(host: str, local: bool) -> None:
    with bind(host, 0) as listener:
        assert is_local(listener) is local


def test_systemd_is_told_and_nobody_who_listens_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        systemd.settimeout(5)
        assert systemd.recv(100) == b"READY=1"
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")
    assert "systemd does not hear READY=1: " in caplog.text


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service(model=Slow())


@pytest.fixture
def silent(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address of a server that takes two requests at once, and bears eight silent connections for a second."""
    for name, value in (("MAX_CONCURRENT", 2), ("MAX_SILENT", 8), ("SILENCE", 1.0)):
        monkeypatch.setattr(process, name, value)
    with bind("127.0.0.1", 0) as listener:
        ready = threading.Event()
        server = process.Server(create_app(service), service, 30.0, ready.set, [])
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        assert ready.wait(20)
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join(20)


def test_connections_that_send_no_request_refuse_nobody_and_are_closed(silent: tuple[str, int]) -> None:
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    url = f"http://{silent[0]}:{silent[1]}/healthz"
    with ExitStack() as opened:
        connections = [opened.enter_context(socket.create_connection(silent, timeout=20)) for _ in range(40)]
        for number, connection in enumerate(connections):
            connection.sendall((b"", get, get + b"\r\nGET /", b"x")[number % 4])
        for _ in range(5):
            assert httpx.get(url).status_code == 200
        for connection in connections:
            with suppress(ConnectionResetError):
                while connection.recv(65536):
                    pass  # what was answered; and then the end
        assert httpx.get(url).status_code == 200


def test_a_request_that_takes_long_is_not_silent_and_one_too_many_is_refused(
    silent: tuple[str, int], service: Service
) -> None:
    url, model = f"http://{silent[0]}:{silent[1]}/v1/ask", service.model
    assert isinstance(model, Slow)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(httpx.post, url, json={"question": "Why?"}, timeout=60) for _ in range(2)]
        assert model.begun.wait(20)
        time.sleep(1.5)  # longer than a connection may be silent
        refused = httpx.get(url.replace("/v1/ask", "/healthz"))
        model.go.set()
        assert [each.result().status_code for each in asked] == [200, 200]
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
    assert refused.headers["retry-after"] == "1"
