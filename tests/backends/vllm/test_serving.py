"""A service whose answers come from a fleet, while a model in this process learns behind them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from secl.backends.vllm.model import VllmModel
from secl.calibrator import Calibrator
from secl.gates import Always
from secl.question import Question
from secl.server.online.factory import open_state, serving_settings
from secl.server.online.guardrails import Bounds
from secl.server.online.limits import Limits
from secl.server.online.service import Service
from secl.settings import LoopSettings
from tests.backends.vllm.conftest import Fakes, MakeLearner


@pytest.mark.slow
def test_a_service_answers_with_a_fleet_that_loses_an_endpoint_and_learns_on(
    make_learner: MakeLearner, make_fleet: Callable[..., VllmModel], tiny_server: Fakes, tmp_path: Path
) -> None:
    servers, twin = [tiny_server(), tiny_server()], make_learner()
    model = make_fleet(make_learner(), *servers)
    recipe = serving_settings()
    manifest = {"settings": recipe.to_json(), "model": "tiny", "tau": 1.0, "keep_text": "full", "total": 0}
    state = open_state(tmp_path / "state", manifest)
    rule = LoopSettings(bin_gate=None)
    calibrator = Calibrator(model, gate=Always(), loop=rule)
    service = Service(calibrator, Calibrator(twin, loop=rule), state, Limits(share=0.9), Bounds(drift=100, shift=1.0))
    service.start()
    try:
        versions = []
        for number in range(12):
            if number == 6:
                servers[1].kill()
            question = Question(f"Is {number} even?", options=("yes", "no"), id=str(number))
            said = service.ask(question, timeout=60)
            versions.append(said.record.reply.version)
            _until(lambda before=said.record.position: service.learner.waiting == 0)  # type: ignore[misc]
    finally:
        service.stop()
        state.close()
    assert versions == sorted(versions)
    assert versions[-1] > versions[5] > 0
    assert len(set(servers[0].paths)) == len(servers[0].paths)
    assert {f"secl-{version}" for version in versions if version} <= {*servers[0].models(), *servers[1].models()}


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
