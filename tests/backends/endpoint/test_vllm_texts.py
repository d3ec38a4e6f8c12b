"""A long text behind a vLLM server costs a few requests, with the results of one request per token."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secl.backends.base import Bundle
from secl.backends.endpoint.vllm import engine as vllm_engine
from secl.backends.endpoint.vllm.engine import VllmReading
from secl.backends.local.model import LocalModel
from secl.model import ModelAnswer
from secl.question import GivenAnswer, Question
from secl.writing import Chunk, SamplingParameters, joined
from tests.backends.conftest import Fakes, MakeLearner, MakeRemote
from tests.backends.endpoint.fake_vllm import FakeVllm
from tests.server.conftest import Patch
from tests.tiny import tiny_tokenizer

LONG = Question("What is the capital of France? " * 142, form="text")
TEXT = tiny_tokenizer().encode("What is the capital of France? Paris is the answer. " * 200)[:1024]

Count = Callable[[], dict[str, int]]


@pytest.fixture
def server(tiny_server: Fakes) -> FakeVllm:
    return tiny_server()


@pytest.fixture
def model(make_learner: MakeLearner, make_remote: MakeRemote, server: FakeVllm) -> LocalModel:
    """A model whose server writes a scripted text that does not depend on weights."""
    model = make_remote(make_learner(), server)
    start = len(model.prompting.answer(LONG))

    def scripted(_weights: bytes, prompt: list[int]) -> NDArray[np.float64]:
        logits = np.random.default_rng([len(prompt), prompt[-1]]).normal(size=len(tiny_tokenizer()))
        place = len(prompt) - start
        if 0 <= place < len(TEXT):
            logits[TEXT[place]] += 9
        return np.asarray(logits)

    server.rule = scripted
    model.driver.engine.limit = 8192
    return model


@pytest.fixture
def count(server: FakeVllm) -> Count:
    """A function that counts the requests since its last call."""

    def sent() -> dict[str, int]:
        prompts = [body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]] for body in server.asked]
        size = sum(len(json.dumps(body)) for body in server.asked)
        server.asked.clear()
        return {
            "requests": len(prompts),
            "prompts": sum(map(len, prompts)),
            "ids": sum(len(prompt) for each in prompts for prompt in each),
            "bytes": size,
        }

    return sent


def written(model: LocalModel, **settings: Any) -> Chunk:
    (text,) = joined(model.write(LONG, SamplingParameters(max_tokens=len(TEXT), **settings)))
    return text


def same(one: ModelAnswer, other: ModelAnswer) -> None:
    for mine, its in ((one.reply, other.reply), (one.frozen, other.frozen)):
        assert mine.text == its.text
        assert mine.bins == pytest.approx(its.bins, abs=1e-12)
        assert mine.log_probability == pytest.approx(its.log_probability, abs=1e-9)
        assert mine.entropy == pytest.approx(its.entropy, abs=1e-9)


def test_a_long_chat_is_read_a_few_times(model: LocalModel, count: Count, monkeypatch: Patch) -> None:
    text = written(model)
    count()
    model.meter.take()
    kept, kept_sent = model.answer(LONG, written=text), count()
    whole, whole_sent = model.answer(LONG, written=text.text), count()
    monkeypatch.setattr(vllm_engine, "SEPARATE_POSITIONS", 10_000)
    apart, apart_sent = model.answer(LONG, written=text.text), count()
    same(kept, whole)
    same(kept, apart)
    tokens = int(kept.plain_tokens)
    assert tokens > 2000
    assert apart_sent["prompts"] > 1024
    assert apart_sent["ids"] > 700 * tokens
    for sent in (kept_sent, whole_sent):  # the digits of the confidence that are not among the most probable tokens
        assert sent["prompts"] == sent["requests"] <= 2
        assert sent["ids"] == sent["prompts"] * tokens
        assert sent["bytes"] < apart_sent["bytes"] / 50
    assert model.meter.take().answering == 3 * tokens


def test_texts_under_learned_weights_are_read_in_one_request(model: LocalModel, count: Count) -> None:
    text = written(model)
    model.learner.load_version(model.learner.weights(), 1)
    count()
    answer = model.answer(LONG, written=text)
    assert (answer.reply.version, answer.frozen.version) == (1, 0)
    assert answer.reply.entropy == pytest.approx(answer.frozen.entropy, abs=1e-9)
    assert count()["prompts"] <= 4
    rating: Any = model.rate([GivenAnswer(LONG, text.text)], ())[0]
    assert rating.reply.log_probability == pytest.approx(answer.frozen.log_probability, abs=1e-9)
    assert count()["prompts"] <= 4  # with P(True)


def test_rare_drawn_tokens_leave_the_entropy(model: LocalModel, server: FakeVllm, monkeypatch: Patch) -> None:
    monkeypatch.setattr(server, "rule", lambda _, prompt: np.cos(np.arange(len(tiny_tokenizer())) * len(prompt)))
    prompt = model.prompting.answer(LONG)
    vllm: Any = model.driver.engine
    (text,) = joined(model.write(LONG, SamplingParameters(max_tokens=20, temperature=2.0, seed=1)))
    generation: Any = text.generation
    assert any(len(step.log_p) > vllm.top for step in generation.steps)
    positions = [(0, len(prompt) + number) for number in range(20)]
    bundle = Bundle([[*prompt, *generation.written]], positions)
    drawn, greedy = VllmReading(vllm, replace(bundle, generation=generation), 0), VllmReading(vllm, bundle, 0)
    entropies = [each.text_statistics(positions, generation.written[:19], []).entropy for each in (drawn, greedy)]
    assert entropies[0] == pytest.approx(entropies[1], abs=1e-9)


def test_texts_behind_thoughts_are_alike(make_learner: MakeLearner, make_remote: MakeRemote, server: FakeVllm) -> None:
    asked = Question("Why is the sky blue?", form="text")
    remote, local = make_remote(make_learner(thinking=12), server), make_learner(thinking=12)
    (here,), (there,) = (joined(model.write(asked, SamplingParameters(max_tokens=6))) for model in (local, remote))
    assert (there.text, there.thought, there.whole_thought) == (here.text, here.thought, here.whole_thought)
    assert there.completion_tokens == here.completion_tokens
    one, other = (model.answer(asked, written=text).reply for model, text in ((local, here), (remote, there)))
    assert one.thought == other.thought
    assert other.bins == pytest.approx(one.bins, abs=1e-3)
