"""The listening socket, its own or inherited, and what systemd is told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from secl.errors import ParameterError
from secl.server.http.process import FIRST_PASSED, bind, inherit, is_local, notify, passed_by_systemd, url


def test_an_inherited_socket_is_the_same_one_and_no_child_gets_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as parent:
        duplicate = os.dup(parent.fileno())
        os.set_inheritable(duplicate, True)
        with inherit(duplicate) as listener:
            assert listener.getsockname() == parent.getsockname()
            assert not listener.get_inheritable()
            assert url(listener) == f"http://127.0.0.1:{parent.getsockname()[1]}/"


@pytest.fixture
def something_else(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    if request.param == "file":
        with (tmp_path / "file").open("w") as file:
            yield file.fileno()
    elif isinstance(request.param, int):
        yield request.param
    else:
        with socket.socket(*request.param) as other:
            yield other.fileno()


OTHERS: dict[str, object] = {
    "no listener": (socket.AF_INET, socket.SOCK_STREAM),
    "UDP": (socket.AF_INET, socket.SOCK_DGRAM),
    "Unix": (socket.AF_UNIX, socket.SOCK_STREAM),
    "file": "file",
    "closed": 1000,
    "negative": -1,
    "huge": 2**80,
}


@pytest.mark.parametrize("something_else", OTHERS.values(), ids=OTHERS.keys(), indirect=True)
def test_what_is_no_listening_tcp_socket_is_refused_and_left_as_it_was(something_else: int) -> None:
    with pytest.raises(ParameterError, match=f"descriptor {something_else} is no listening TCP socket"):
        inherit(something_else)


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)]
)
def test_a_socket_is_local_by_its_own_address(host: str, local: bool) -> None:
    with bind(host, 0) as listener:
        assert is_local(listener) is local


@pytest.mark.parametrize(
    ("owner", "count", "found"), [("me", "1", FIRST_PASSED), ("other", "1", None), ("", "", None), ("", "1", None)]
)
def test_the_socket_of_systemd_is_found_if_it_is_for_this_process(
    monkeypatch: pytest.MonkeyPatch, owner: str, count: str, found: int | None
) -> None:
    monkeypatch.setenv("LISTEN_PID", {"me": str(os.getpid()), "other": "1"}.get(owner, ""))
    monkeypatch.setenv("LISTEN_FDS", count)
    assert passed_by_systemd() == found
    assert not {"LISTEN_PID", "LISTEN_FDS"} & set(os.environ)


@pytest.mark.parametrize("count", ["2", "0", "", "x"])
def test_another_number_of_sockets_is_refused(monkeypatch: pytest.MonkeyPatch, count: str) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", count)
    with pytest.raises(ParameterError, match=f"systemd passes {count or 'no'} sockets"):
        passed_by_systemd()


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, abstract: bool) -> None:
    name = f"secl-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name}" if abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if abstract else name)
        notify("READY=1")
        systemd.settimeout(5)
        assert systemd.recv(100) == b"READY=1"


def test_nobody_who_listens_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    assert not caplog.records
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")
    assert "systemd does not hear READY=1: " in caplog.text
