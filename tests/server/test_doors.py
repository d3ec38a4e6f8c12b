"""Access: keys and roles, sizes of bodies, foreign pages and crafted bytes (docs/deployment.md, Security)."""

import json
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from secl.errors import ParameterError
from secl.server.http.api_keys import KEY_ROLES, KeyRole, Keys
from secl.server.online.service import Service
from secl.server.settings import Limits
from secl.server.store import KEYS_FILE as FILE
from tests.server.conftest import Log, Make, opened

ASKED = {"question": "Why?"}
READS: dict[str, KeyRole] = {
    "/v1/models": "ask", "/metrics": "ask", "/v1/state": "read", "/v1/records": "read", "/v1/records/0": "read",
}  # fmt: skip
DRAWN: tuple[dict[str, Any], ...] = ({"drawn": True}, {"chance": 0.5})
RIGHT = {"record_id": "0", "correct": True}
ORDERS: tuple[tuple[str, Any], ...] = (("pause", {"reason": "x"}), ("resume", None), ("rollback", {"version": 0}))


@pytest.fixture
def service(make_service: Make) -> Service:
    return make_service(limits=Limits(timeout=2))


@pytest.fixture
def keys(service: Service) -> Keys:
    return Keys(service.state.folder)


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_first_key_closes_the_doors_at_once_and_for_good(address: str, keys: Keys, service: Service) -> None:
    assert httpx.post(f"{address}/v1/ask", json=ASKED).status_code == 200
    token = keys.add("a", "read")
    refused = httpx.post(f"{address}/v1/ask", json=ASKED)
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert refused.headers["www-authenticate"] == "Bearer"
    assert httpx.post(f"{address}/v1/ask", json=ASKED, headers=bearing(token)).status_code == 200
    keys.remove("a")  # without the last key, the server stays closed
    for headers in ({}, bearing(token)):
        for path, body in (("ask", ASKED), *ORDERS):
            assert httpx.post(f"{address}/v1/{path}", json=body, headers=headers).status_code == 401
    assert service.position == 2
    keys.path.unlink()
    assert httpx.post(f"{address}/v1/ask", json=ASKED).status_code == 200


def test_wrong_keys_are_turned_away_everywhere(address: str, keys: Keys, service: Service) -> None:
    keys.add("a", "admin")
    for header in ("", "Bearer", "Bearer secl_wrong", "Basic YTpi", "secl_wrong", "bearer é"):
        headers = {b"authorization": header.encode("latin-1")} if header else {}
        with httpx.Client(base_url=address, headers=headers) as client:
            for path in READS:
                assert client.get(path).status_code == 401
            for path, body in (("ask", ASKED), ("feedback", RIGHT), *ORDERS):
                assert client.post(f"/v1/{path}", json=body).status_code == 401
    assert service.position == 0
    for path in ("/healthz", "/readyz", "/openapi.json", "/", "/static/style.css"):
        assert httpx.get(f"{address}{path}").status_code == 200
    assert httpx.get(f"{address}/docs", follow_redirects=True).url.path == "/openapi.json"
    assert 'data-locked="' in httpx.get(f"{address}/").text


def requests_of(name: str) -> tuple[tuple[KeyRole, str, str, Any], ...]:
    """The lowest role, method, path and body of requests by the client of a record."""
    mine = {**RIGHT, "record_id": name}
    return (
        ("ask", "POST", "/v1/ask", ASKED),
        *((role, "GET", path, None) for path, role in READS.items()),
        ("ask", "GET", f"/v1/records/{name}", None),
        ("ask", "POST", "/v1/feedback", mine),
        ("read", "POST", "/v1/feedback", RIGHT),  # numbers of records can be guessed
        *(("review", "POST", "/v1/feedback", {**mine, **drawn}) for drawn in DRAWN),
        *(("admin", "POST", f"/v1/{path}", body) for path, body in ORDERS),
    )


