"""A service around a real network: shared weights, versions that are swapped, and what a state folder belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from secl.data.quiz import quiz
from secl.errors import ParameterError, RunError
from secl.model import Model
from secl.server.online.factory import open_service, serving_settings
from secl.server.online.service import Service
from tests.server.waiting import settled

SETTINGS = {"method": "secl", "gate.name": "always", "loop.bin_gate": "off", "adapter.learning_rate": 0.001}


@pytest.fixture
def service(tiny_llama: Path, tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path / "state", serving_settings({"model.name": str(tiny_llama), **SETTINGS}))
    opened.start()
    yield opened
    opened.stop()
    opened.state.close()


def test_the_twin_shares_all_weights_but_those_that_learn(service: Service) -> None:
    def weights(model: object) -> dict[str, torch.Tensor]:
        return dict(model.adapter.peft.named_parameters())  # type: ignore[attr-defined]

    ours, theirs = weights(service.model), weights(service.learner.model)
    apart = {name for name in ours if ours[name].data_ptr() != theirs[name].data_ptr()}
    assert apart
    assert all("lora" in name for name in apart)
    assert len(apart) == len(service.model.adapter.parameters)  # type: ignore[attr-defined]


def test_learning_by_and_by_gives_the_weights_of_learning_at_once(
    service: Service, tiny_llama: Path, tmp_path: Path
) -> None:
    """A lesson that is given up in the middle and held again leaves no trace."""
    asked = quiz("science", 5, 1)
    for question in asked:
        service.ask(question, 60)
        service.scheduler.interrupt()
    settled(service)
    other = open_service(tmp_path / "other", serving_settings({"model.name": str(tiny_llama), **SETTINGS}))
    other.start()
    for question in asked:
        other.ask(question, 60)
    settled(other)
    try:
        assert other.learner.model.snapshot() == service.learner.model.snapshot()
    finally:
        other.stop()
        other.state.close()


def test_a_state_folder_belongs_to_its_settings(service: Service, tiny_llama: Path, tmp_path: Path) -> None:
    service.stop()
    service.state.close()
    recipe = serving_settings({"model.name": str(tiny_llama), **SETTINGS})
    other = serving_settings({"model.name": str(tiny_llama), **SETTINGS, "loop.alpha": 0.25})

    def no_model(_: object) -> Model:
        raise AssertionError("a model was loaded for nothing")

    with pytest.raises(RunError, match=r"begun with other settings \(loop.alpha: 0.5 there, 0.25 here\)"):
        open_service(tmp_path / "state", other, load=no_model)
    with pytest.raises(RunError, match="keep_text: full there, none here"):
        open_service(tmp_path / "state", recipe, keep_text="none", load=no_model)
    with pytest.raises(ParameterError, match="keep-text is 'some'"):
        open_service(tmp_path / "state", recipe, keep_text="some")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="accumulate is 'question'"):
        serving_settings({"loop.accumulate": "question"})
    again = open_service(tmp_path / "state", recipe)
    again.state.close()
