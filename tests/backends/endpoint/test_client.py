"""Servers that are busy, slow, locked, or break off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from secl.backends.endpoint.client import Endpoint
from secl.errors import ModelError, ParameterError, UnavailableError
from tests.backends.endpoint.fake import FakeServer

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Which city?"}], "max_tokens": 3}
ROUTE = "/chat/completions"
Connect = Callable[..., Endpoint]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes endpoints, which are closed in the end."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(closing(Endpoint(*args, **options)))


def test_a_busy_server_is_asked_three_times_more_after_as_long_as_it_wants(
    connect: Connect, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    server.statuses, server.retry_after = [429, 503, 500], "7"
    assert connect(server.url).post(ROUTE, BODY)["choices"][0]["message"]["content"] == "Lima"
    assert waited.count(7.0) == 3
    server.statuses = [429] * 9
    with pytest.raises(UnavailableError, match=r"/chat/completions refuses with status 429: Not now\."):
        connect(server.url).post(ROUTE, BODY)
    assert len(server.statuses) == 5


def test_a_server_that_is_not_there_is_given_up_and_a_slow_one_is_asked_once(
    connect: Connect, server: FakeServer
) -> None:
    with pytest.raises(UnavailableError, match=r"\(ConnectError\); start the server, or check its address"):
        connect("http://127.0.0.1:9").models()
    server.delay = 1.0
    with pytest.raises(UnavailableError, match=r"does not answer \(ReadTimeout\)"):
        connect(server.url, silence=0.1).post(ROUTE, BODY)
    assert len(server.heard) == 1


def test_a_key_is_sent_to_its_server_and_what_belongs_to_another_is_not(
    connect: Connect, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "private")
    connect(server.url).models()
    assert "private" not in str(server.heard)
    assert "Authorization" not in server.heard[-1]
    server.key = "right"
    assert [card["id"] for card in connect(server.url, key="right").models()] == ["tiny"]
    for key in ("wrong", None):
        with pytest.raises(ModelError, match=r"rejected the API key .*Incorrect API key.*; set SECL_ENDPOINT_KEY"):
            connect(server.url, key=key).models()


def test_an_address_is_a_url_and_may_have_a_path_of_its_own(connect: Connect) -> None:
    for url in ("localhost:8000", "ftp://x", "http://", "http://x/v1?key=1", "http://x:y", "http://[x"):
        with pytest.raises(ParameterError, match=r"is not a URL; write http://HOST:PORT/v1\."):
            connect(url)
    assert connect("http://h:1").url == "http://h:1/v1"
    assert connect("https://h/api/v1/").url == "https://h/api/v1"
