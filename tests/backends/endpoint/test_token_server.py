"""What vLLM servers can do beyond OpenAI's API: what is sent, and what is understood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from secl.backends.endpoint.token_server import CompletionRequest, TokenServer
from secl.errors import ModelError, NotLoadedError, QuestionError, UnavailableError
from tests.backends.conftest import Fakes
from tests.backends.endpoint.fake_vllm import FakeVllm, hashed


@pytest.fixture
def fake(fakes: Fakes) -> FakeVllm:
    return fakes()


@pytest.fixture
def server(fake: FakeVllm) -> Iterator[TokenServer]:
    server = TokenServer(fake.url + "/v1/", timeout=5)
    yield server
    server.endpoint.close()


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(logits - np.log(np.exp(logits).sum()))


def test_log_probabilities_come_back_by_prompt_and_token(server: TokenServer) -> None:
    prompts = [[1, 2], [3]]
    for prompt, (step,) in zip(prompts, server.complete("base", prompts, CompletionRequest(top=5)), strict=True):
        expected = log_softmax(hashed(b"", prompt))
        assert step.token == expected.argmax()
        assert sorted(step.log_p.values()) == pytest.approx(np.sort(expected)[-5:])
        assert all(value == pytest.approx(expected[token]) for token, value in step.log_p.items())


def test_the_log_probability_of_any_token_can_be_had(server: TokenServer) -> None:
    expected = log_softmax(hashed(b"", [1]))
    least = int(expected.argmin())
    ((step,),) = server.complete("base", [[1]], CompletionRequest(top=0, only=least))
    assert step.log_p == {least: pytest.approx(expected[least])}


def test_the_defaults_of_a_model_are_overruled(server: TokenServer, fake: FakeVllm) -> None:
    server.complete("base", [[1]], CompletionRequest())
    sent = fake.asked[0]
    assert (sent["temperature"], sent["repetition_penalty"], sent["top_p"], sent["top_k"]) == (0.0, 1.0, 1.0, 0)


def test_the_tokens_of_whole_texts_can_be_read(server: TokenServer) -> None:
    texts = [[1, 2, 3], [4, 5]]
    for text, row in zip(texts, server.read(texts), strict=True):
        assert row == pytest.approx([log_softmax(hashed(b"", text[:i]))[text[i]] for i in range(1, len(text))])


def test_what_a_server_serves_is_known(server: TokenServer) -> None:
    server.refresh()
    assert (server.base, server.root, server.window) == ("base", "somewhere", 2048)


def test_an_unknown_adapter_is_told_apart_from_a_refusal(server: TokenServer) -> None:
    with pytest.raises(NotLoadedError, match="secl-3"):
        server.complete("secl-3", [[1]], CompletionRequest())
    with pytest.raises(QuestionError, match="status 400: Requested sample logprobs of 30"):
        server.complete("base", [[1]], CompletionRequest(top=30))


def test_spoiled_answers_are_asked_for_again(server: TokenServer, fake: FakeVllm) -> None:
    right = server.complete("base", [[1], [2]], CompletionRequest(top=5))
    fake.spoil = 3
    assert server.complete("base", [[1], [2]], CompletionRequest(top=5)) == right
    assert server.spoiled == 3
    fake.spoil = 99
    with pytest.raises(UnavailableError, match="logprob_token_ids"):
        server.complete("base", [[1]], CompletionRequest(top=5))


def test_something_that_is_no_vllm_server_is_named(
    server: TokenServer, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "answer", lambda *given: (200, {"data": "nothing"}))
    with pytest.raises(ModelError, match="does not list its models"):
        server.refresh()
    with pytest.raises(ModelError, match="log-probabilities"):
        server.complete("base", [[1]], CompletionRequest())
    with pytest.raises(ModelError, match="log-probabilities"):
        server.read([[1, 2]])
