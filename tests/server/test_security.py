"""What docs/deployment.md promises (Security) and no other file of these tests checks; the page names the others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from secl.server.http.app import create_app
from secl.server.online.service import Service
from secl.server.settings import HttpSettings
from tests.server.conftest import MakeService
from tests.server.doors import opened

ROOT = Path(__file__).parent.parent.parent
INJECTED = "x\r\nSet-Cookie: stolen=1\r\n\r\n<html>"


@pytest.fixture(scope="module")
def service(share_service: MakeService) -> Service:
    return share_service()


@pytest.fixture(scope="module")
def address(service: Service) -> Iterator[str]:
    with opened(create_app(service, settings=HttpSettings(timeout=5))) as address:
        yield address


def raw(address: str, request: bytes) -> bytes:
    """What comes back for bytes that no client library would send, until the server closes the connection."""
    at = urlsplit(address)
    with socket.create_connection((at.hostname, at.port), timeout=10) as connection:
        connection.sendall(request)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_nothing_of_a_request_becomes_a_header_of_its_reply(address: str) -> None:
    asked = {"question": INJECTED, "options": [INJECTED, "b"], "domain": INJECTED, "context": INJECTED}
    chat = {"model": "scripted", "messages": [{"role": "user", "content": INJECTED}], "secl": {"domain": INJECTED}}
    with httpx.Client(base_url=address) as client:
        replies = [
            client.post("/v1/ask", json=asked),
            client.post("/v1/chat/completions", json=chat),
            client.post("/v1/chat/completions", json={**chat, "stream": True}),
            client.post("/v1/chat/completions", json={**chat, "model": INJECTED}),
            client.post("/v1/feedback", json={"record_id": INJECTED, "correct": True}),
            client.get("/v1/records/x%0d%0aSet-Cookie:%20stolen=1"),
            client.get("/x%0d%0aSet-Cookie:%20stolen=1", headers={"origin": "x", "x-request-id": "stolen"}),
        ]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 404, 404, 404, 404]
    for reply in replies:
        assert "set-cookie" not in reply.headers
        assert "stolen" not in str(reply.headers)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /v1/models\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000,
    ],
    ids=["NUL", "two hosts", "two lengths", "negative length", "no version", "TLS", "endless path"],
)
def test_what_is_no_http_is_refused_and_the_next_client_is_served(
    address: str, head: bytes, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    position = service.position
    assert raw(address, head).startswith(b"HTTP/1.1 400 ")
    assert httpx.get(f"{address}/v1/models").status_code == 200
    assert service.position == position
    assert "Traceback" not in caplog.text
    assert "evil" not in caplog.text


@pytest.mark.parametrize(
    "path",
    ["/static/..%2fapp.py", "/static/%2e%2e/%2e%2e/app.py", "/static/../../../etc/passwd", "/static//etc/passwd"],
)
def test_no_path_leads_out_of_the_files_of_the_page(address: str, path: str) -> None:
    reply = raw(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.1 404 ")
    assert b"root:" not in reply
    assert b"import" not in reply
