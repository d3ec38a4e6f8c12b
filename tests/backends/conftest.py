"""Fake servers, which stop at the end of a test, and models that use them."""

import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load

from secl.backends.endpoint.model import EndpointModel
from secl.backends.endpoint.vllm.connect import answer_by_vllm
from secl.backends.endpoint.vllm.engine import VllmModel
from secl.backends.local.model import LocalModel
from secl.question import Question
from tests.backends.endpoint.fake import FakeServer, running
from tests.backends.endpoint.fake_vllm import FakeVllm
from tests.backends.local.conftest import QUESTIONS, tiny_of
from tests.tiny import tiny_model, tiny_tokenizer

Fakes = Callable[..., FakeVllm]


def tiny_ids(text: str) -> list[int]:
    ids: list[int] = tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]
    return ids


Say = Callable[[str], None]
MakeLearner = Callable[..., LocalModel]
MakeRemote = Callable[..., LocalModel]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Return a function that prints a line of progress during a test of several minutes."""

    def print_it(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}", end="", flush=True)  # noqa: T201

    return print_it


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    with running(FakeServer()) as started:
        yield started


@pytest.fixture
def model(server: FakeServer) -> Iterator[EndpointModel]:
    loaded = EndpointModel(server.url)
    server.asked.clear()
    yield loaded
    loaded.close()


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    """Start fake servers."""
    started: list[FakeVllm] = []

    def start(*arguments: Any, **settings: Any) -> FakeVllm:
        started.append(FakeVllm(*arguments, **settings))
        return started[-1]

    yield start
    for fake in started:
        fake.kill()


class TinyRule:
    """Computes logits of the tiny Llama with an adapter that PEFT itself loads, to check published versions."""

    def __init__(self, config: dict[str, Any], seed: int = 0) -> None:
        self.config = peft.LoraConfig(**{**config, "base_model_name_or_path": None})
        self.base = tiny_model(seed=seed)
        self.seed = seed
        self.lock = threading.Lock()
        self.past: dict[tuple[object, ...], Any] = {}
        self.adapted = cache(self._adapted)

    def _adapted(self, weights: bytes) -> Any:
        model = peft.get_peft_model(tiny_model(seed=self.seed), self.config).eval()
        problems = peft.set_peft_model_state_dict(model, load(weights))
        assert not problems.unexpected_keys
        return model

    @torch.no_grad()
    def __call__(self, weights: bytes, prompt: list[int]) -> NDArray[np.float64]:
        with self.lock:
            model = self.adapted(weights) if weights else self.base
            # A text that grows by one token reuses the keys and values of the earlier tokens.
            past = self.past.pop((weights, *prompt[:-1]), None)
            out = model(torch.tensor([prompt if past is None else prompt[-1:]]), past_key_values=past, use_cache=True)
            self.past[(weights, *prompt)] = out.past_key_values
            return np.asarray(out.logits[0, -1].double().numpy())


@pytest.fixture
def make_learner(brief: None) -> MakeLearner:
    """A tiny random Llama that learns fast enough to see it."""

    def make(seed: int = 0, family: str = "llama", **settings: Any) -> Any:
        return tiny_of(family, changes={"seed": seed}, **{"learning_rate": 0.01, **settings})

    return make


@pytest.fixture
def tiny_server(fakes: Fakes, make_learner: MakeLearner) -> Fakes:
    """Start fake servers of the learner's model."""
    config = make_learner().adapter.config.to_dict()
    keep = ("r", "lora_alpha", "target_modules", "layers_to_transform", "lora_dropout", "bias", "task_type")

    def start(seed: int = 0, **settings: Any) -> FakeVllm:
        rule = TinyRule({name: config[name] for name in keep}, seed)
        return fakes(rule, decode=tiny_tokenizer().decode, encode=tiny_ids, **settings)

    return start


@pytest.fixture
def make_remote(tmp_path: Path) -> Iterator[MakeRemote]:
    """Connects learners to a server that finds their versions; the fixture closes the learners."""
    made: list[LocalModel] = []

    def make(learner: LocalModel, server: FakeVllm, **settings: Any) -> LocalModel:
        server.adapters = tmp_path / "versions"
        answer_by_vllm(learner, server.url, tmp_path / "versions", **settings)
        made.append(learner)
        return learner

    yield make
    for model in made:
        model.close()


@pytest.fixture
def make_alone() -> Iterator[Callable[[FakeVllm], Callable[..., VllmModel]]]:
    """Makes models on a server that need only their tokenizers; the fixture closes them."""
    made: list[VllmModel] = []

    def make_on(server: FakeVllm) -> Callable[..., VllmModel]:
        def make(**settings: Any) -> VllmModel:
            made.append(VllmModel(server.url, **settings))
            return made[-1]

        return make

    yield make_on
    for model in made:
        model.close()


@pytest.fixture
def questions() -> list[Question]:
    """Two questions with options and an open one."""
    return [QUESTIONS[number] for number in (0, 1, 3)]
