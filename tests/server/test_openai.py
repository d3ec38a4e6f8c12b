"""A client that knows nothing of us: the package `openai`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from secl.server.http.app import create_app
from secl.server.online.service import Service
from tests.server.conftest import MakeService
from tests.server.doors import opened

pytestmark = pytest.mark.heavy

ASKED: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
CITIES = {"secl": {"options": ["Rome", "Paris", "Bern"]}}


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service()


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    with opened(create_app(service)) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_a_chat_is_answered_with_the_answer_alone(client: openai.OpenAI, service: Service) -> None:
    completion = client.chat.completions.create(model="scripted", messages=ASKED)
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].message.content == "no idea"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.id == "chatcmpl-rec_00000000"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens == 10
    question = service.state.served(0).record.question
    assert (question.text, question.form) == (ASKED[0]["content"], "sentence")


def test_the_confidence_is_beside_the_answer(client: openai.OpenAI) -> None:
    completion: Any = client.chat.completions.create(model="scripted", messages=ASKED)
    assert set(completion.secl) == {
        "confidence", "accepted", "accept",
        "source", "low", "high", "labels", "label_free", "remark", "informed",
        "own_answer", "own_confidence", "best_answer", "best_confidence",
        "candidates", "stated_confidence", "bins", "digit_mass", "frozen_confidence", "entropy", "adapter_version",
        "adapting", "record_id", "stored", "verdict", "warnings",
    }  # fmt: skip
    assert completion.secl["confidence"] == pytest.approx(0.85)
    assert len(completion.secl["bins"]) == 10


def test_options_make_it_multiple_choice(client: openai.OpenAI, service: Service) -> None:
    completion = client.chat.completions.create(model="scripted", messages=ASKED, extra_body=CITIES)
    assert completion.choices[0].message.content in ("A. Rome", "B. Paris", "C. Bern")
    assert service.state.served(0).record.question.options == ("Rome", "Paris", "Bern")


@pytest.mark.parametrize("form", ["short", "sentence", "number"])
def test_the_form_of_the_answer_can_be_wished_for(client: openai.OpenAI, service: Service, form: str) -> None:
    client.chat.completions.create(model="scripted", messages=ASKED, extra_body={"secl": {"form": form}})
    assert service.state.served(0).record.question.form == form


def test_a_stream_says_the_same_in_pieces(client: openai.OpenAI, service: Service) -> None:
    service.learner.pause("so that both are answered alike")
    whole: Any = client.chat.completions.create(model="scripted", messages=ASKED)
    pieces: list[Any] = list(client.chat.completions.create(model="scripted", messages=ASKED, stream=True))
    assert pieces[0].choices[0].delta.role == "assistant"
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert text == whole.choices[0].message.content
    assert [piece.choices[0].finish_reason for piece in pieces] == [None, None, "stop"]
    assert len({piece.id for piece in pieces}) == 1
    assert pieces[-1].secl | {"record_id": 0, "entropy": 0} == whole.secl | {"record_id": 0, "entropy": 0}
    assert pieces[-1].secl["record_id"] == "rec_00000001"


def test_a_stream_has_its_usage_at_the_end_where_it_is_wished_for(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="scripted", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    *others, last = stream
    assert all(piece.usage is None for piece in others)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.total_tokens == 10


def test_a_stream_is_server_sent_events_that_end_with_done(address: str) -> None:
    body = {"model": "scripted", "messages": ASKED, "stream": True}
    with httpx.stream("POST", f"{address}/v1/chat/completions", json=body) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in reply.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(json.loads(line.removeprefix("data: "))["object"] == "chat.completion.chunk" for line in lines[:-1])


def test_connections_that_close_in_mid_stream_harm_nobody(
    address: str, client: openai.OpenAI, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"model": "scripted", "messages": ASKED, "stream": True}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    at = urlsplit(address)
    for sent in (len(whole), len(whole), len(whole) - 5, 30):
        with socket.create_connection((at.hostname, at.port), timeout=5) as connection:
            connection.sendall(whole[:sent])
            if sent == len(whole):
                connection.recv(20)
    completion: Any = client.chat.completions.create(model="scripted", messages=ASKED)
    assert completion.secl["record_id"] == "rec_00000002"
    assert caplog.text == ""


def test_a_whole_conversation_is_context_of_its_last_turn(client: openai.OpenAI, service: Service) -> None:
    client.chat.completions.create(
        model="scripted",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Capital of"}, {"type": "text", "text": "France?"}]},
            {"role": "assistant", "content": "Paris"},
            {"role": "user", "content": "And of Italy?"},
        ],
    )
    question = service.state.served(0).record.question
    assert (question.text, question.system) == ("And of Italy?", "Be brief.")
    assert question.context == "User: Capital of\nFrance?\nAssistant: Paris"


def test_fields_that_steer_sampling_are_taken_and_change_nothing(client: openai.OpenAI) -> None:
    plain = client.chat.completions.create(model="scripted", messages=ASKED)
    steered = client.chat.completions.create(
        model="scripted", messages=ASKED, temperature=1.7, top_p=0.1, seed=3, max_tokens=1, max_completion_tokens=1,
        stop=["n"], n=1, presence_penalty=1, frequency_penalty=1, logit_bias={"5": 1}, user="me", logprobs=False,
        response_format={"type": "text"}, extra_body={"top_k": 5, "nobody_knows": {"this": 1}},
    )  # fmt: skip
    assert steered.choices == plain.choices


def test_the_models_are_the_one(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("scripted").owned_by == "secl"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/other")


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-4o", messages=ASKED)
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert "'scripted'" in refused.value.message


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages"),
    "an image": ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages.0.content.0"),
    "no text": ({"messages": [{"role": "user", "content": " "}]}, "messages.0.content"),
    "null": ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
    "no parts": ({"messages": [{"role": "user", "content": []}]}, "messages.0.content"),
    "a tool's result": ({"messages": [{"role": "tool", "content": "5", "tool_call_id": "a"}]}, "messages.0.role"),
    "the assistant last": ({"messages": [*ASKED, {"role": "assistant", "content": "Paris"}]}, "messages.1.role"),
    "the system alone": ({"messages": [{"role": "system", "content": "Be brief."}]}, "messages.0.role"),
    "an unknown role": ({"messages": [{"role": "wizard", "content": "Hm?"}]}, "messages.0.role"),
    "two answers": ({"n": 2}, "n"),
    "no answers": ({"n": 0}, "n"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    "log-probabilities": ({"logprobs": True}, "logprobs"),
    "a schema": ({"response_format": {"type": "json_object"}}, "response_format"),
    "sound": ({"modalities": ["text", "audio"]}, "modalities"),
    "a stray wish": ({"extra_body": {"secl": {"option": ["a", "b"]}}}, "secl.option"),
    "an unknown form": ({"extra_body": {"secl": {"form": "poem"}}}, "secl.form"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_had_is_refused_and_named(client: openai.OpenAI, service: Service, why: str) -> None:
    fields, param = REFUSED[why]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": "scripted", "messages": ASKED, **fields})
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"
    assert service.position == 0


def test_one_option_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="single option"):
        client.chat.completions.create(model="scripted", messages=ASKED, extra_body={"secl": {"options": ["a"]}})
