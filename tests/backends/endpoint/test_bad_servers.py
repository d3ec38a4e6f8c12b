"""Servers that are busy, slow or locked, or that refuse, break off, answer nonsense or lack log-probabilities."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.model import EndpointModel
from secl.errors import ModelError, ParameterError, QuestionError, UnavailableError
from secl.question import GivenAnswer
from secl.runs.settings import Recipe, RunSettings
from secl.server.online.factory import serving_settings
from secl.writing import SamplingParameters
from tests.backends.endpoint.fake import CHOICE, OPEN, FakeServer
from tests.server.conftest import Patch

OFF = "stopped in the middle of an answer"
NO_JSON = r"does not answer with a JSON object; is http.* the right address"
OTHERWISE = "reply does not have the form of OpenAI's API"


def rated(model: EndpointModel) -> None:
    (outcome,) = model.rate([GivenAnswer(CHOICE, "A")], ())
    if isinstance(outcome, QuestionError):
        raise outcome


def started(model: EndpointModel) -> None:
    EndpointModel(model.endpoint.url, "tiny").close()


ANSWERS: dict[str, Callable[[EndpointModel], object]] = {
    "choice": lambda model: model.answer(CHOICE),
    "open": lambda model: model.answer(OPEN),
    "rating": rated,
}
TEXT: dict[str, Callable[[EndpointModel], object]] = {"text": lambda model: [*model.write(OPEN, SamplingParameters())]}
START: dict[str, Callable[[EndpointModel], object]] = {"start": started}

# (changes of the server, which requests, error, part of its sentence)
BAD: dict[str, tuple[dict[str, Any], dict[str, Callable[[EndpointModel], object]], type[Exception], str]] = {
    "400": ({"statuses": [400] * 9}, ANSWERS | TEXT, QuestionError, r"refuses the request with status 400: Not now\."),
    "400 at the start": (
        {"statuses": [400] * 99},
        START,
        ModelError,
        "refuses each request for log-probabilities.*400",
    ),
    "401": ({"statuses": [401] * 9}, ANSWERS | TEXT | START, ModelError, "denies access .status 401"),
    "429": ({"statuses": [429] * 99}, ANSWERS | TEXT | START, UnavailableError, "refuses the request with status 429"),
    "500": ({"statuses": [500] * 99}, ANSWERS | TEXT | START, UnavailableError, "refuses the request with status 500"),
    "hangs up": ({"statuses": [0] * 99}, ANSWERS | TEXT | START, UnavailableError, OFF),
    "half an answer": ({"broken": lambda body: body[:99]}, ANSWERS | START, UnavailableError, OFF),
    "no chunk": ({"cut": 0}, TEXT, UnavailableError, OFF),
    "half a stream": ({"cut": 2}, TEXT, UnavailableError, OFF),
    "no JSON": ({"broken": lambda body: b"<" * len(body)}, ANSWERS | START, ModelError, NO_JSON),
    "a number": ({"broken": lambda body: b"%*d" % (len(body), 0)}, ANSWERS | START, ModelError, NO_JSON),
    "other JSON": ({"broken": lambda body: b"%-*s" % (len(body), b"{}")}, ANSWERS | START, ModelError, OTHERWISE),
    "no model": ({"models": ["other"]}, ANSWERS | TEXT | START, ModelError, "status 404: The model `tiny` does not"),
}


@pytest.mark.parametrize(("row", "kind"), [(row, name) for row, bad in BAD.items() for name in bad[1]])
def test_a_bad_server_is_told_and_asked_again(model: EndpointModel, server: FakeServer, row: str, kind: str) -> None:
    changes, requests, error, sentence = BAD[row]
    well = {name: getattr(server, name) for name in changes} | {"statuses": []}
    server.change(changes)
    with pytest.raises(error, match=sentence):
        requests[kind](model)
    server.change(well)
    requests[kind](model)


BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Which city?"}], "max_tokens": 3}
ROUTE = "/chat/completions"
Connect = Callable[..., Endpoint]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes endpoints, which are closed in the end."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(closing(Endpoint(*args, **options)))


def test_a_busy_server_is_asked_thrice_more(connect: Connect, server: FakeServer, monkeypatch: Patch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    server.statuses, server.retry_after = [429, 503, 500], "7"
    assert connect(server.url).post(ROUTE, BODY)["choices"][0]["message"]["content"] == "Lima"
    assert waited.count(7.0) == 3
    server.statuses = [429] * 9
    with pytest.raises(UnavailableError, match=r"/chat/completions refuses the request with status 429: Not now\."):
        connect(server.url).post(ROUTE, BODY)
    assert len(server.statuses) == 5


def test_an_absent_server_is_given_up_and_a_slow_one_asked_once(connect: Connect, server: FakeServer) -> None:
    with pytest.raises(UnavailableError, match=r"\(ConnectError\); start the server, or check its address"):
        connect("http://127.0.0.1:9").models()
    server.delay = 1.0
    with pytest.raises(UnavailableError, match=r"does not answer \(ReadTimeout\)"):
        connect(server.url, silence=0.1).post(ROUTE, BODY)
    assert len(server.heard) == 1


def test_a_key_is_sent_to_its_server_alone(connect: Connect, server: FakeServer, monkeypatch: Patch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "private")
    connect(server.url).models()
    assert "private" not in str(server.heard)
    assert "Authorization" not in server.heard[-1]
    server.key = "right"
    assert [card["id"] for card in connect(server.url, key="right").models()] == ["tiny"]
    for key in ("wrong", None):
        with pytest.raises(ModelError, match=r"denies access .*Incorrect API key.*; set SECL_ENDPOINT_KEY"):
            connect(server.url, key=key).models()


def test_an_address_is_a_url_and_may_have_a_path_of_its_own(connect: Connect) -> None:
    for url in ("localhost:8000", "ftp://x", "http://", "http://x:y", "http://[x"):
        with pytest.raises(ParameterError, match=r"is not a URL; write http://HOST:PORT/v1\."):
            connect(url)
    assert connect("http://h:1").url == "http://h:1/v1"
    assert connect("https://h/api/v1/").url == "https://h/api/v1"


WITH_SECRETS = (
    "http://user:SECRET@h:1/v1",
    "https://SECRET@h",
    "http://:SECRET@h",
    "http://user:SE/CRET@h",
    "http://user:SE#CRET@h",
    "http://u://SECRET@h",
    "user:SECRET@h:1",
    "ftp://user:SECRET@h",
    "http://h/v1?api_key=SECRET",
    "http://h/v1?token=SECRET#SECRET",
    "http://h#SECRET",
    "http://[SECRET@h",
)


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_an_address_with_a_secret_is_refused_everywhere_and_never_repeated(connect: Connect, url: str) -> None:
    endpoint = {"model.engine": "openai", "model.endpoint": url}
    for use in (
        lambda: connect(url),
        lambda: RunSettings.of({**endpoint, "stream.benchmarks": ["capitals:3"]}),
        lambda: serving_settings(endpoint),
        lambda: Recipe.of({"model.endpoint": url}),
        lambda: Recipe.model_validate({"model": {"endpoint": url}}),
    ):
        with pytest.raises(ParameterError, match="write http://HOST:PORT/v1") as refusal:
            use()
        assert "SE" not in str(refusal.value).removesuffix("set SECL_ENDPOINT_KEY to the API key.")
    if "://" in url:
        with pytest.raises(ParameterError, match=r"is an address; give it with --endpoint") as refusal:
            Recipe.of({"model.name": url})
        assert "CRET" not in str(refusal.value)
