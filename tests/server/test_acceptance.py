"""A server with a threshold: what it accepts, and examples/route.py that sends it on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from examples.route import Endpoint, route
from secl.server.http.app import create_app
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.doors import opened

OPTIONS = {"question": "Capital of France?", "options": ["Rome", "Paris", "Bern"]}
CHAT: dict[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}


@pytest.fixture
def client(make_service: MakeService) -> Any:
    """Opens a client to a server whose model states 0.85 of everything."""

    @contextmanager
    def make(accept: float | None) -> Iterator[httpx.Client]:
        threshold = {} if accept is None else {"loop.accept": accept}
        service = make_service(f"state-{accept}", settings={"method": "stated", **threshold})
        with opened(create_app(service)) as address, httpx.Client(base_url=address, timeout=60) as client:
            yield client

    return make


@pytest.mark.parametrize(("accept", "accepted"), [(0.8, True), (0.9, False)])
def test_a_reply_says_whether_it_reaches_the_threshold(client: Any, accept: float, accepted: bool) -> None:
    with client(accept) as http:
        asked = http.post("/v1/ask", json={**OPTIONS, "detail": "full"}).json()
        chat = http.post("/v1/chat/completions", json={**CHAT, "secl": {"detail": "full"}}).json()["secl"]
        for reply in (asked, chat):
            assert (reply["accepted"], reply["detail"]["accept"]) == (accepted, accept)
        # It is marked, and given all the same.
        assert http.post("/v1/ask", json=OPTIONS).json()["letter"] in ("A", "B", "C")
        assert f'secl_accepted_total{{accepted="{str(accepted).lower()}"}} 3.0' in http.get("/metrics").text


def test_without_a_threshold_nothing_is_said(client: Any) -> None:
    with client(None) as http:
        reply = http.post("/v1/ask", json={**OPTIONS, "detail": "full"}).json()
        assert (reply["accepted"], reply["detail"]["accept"]) == (None, None)


def test_what_the_small_model_does_not_accept_goes_to_the_large_one(make_service: MakeService) -> None:
    questions = toy_stream(12)
    service, larger = (
        make_service(settings={"method": "posterior", "loop.answer": "own", "loop.accept": 0.27}),
        make_service("large", settings={"method": "stated"}),
    )
    with opened(create_app(service)) as small, opened(create_app(larger)) as large:
        first, second = Endpoint.at(f"{small}/v1", 0.1, "none"), Endpoint.at(f"{large}/v1", 2.0, "none")
        answers = list(route(questions, first, second))
    assert {each.by for each in answers} == {"small", "large"}
    assert [each.by for each in answers] == ["small" if each.confidence >= 0.27 else "large" for each in answers]
    spent = [record.ledger.total for record in service.state.store.records()]
    assert [each.paid_small for each in answers] == pytest.approx([0.1 * tokens / 1000 for tokens in spent])
    sent_on = [each for each in answers if each.by == "large"]
    asked = [record.question.text for record in larger.state.store.records()]
    assert asked == [
        each.question.text + "".join(f"\n{letter}. {each.question.option(letter)}" for letter in each.question.letters)
        for each in sent_on
    ]
    assert [each.answer for each in sent_on] == [record.reply.text for record in larger.state.store.records()]
    assert all(each.paid_large > each.paid_small for each in sent_on)
    assert all(each.answer in each.question.options for each in answers if each.by == "small")
    assert all(record.accept == 0.27 for record in service.state.store.records())
