"""One server: what is sent, what is understood, and one sentence for everything that goes wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from secl.backends.vllm.client import CompletionRequest, Endpoint
from secl.errors import ModelError, NotLoadedError, ParameterError, UnavailableError
from tests.backends.vllm.conftest import Fakes
from tests.backends.vllm.fake import FakeVllm, hashed


@pytest.fixture
def fake(fakes: Fakes) -> FakeVllm:
    return fakes()


@pytest.fixture
def endpoint(fake: FakeVllm) -> Iterator[Endpoint]:
    endpoint = Endpoint(fake.url + "/v1/", timeout=5)
    yield endpoint
    endpoint.close()


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(logits - np.log(np.exp(logits).sum()))


def test_log_probabilities_come_back_by_prompt_and_token(endpoint: Endpoint) -> None:
    prompts = [[1, 2], [3]]
    for prompt, (step,) in zip(prompts, endpoint.complete("base", prompts, CompletionRequest(top=5)), strict=True):
        expected = log_softmax(hashed(b"", prompt))
        assert step.token == expected.argmax()
        assert sorted(step.log_p.values()) == pytest.approx(np.sort(expected)[-5:])
        assert all(value == pytest.approx(expected[token]) for token, value in step.log_p.items())


def test_the_log_probability_of_any_token_can_be_had(endpoint: Endpoint) -> None:
    expected = log_softmax(hashed(b"", [1]))
    least = int(expected.argmin())
    ((step,),) = endpoint.complete("base", [[1]], CompletionRequest(top=0, only=least))
    assert step.log_p == {least: pytest.approx(expected[least])}


def test_the_defaults_of_a_model_are_overruled(endpoint: Endpoint, fake: FakeVllm) -> None:
    endpoint.complete("base", [[1]], CompletionRequest())
    sent = fake.asked[0]
    assert (sent["temperature"], sent["repetition_penalty"], sent["top_p"], sent["top_k"]) == (0.0, 1.0, 1.0, 0)


def test_the_tokens_of_whole_texts_can_be_read(endpoint: Endpoint) -> None:
    texts = [[1, 2, 3], [4, 5]]
    for text, row in zip(texts, endpoint.read(texts), strict=True):
        assert row == pytest.approx([log_softmax(hashed(b"", text[:i]))[text[i]] for i in range(1, len(text))])


def test_what_a_server_serves_is_known(endpoint: Endpoint) -> None:
    endpoint.refresh()
    assert (endpoint.base, endpoint.root, endpoint.window) == ("base", "somewhere", 2048)


def test_a_server_that_is_gone_is_unavailable(endpoint: Endpoint, fake: FakeVllm) -> None:
    fake.kill()
    with pytest.raises(UnavailableError, match=r"does not answer \(ConnectError\)"):
        endpoint.complete("base", [[1]], CompletionRequest())


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_or_broken_is_unavailable(endpoint: Endpoint, fake: FakeVllm, status: int) -> None:
    fake.fail = lambda route: status
    with pytest.raises(UnavailableError, match=f"status {status}: out of order"):
        endpoint.complete("base", [[1]], CompletionRequest())


def test_a_server_that_is_too_slow_is_unavailable(fake: FakeVllm) -> None:
    release = threading.Event()
    fake.before = lambda: release.wait(5)
    endpoint = Endpoint(fake.url, timeout=0.1)
    with pytest.raises(UnavailableError, match="ReadTimeout"):
        endpoint.complete("base", [[1]], CompletionRequest())
    release.set()
    endpoint.close()


def test_an_unknown_adapter_is_told_apart_from_a_refusal(endpoint: Endpoint) -> None:
    with pytest.raises(NotLoadedError, match="secl-3"):
        endpoint.complete("secl-3", [[1]], CompletionRequest())
    with pytest.raises(ModelError, match="status 400: Requested sample logprobs of 30"):
        endpoint.complete("base", [[1]], CompletionRequest(top=30))


def test_an_api_key_is_sent(fakes: Fakes) -> None:
    fake = fakes(key="secret")
    for key, fits in (("secret", True), (None, False)):
        endpoint = Endpoint(fake.url, key=key)
        if fits:
            endpoint.refresh()
        else:
            with pytest.raises(ModelError, match="status 401"):
                endpoint.refresh()
        endpoint.close()


def test_spoiled_answers_are_asked_for_again(endpoint: Endpoint, fake: FakeVllm) -> None:
    right = endpoint.complete("base", [[1], [2]], CompletionRequest(top=5))
    fake.spoil = 3
    assert endpoint.complete("base", [[1], [2]], CompletionRequest(top=5)) == right
    assert endpoint.spoiled == 3
    fake.spoil = 99
    with pytest.raises(UnavailableError, match="logprob_token_ids"):
        endpoint.complete("base", [[1]], CompletionRequest(top=5))


def test_something_that_is_no_vllm_server_is_named(
    endpoint: Endpoint, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "answer", lambda *given: (200, {"data": "nothing"}))
    with pytest.raises(UnavailableError, match="no vLLM server"):
        endpoint.refresh()
    with pytest.raises(ModelError, match="log-probabilities"):
        endpoint.complete("base", [[1]], CompletionRequest())
    with pytest.raises(ModelError, match="log-probabilities"):
        endpoint.read([[1, 2]])
    monkeypatch.setattr(json, "dumps", lambda answer: "<html>")
    with pytest.raises(UnavailableError, match="JSON"):
        endpoint.refresh()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="'gpu7:8000' is not a web address"):
        Endpoint("gpu7:8000")
