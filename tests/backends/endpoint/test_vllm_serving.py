"""A service whose answers come from a fleet, while a model in this process learns behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from secl.backends.endpoint.token_server import TokenServer
from secl.backends.endpoint.vllm_model import VllmModel
from secl.calibrator import Calibrator
from secl.errors import ParameterError, UnavailableError
from secl.gates import Always
from secl.question import Question
from secl.server.online.factory import begun, open_service, serving_settings
from secl.server.online.service import Service
from secl.server.settings import Bounds
from secl.settings import LoopSettings
from tests.backends.conftest import Fakes, MakeLearner

MakeService = Callable[..., Service]


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[MakeService]:
    """Start a service around a model and its twin; it ends with the test."""
    made: list[Service] = []

    def make(model: VllmModel, twin: VllmModel) -> Service:
        state = begun(tmp_path / "state", serving_settings(), "full", model)
        rule = LoopSettings(bin_gate=None)
        calibrator = Calibrator(model, gate=Always(), loop=rule)
        bounds = Bounds(drift=100, shift=1.0)
        made.append(Service(calibrator, Calibrator(twin, loop=rule), state, bounds=bounds))
        made[-1].start()
        return made[-1]

    yield make
    for service in made:
        service.stop()
        service.state.close()


@pytest.mark.heavy
def test_a_lesson_waits_for_a_server(
    make_learner: MakeLearner,
    make_fleet: Callable[..., VllmModel],
    tiny_server: Fakes,
    make_service: MakeService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = tiny_server()
    twin = make_fleet(make_learner(), server)
    ask, back = twin.backend.fleet.ask, threading.Event()

    def nobody(send: Callable[[TokenServer], Any]) -> Any:
        if back.is_set():
            return ask(send)
        raise UnavailableError("no vLLM server can be used: all are away.")

    monkeypatch.setattr(twin.backend.fleet, "ask", nobody)
    service = make_service(make_fleet(make_learner(), server), twin)
    service.ask(Question("Is 2 even?", options=("yes", "no"), id="2"), timeout=60)
    _until(lambda: service.learner.last_error is not None)
    assert "all are away" in str(service.learner.last_error)
    assert (service.learner.waiting, service.learner.failures) == (1, 0)
    back.set()
    _until(lambda: service.learner.waiting == 0)
    assert (twin.version, service.learner.last_error) == (1, None)


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true() and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.heavy
def test_both_models_of_a_server_ask_the_fleet_and_find_the_same_versions(
    tiny_llama: Path, tiny_server: Fakes, tmp_path: Path
) -> None:
    server = tiny_server()
    server.adapters = tmp_path / "versions"
    settings = serving_settings(model=str(tiny_llama), gate="always", bin_gate="off", layers="last:2")
    service = open_service(tmp_path / "state", settings, endpoints=[server.url], versions=server.adapters)
    models = service.model, service.learner.model
    published = {model.backend.published for model in models if isinstance(model, VllmModel)}
    service.state.close()
    for model in models:
        model.close()
    assert published == set(server.loaded)
    assert len(published) == 1


def test_a_fleet_needs_a_folder_and_a_folder_needs_a_fleet(tmp_path: Path) -> None:
    for given in ({"endpoints": ["http://127.0.0.1:1"]}, {"versions": tmp_path}):
        with pytest.raises(ParameterError, match="--versions"):
            open_service(tmp_path / "state", serving_settings(), **given)
