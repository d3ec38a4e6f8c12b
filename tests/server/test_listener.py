"""The listening socket, its own or inherited, and what systemd is told."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from secl.errors import ParameterError
from secl.server.http import process
from secl.server.http.process import bind, is_local, listening, notify, url


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