def test_each_role_has_its_rights_and_no_more(address: str, keys: Keys) -> None:
    for number, role in enumerate(KEY_ROLES):
        with httpx.Client(base_url=address, headers=bearing(keys.add(role, role))) as client:
            name = client.post("/v1/ask", json=ASKED).json()["record_id"]
            for needed, method, path, body in requests_of(name):
                reply = client.request(method, path, json=body)
                if number >= KEY_ROLES.index(needed):
                    assert reply.status_code == 200, (role, path, body)
                    continue
                error = reply.json()["error"]
                assert (reply.status_code, error["type"]) == (403, "permission_error")
                assert (error["code"], "Why?" in reply.text) == (f"needs_{needed}", False)
            for path in ("/", "/records", "/records/0", "/review"):
                locked = number < KEY_ROLES.index("review" if path == "/review" else "read")
                assert ('data-locked="' in client.get(path).text) is locked
            assert client.get("/v1/records/rec_0123456789abcdef01234567").status_code == 404


def test_only_a_key_for_reviews_changes_a_drawn_label(address: str, keys: Keys, service: Service) -> None:
    right = {**RIGHT, "record_id": httpx.post(f"{address}/v1/ask", json=ASKED).json()["record_id"]}
    read, review = (bearing(keys.add(role, role)) for role in ("read", "review"))

    def said(headers: dict[str, str], **more: object) -> int:
        return httpx.post(f"{address}/v1/feedback", json={**right, **more}, headers=headers).status_code

    assert [said(read, correct=False), said(review, drawn=True)] == [200, 200]
    assert [(label.chance, label.source) for label in service.state.labels()] == [(1.0, "review")]
    assert [said(read, correct=correct) for correct in (True, False, None)] == [403, 403, 403]
    assert said(review, correct=None) == 200


