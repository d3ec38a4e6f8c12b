"""Streams end before a slow confidence, which its record has later."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from secl.errors import StorageError
from secl.server.http import streams
from secl.server.online.service import Service
from tests.server.conftest import Make, Patch, raising
from tests.server.test_openai import TEXT, ask
from tests.server.waiting import Slow, until


@pytest.fixture
def model() -> Iterator[Slow]:
    model = Slow()
    yield model
    model.go.set()


@pytest.fixture
def service(make_service: Make, model: Slow) -> Service:
    return make_service(model=model)


def record_of(sdk: openai.OpenAI, name: str) -> Any:
    return json.loads(sdk.get(f"/records/{name}", cast_to=httpx.Response).text)


def test_a_stream_ends_before_a_slow_confidence_found_later(sdk: openai.OpenAI, model: Slow, service: Service) -> None:
    usage = {"include_usage": True}
    chunks = list(ask(sdk, stream=True, n=2, stream_options=usage))  # up to [DONE], while the model still computes
    assert model.begun.wait(60)
    assert not model.go.is_set()
    *_, first, second, usage = chunks
    assert [each.choices[0].finish_reason for each in (first, second)] == ["stop", "stop"]
    assert (usage.choices, usage.usage.total_tokens) == ([], 6 + 18)
    assert all(each.usage is None for each in chunks[:-1])
    names = [each.secl["record_id"] for each in (first, second)]
    assert len(set(names)) == 2
    for each, name in zip((first, second), names, strict=True):
        assert (each.secl["confidence"], each.choices[0].secl) == (None, each.secl)
        assert f"GET /v1/records/{name}" in each.secl["reason"]
    with pytest.raises(openai.NotFoundError, match="yet; ask again"):
        record_of(sdk, names[0])
    model.go.set()
    until(lambda: len(service.state) == 2)
    until(lambda: not service.texts.unrated)
    for position, name in enumerate(names):
        told = record_of(sdk, name)
        assert (told["record_id"], told["record"]["position"]) == (name, position)
        assert told["record"]["confidence"] == pytest.approx(0.85)
        assert told["record"]["reply"]["text"] == TEXT
    sdk.post("/feedback", body={"record_id": names[1], "correct": True}, cast_to=object)
    assert service.state.served(1).label is True


def test_a_stream_of_a_text_that_took_long_waits_longer(sdk: openai.OpenAI, model: Slow, monkeypatch: Patch) -> None:
    monkeypatch.setattr(streams, "GRACE", 0.001)
    monkeypatch.setattr(streams, "SHARE_OF_TEXT", 1e6)
    threading.Timer(0.2, model.go.set).start()
    *_, last = ask(sdk, stream=True)
    assert last.secl["confidence"] == pytest.approx(0.85)


@pytest.mark.parametrize("error", [RuntimeError("broken"), StorageError("the disk is full.")], ids=str)
def test_a_lost_confidence_is_told_so(sdk: Any, model: Slow, service: Service, monkeypatch: Patch, error: Any) -> None:
    monkeypatch.setattr(service.state, "add_answers", raising(error))
    *_, last = ask(sdk, stream=True)
    name = last.secl["record_id"]
    model.go.set()
    until(lambda: name in service.unstored)
    with pytest.raises(openai.NotFoundError, match="could not compute or store the confidence") as why:
        record_of(sdk, name)
    assert why.value.code == "record_not_stored"
    assert (service.failures, service.ready) == (int(isinstance(error, RuntimeError)), True)


@pytest.mark.parametrize("stream", [False, True])
def test_an_unwanted_confidence_is_not_made(sdk: openai.OpenAI, model: Slow, service: Service, stream: bool) -> None:
    reply = ask(sdk, stream=stream, n=2, extra_body={"secl": {"confidence": False}}, logprobs=True)
    chunks = list(reply) if stream else [reply]
    choices = [choice for chunk in chunks for choice in chunk.choices if choice.finish_reason == "stop"]
    unrated = [(each.index, each.secl["confidence"], each.secl["record_id"]) for each in choices]
    assert unrated == [(0, None, None), (1, None, None)]
    if not stream:
        assert {choice.message.content for choice in choices} == {TEXT}
    assert not model.begun.is_set()
    assert len(service.state) == 0


def test_a_stream_waits_for_a_slow_confidence_if_the_request_says_so(sdk: openai.OpenAI, model: Slow) -> None:
    chunks = ask(sdk, stream=True, extra_body={"secl": {"wait": True}})
    text = ""
    for chunk in chunks:
        text += chunk.choices[0].delta.content or ""
        if text == TEXT:
            break
    assert model.begun.wait(60)
    timer = threading.Timer(1.0, model.go.set)
    timer.start()
    *_, last = chunks
    timer.join()
    assert last.secl["confidence"] == pytest.approx(0.85)


@pytest.mark.parametrize("route", ["/responses", "/completions", "/embeddings", "/images/generations", "/chat"])
def test_a_route_that_the_server_lacks_names_the_one_it_has(sdk: openai.OpenAI, route: str) -> None:
    with pytest.raises(
        openai.NotFoundError, match=f"no /v1{route}; send the conversation as messages to /v1/chat"
    ) as why:
        sdk.post(route, body={"input": "Hello"}, cast_to=object)
    assert why.value.code == "http_404"
    with pytest.raises(openai.NotFoundError, match="base URL of the API ends with /v1"):
        sdk.with_options(base_url=str(sdk.base_url).replace("/v1", "/v2")).post(route, body={}, cast_to=object)
