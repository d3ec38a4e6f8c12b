"""HTTP for fake servers, in threads of the test's process."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Listener:
    """A server that can be killed and started again on its port."""

    def __init__(self) -> None:
        self.open: set[socket.socket] = set()
        self._port = 0
        self._ending = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Begin to listen."""
        self._server = _Server(("127.0.0.1", self._port), Handler, self)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def kill(self) -> None:
        """End at once; running requests get no answer."""
        with self._ending:
            if self._thread.is_alive():
                self._server.shutdown()
                for connection in list(self.open):
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
                self._server.server_close()
                self._thread.join()

    def serve(self, http: Handler, body: dict[str, Any]) -> None:
        """Answer a request, whose body is empty for GET."""
        raise NotImplementedError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], fake: Listener) -> None:
        self.fake = fake
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not report errors of a killed server."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.fake.open.add(self.connection)

    def finish(self) -> None:
        self.server.fake.open.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self.server.fake.serve(self, {})

    def do_POST(self) -> None:
        self.server.fake.serve(self, json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def reply(
        self, status: int, data: bytes, headers: Mapping[str, str], broken: Callable[[bytes], bytes] = bytes
    ) -> None:
        """Send a body, or what `broken` makes of it; 0 for a status closes the connection."""
        sent = broken(data)
        if status:
            self.send_response(status)
            known = {"content-type": "application/json", "content-length": str(len(data))}
            for name, value in {**known, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)
        self.close_connection = self.close_connection or not status or len(sent) < len(data)

    def stream(self, events: Sequence[str], framed: Callable[[str], str] = str) -> None:
        """Send events, or what `framed` makes of their text, then close the connection."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(framed("".join(f"data: {event}\n\n" for event in events)).encode())
        self.close_connection = True

    def log_message(self, *_args: object) -> None:
        """Quiet."""
