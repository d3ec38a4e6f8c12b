"""A service whose answers come from a fleet, while a model in this process learns behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from secl.backends.vllm.client import Endpoint
from secl.backends.vllm.model import VllmModel
from secl.calibrator import Calibrator
from secl.errors import ParameterError, UnavailableError
from secl.gates import Always
from secl.question import Question
from secl.server.online.factory import open_service, open_state, serving_settings
from secl.server.online.service import Service
from secl.server.settings import Bounds
from secl.settings import LoopSettings
from tests.backends.vllm.conftest import Fakes, MakeLearner

MakeService = Callable[..., Service]


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[MakeService]:
    """Start a service around a model and its twin; it ends with the test."""
    made: list[Service] = []

    def make(model: VllmModel, twin: VllmModel) -> Service:
        settings = serving_settings().to_json()
        manifest = {"settings": settings, "model": "tiny", "tau": 1.0, "keep_text": "full", "total": 0}
        state = open_state(tmp_path / "state", manifest)
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


@pytest.mark.slow
def test_a_service_answers_with_a_fleet_that_loses_an_endpoint_and_learns_on(
    make_learner: MakeLearner, make_fleet: Callable[..., VllmModel], tiny_server: Fakes, make_service: MakeService
) -> None:
    servers = [tiny_server(), tiny_server()]
    service = make_service(make_fleet(make_learner(), *servers), make_fleet(make_learner(), *servers))
    versions = []
    for number in range(12):
        if number == 6:
            servers[1].kill()
        question = Question(f"Is {number} even?", options=("yes", "no"), id=str(number))
        versions.append(service.ask(question, timeout=60).record.reply.version)
        _until(lambda: service.learner.waiting == 0)
    assert versions == sorted(versions)
    assert versions[-1] > versions[5] > 0
    asked = {name.rpartition("-")[0] for server in servers for name in server.models()}
    assert {f"secl-{version}" for version in versions if version} <= asked


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
    ask, back = twin.backend.servers.ask, threading.Event()

    def nobody(send: Callable[[Endpoint], Any]) -> Any:
        if back.is_set():
            return ask(send)
        raise UnavailableError("no vLLM server can be used: all are away.")

    monkeypatch.setattr(twin.backend.servers, "ask", nobody)
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