def test_keys_that_are_made_and_removed_at_the_same_time_are_there_and_gone(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    for number in range(16):
        keys.add(f"old {number}", "ask")
    with ThreadPoolExecutor(8) as pool:
        done: list[Future[Any]] = [pool.submit(Keys(tmp_path).remove, f"old {number}") for number in range(16)]
        made = [pool.submit(Keys(tmp_path).add, f"new {number}", "ask") for number in range(16)]
        twice = pool.submit(Keys(tmp_path).remove, "old 0")
    assert {key.name for key in keys.all()} == {f"new {number}" for number in range(16)}
    assert all(keys.find(each.result()) for each in made)
    assert sum(each.exception() is not None for each in (*done, twice)) == 1


@pytest.mark.parametrize("loopback", [True, False])
def test_a_broken_key_file_closes_the_server(service: Service, keys: Keys, loopback: bool, caplog: Log) -> None:
    token, file = keys.add("a", "admin"), service.state.folder / FILE
    good = file.read_text()
    with opened(service, loopback=loopback) as address:
        for content in ("?", '[{"name": "a", "role": "admin", "sha256": ""}]'):
            file.write_text(content)
            for headers in ({}, bearing(token), bearing("x")):
                refused = httpx.post(f"{address}/v1/ask", json=ASKED, headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "keys")
                assert str(service.state.folder) not in refused.text
            assert httpx.get(f"{address}/healthz").status_code == 200
            file.write_text(good)
            assert httpx.post(f"{address}/v1/ask", json=ASKED, headers=bearing(token)).status_code == 200
    said = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    ends = ["rejecting every request", "the server can read the API keys again"]
    assert [line.partition(":")[0] for line in said] == ends * 2


def test_only_the_names_of_this_machine_are_taken_without_keys(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        crafted = (
            "evil@localhost",
            "localhost#.evil",
            "localhost/.evil",
            "localhost?x",
            "localhost\\.evil",
            "localhost:x",
        )
        named = ("evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "localhost:0")
        for host in (*named, *crafted):
            for method, path in (("GET", "/"), ("GET", "/v1/state"), ("POST", "/v1/ask")):
                reply = client.request(method, path, headers={"host": host}, json=ASKED)
                assert (reply.status_code, reply.json()["error"]["code"]) == (403, "host_not_allowed"), host
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:80", "127.8.9.1"):
            assert client.get("/v1/models", headers={"host": host}).status_code == 200


def test_a_page_of_another_origin_cannot_ask_or_steer(address: str, service: Service) -> None:
    scheme = address.replace("http", "evil", 1)
    foreign = [
        {"origin": origin} for origin in ("https://evil.example", "null", address + "1", scheme, address[7:], "")
    ]
    for headers in (*foreign, {"sec-fetch-site": "cross-site"}):
        for path, body in (("ask", ASKED), *ORDERS):
            reply = httpx.post(f"{address}/v1/{path}", json=body, headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert service.position == 0
    assert httpx.post(f"{address}/v1/ask", json=ASKED, headers={"origin": address}).status_code == 200


def test_a_form_of_a_foreign_page_is_no_json(address: str) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        reply = httpx.post(f"{address}/v1/ask", content=b'{"question": "Why?"}', headers={"content-type": kind})
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_content_type")
        assert "Content-Type: application/json" in reply.json()["error"]["message"]


def test_ten_megabytes_are_refused_and_the_client_hears_why(address: str, service: Service) -> None:
    large = b'{"question": "' + b"a" * 10_000_000 + b'"}'
    pieces = (large[i : i + 65536] for i in range(0, len(large), 65536))
    for content in (large, pieces):
        reply = httpx.post(f"{address}/v1/ask", content=content, headers={"content-type": "application/json"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
    assert service.position == 0


def test_a_request_with_two_ends_is_refused_and_its_connection_is_closed(address: str, service: Service) -> None:
    """Behind a proxy that trusts the other header, the rest of such a body would be a request of another client."""
    at = urlsplit(address)
    head = "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    smuggled = "GET /v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n"
    chunked = f"1b\r\n{json.dumps({'question': 'Why is it so?'})[:27]}\r\n0\r\n\r\n{smuggled}"
    for headers in (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        f"Transfer-Encoding: chunked\r\nContent-Length: {len(chunked)}\r\n",
    ):
        with socket.create_connection((at.hostname, at.port), timeout=10) as connection:
            connection.sendall(f"{head}{headers}\r\n{chunked}".encode())
            replies = b"".join(iter(lambda: connection.recv(65536), b""))  # up to the end of the connection
        assert (replies.count(b"HTTP/1.1 "), replies[:12]) == (1, b"HTTP/1.1 400"), replies
    assert service.position == 0


def test_a_body_that_does_not_come_is_not_waited_for(address: str) -> None:
    at, began = urlsplit(address), time.monotonic()
    with socket.create_connection((at.hostname, at.port), timeout=10) as connection:
        connection.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")
    assert 1.5 < time.monotonic() - began < 8


def test_the_log_has_no_text_and_key(address: str, keys: Keys, caplog: Log, capfd: Any) -> None:
    caplog.set_level("DEBUG", logger="secl")
    token = keys.add("a", "admin")
    for headers in (bearing(token), bearing(token + "x"), {}):
        httpx.post(f"{address}/v1/ask?hint=secret", json={"question": "a private matter"}, headers=headers)
        httpx.post(f"{address}/v1/ask", json={"question": {"a private": "matter"}}, headers=headers)
        httpx.get(f"{address}/healthz", headers=headers)
        httpx.get(f"{address}/v1/records/rec_%0Asecond%20line", headers=headers)
    said = [record for record in caplog.records if record.name == "secl.server"]
    lines = {record.getMessage().rsplit(" ", 2)[0]: record.levelname for record in said}
    assert lines["POST /v1/ask 200"] == "INFO"
    assert lines["GET /healthz 200"] == "DEBUG"
    assert lines["GET /v1/records/rec_%0Asecond%20line 404"] == "INFO"
    assert not [record for record in said if "secret" in record.getMessage()]
    written = caplog.text + "".join(capfd.readouterr())
    assert "private" not in written
    assert token not in written


INJECTED = "x\r\nSet-Cookie: stolen=1\r\n\r\n<html>"


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


def test_no_path_leads_out_of_the_files_of_the_page(address: str) -> None:
    for path in ("..%2fapp.py", "%2e%2e/%2e%2e/app.py", "../../../etc/passwd", "/etc/passwd"):
        # A client library would change such a path.
        with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port), timeout=10) as connection:
            connection.sendall(f"GET /static/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
        assert reply.startswith(b"HTTP/1.1 404 ")
        assert b"root:" not in reply
        assert b"import" not in reply


def test_a_file_without_keys_or_an_unreadable_one_is_refused(tmp_path: Path) -> None:
    for text in ("", "{}x", "[1]", '[{"name": "a", "role": "root", "sha256": "0"}]', "5"):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(ParameterError, match="holds no list of keys"):
            Keys(tmp_path).find("x")
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(ParameterError, match=r"secl cannot read .*keys\.json: Is a directory; "):
        Keys(tmp_path).find("x")
