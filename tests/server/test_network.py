"""Services around a real network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from secl.data.quiz import quiz
from secl.errors import ParameterError, RunError
from secl.question import Question
from secl.runs.settings import Recipe
from secl.server.online.factory import open_service, serving_settings
from secl.server.online.service import Service
from secl.server.store import ServerStore
from secl.testing import toy_stream
from secl.writing import Writing
from tests.server.conftest import raising
from tests.server.waiting import Texts, close, examined, settled

WAYS = [
    Writing(max_tokens=40, or_fewer=True),
    Writing(max_tokens=12, temperature=1.0, seed=5),
    Writing(max_tokens=12, temperature=1.5, top_p=0.9, seed=7, n=3),
]


def test_ordinary_chats_leave_nothing_to_report(tiny_llama: Path, tmp_path: Path) -> None:
    """Limits, draws and stops of requests do not matter, because secl rates the stored text."""
    settings = {"model.name": str(tiny_llama), "model.dtype": "fp32", "method": "stated"}
    service = open_service(tmp_path / "state", serving_settings(settings))
    service.start()
    for way in WAYS:
        Texts(service, Question("Say something.", form="text", system="Be brief."), way).answers()
    service.ask(Question("Name a fruit.", form="short"), 120)
    service.ask(toy_stream(1)[0], 120)
    with ServerStore(close(service)) as state:
        assert examined(state) == (5 + 2, [])


SETTINGS = {"method": "secl", "gate.name": "always", "loop.bin_gate": "off", "adapter.learning_rate": 0.001}


@pytest.fixture
def recipe(tiny_llama: Path) -> Recipe:
    return serving_settings({"model.name": str(tiny_llama), **SETTINGS})


@pytest.fixture
def service(recipe: Recipe, tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path / "state", recipe)
    opened.start()
    yield opened
    close(opened)


def test_the_twin_shares_all_weights_but_those_that_learn(service: Service) -> None:
    def weights(model: object) -> dict[str, torch.Tensor]:
        return dict(model.adapter.peft.named_parameters())  # type: ignore[attr-defined]

    ours, theirs = weights(service.model), weights(service.learner.calibrator.model)
    apart = {name for name in ours if ours[name].data_ptr() != theirs[name].data_ptr()}
    assert apart
    assert all("lora" in name for name in apart)
    assert len(apart) == len(service.model.adapter.parameters)  # type: ignore[attr-defined]


def test_interrupted_learning_gives_the_weights_of_learning(service: Service, recipe: Recipe, tmp_path: Path) -> None:
    """A lesson that is interrupted and repeated gives the same weights."""
    asked = quiz("science", 5, 1)
    for question in asked:
        service.ask(question, 60)
        service.scheduler.interrupt()
    settled(service)
    other = open_service(tmp_path / "other", recipe)
    other.start()
    for question in asked:
        other.ask(question, 60)
    settled(other)
    close(other)
    assert other.learner.trained.snapshot() == service.learner.trained.snapshot()


def test_a_state_belongs_to_its_settings(service: Service, recipe: Any, tiny_llama: Path, tmp_path: Path) -> None:
    close(service)
    other = serving_settings({"model.name": str(tiny_llama), **SETTINGS, "loop.alpha": 0.25})
    no_model = raising(AssertionError("a model was loaded for nothing"))
    with pytest.raises(RunError, match=r"begun with other settings \(loop.alpha: 0.5 there, 0.25 here\)"):
        open_service(tmp_path / "state", other, load=no_model)
    with pytest.raises(RunError, match="keep_text: full there, none here"):
        open_service(tmp_path / "state", recipe, keep_text="none", load=no_model)
    with pytest.raises(ParameterError, match="accumulate is 'question'"):
        serving_settings({"loop.accumulate": "question"})
    open_service(tmp_path / "state", recipe).state.close()
