"""The listening socket: one of this server's own, or one that systemd or another parent holds open over restarts.

Clients that connect to an inherited socket while no server runs wait in its backlog, so a restart refuses nobody.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

from secl.errors import ParameterError
from secl.server.http.middleware import is_loopback

FIRST_PASSED = 3
"""The descriptor of the first socket that systemd passes to a process (sd_listen_fds)."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address. Nothing is accepted yet.

    Raises:
        ParameterError: the address is none of this machine's, or is taken.
    """
    if not 0 <= port < 2**16:
        raise ParameterError(f"--port is {port}; it must be from 0 to 65535.")
    with ExitStack() as resources:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = resources.enter_context(socket.socket(family))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except (OSError, UnicodeError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise ParameterError(
                f"cannot listen at {host}, port {port}: {reason}; choose another --host or --port."
            ) from None
        resources.pop_all()
    return listener


def passed_by_systemd() -> int | None:
    """The descriptor of the socket that systemd passes to this process; None if it passes none.

    Its variables are taken out of the environment, so that no child takes the socket for its own.

    Raises:
        ParameterError: several are passed.
    """
    passed = {name: os.environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if passed["LISTEN_PID"] != str(os.getpid()):
        return None
    if passed["LISTEN_FDS"] != "1":
        raise ParameterError(
            f"systemd passes {passed['LISTEN_FDS'] or 'no'} sockets, but a server listens at one; keep a single "
            "ListenStream in its socket unit."
        )
    return FIRST_PASSED


def inherit(descriptor: int) -> socket.socket:
    """The listening socket that the parent of this process opened.

    Raises:
        ParameterError: the descriptor is no listening TCP socket.
    """
    try:
        listener = socket.socket(fileno=descriptor)
    except (OSError, ValueError, OverflowError):
        listener = None
    if listener is None or not _accepts_tcp(listener):
        if listener is not None:
            listener.detach()  # it stays open: it is somebody else's
        raise ParameterError(
            f"file descriptor {descriptor} is no listening TCP socket; a parent opens one and passes it, such as a "
            "systemd socket unit with ListenStream=127.0.0.1:8080."
        )
    listener.set_inheritable(False)
    return listener


def _accepts_tcp(listener: socket.socket) -> bool:
    is_tcp = listener.family in (socket.AF_INET, socket.AF_INET6) and listener.type == socket.SOCK_STREAM
    return is_tcp and bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def is_local(listener: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return is_loopback(str(listener.getsockname()[0]))


def url(listener: socket.socket) -> str:
    """The address of a socket as a client writes it."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
