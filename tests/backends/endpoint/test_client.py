"""Servers that are busy, slow, locked, or break off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from secl.backends.endpoint.client import Endpoint
from secl.errors import ModelError, ParameterError, QuestionError, UnavailableError
from tests.backends.endpoint.fake import FakeServer

BODY = {"messages": [{"role": "user", "content": "Which city?"}], "max_tokens": 3, "logprobs": True, "top_logprobs": 2}
ROUTE = "/chat/completions"
Connect = Callable[..., Endpoint]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes endpoints, which are closed in the end."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(closing(Endpoint(*args, **options)))


def test_one_that_stays_busy_is_not_available_and_says_why(connect: Connect, server: FakeServer) -> None:
    server.statuses = [429] * 9
    with pytest.raises(UnavailableError, match=r"/chat/completions answers with status 429: Not now\."):
        connect(server.url).post(ROUTE, BODY)
    assert len(server.statuses) == 5


def test_a_busy_server_is_asked_again_after_as_long_as_it_wants(
    connect: Connect, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    server.statuses, server.retry_after = [429, 503, 500], "7"
    assert connect(server.url).post(ROUTE, BODY)["choices"][0]["message"]["content"] == "Lima"
    assert waited.count(7.0) == 3


def test_a_server_that_is_slow_or_not_there_is_given_up(connect: Connect, server: FakeServer) -> None:
    server.delay = 1.0
    with pytest.raises(UnavailableError, match="does not answer \\(ReadTimeout\\)"):
        connect(server.url, timeout=0.1).post(ROUTE, BODY)
    with pytest.raises(UnavailableError, match="does not answer \\(ConnectError\\)"):
        connect("http://127.0.0.1:9").models()


def test_a_refusal_quotes_the_server(connect: Connect, server: FakeServer) -> None:
    with pytest.raises(QuestionError, match="refuses with status 400: Unsupported parameter: use 'max_tokens' instead"):
        connect(server.url).post(ROUTE, {"messages": []})


def test_a_key_is_sent_and_a_wrong_one_is_named(connect: Connect, server: FakeServer) -> None:
    server.key = "right"
    assert [card["id"] for card in connect(server.url, key="right").models()] == ["tiny"]
    for key in ("wrong", None):
        with pytest.raises(ModelError, match=r"wants a key .*Incorrect API key.*; set SECL_ENDPOINT_KEY"):
            connect(server.url, key=key).models()


@pytest.mark.parametrize(
    ("broken", "error", "sentence"),
    [
        (lambda body: body[: len(body) // 2], UnavailableError, "broke off in the middle of an answer"),
        (lambda body: b"<" * len(body), ModelError, r"does not answer in JSON; is http.* the right address"),
    ],
)
def test_half_an_answer_is_none_and_one_that_is_no_json_comes_from_another_address(
    connect: Connect, server: FakeServer, broken: Any, error: Any, sentence: str
) -> None:
    server.broken = broken
    with pytest.raises(error, match=sentence):
        connect(server.url).post(ROUTE, BODY)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://x/v1?key=1"])
def test_an_address_must_be_one(connect: Connect, url: str) -> None:
    with pytest.raises(ParameterError, match="is not a web address"):
        connect(url)


def test_a_base_address_may_have_a_path_of_its_own(connect: Connect) -> None:
    assert connect("http://h:1").url == "http://h:1/v1"
    assert connect("https://h/api/v1/").url == "https://h/api/v1"
