"""Services without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from secl.calibrator import Calibrator
from secl.gates import EntropyShift, Gate
from secl.runs.runner import build_calibrator
from secl.runs.settings import RunSettings
from secl.server.online.factory import open_state, serving_settings
from secl.server.online.service import Service
from secl.server.redaction import Keep
from secl.server.settings import Bounds, Limits
from secl.settings import LoopSettings
from secl.testing import ScriptedModel
from tests.server.pages import browser, host, tab

__all__ = ["browser", "host", "tab"]

MakeService = Callable[..., Service]
MakePosterior = Callable[..., Service]

SMALL: dict[str, Any] = {"method": "posterior"}
"""Settings of a server with a posterior."""


def manifest(recipe: RunSettings, model: ScriptedModel, keep_text: Keep = "full") -> dict[str, Any]:
    return {
        "settings": recipe.to_json(),
        "model": model.fingerprint,
        "tau": model.tau,
        "letters": model.letters,
        "keep_text": keep_text,
        "total": 0,
        "environment": {},
    }


@contextmanager
def scripted_services(root: Path) -> Iterator[MakeService]:
    """Builds and starts services on state folders; all of them are stopped in the end."""
    services: list[Service] = []

    def make(
        folder: Path | None = None,
        *,
        gate: Gate | None = None,
        model: Any = None,
        twin: Any = None,
        keep_text: Keep = "full",
        limits: Limits | None = None,
        bounds: Bounds | None = None,
        start: bool = True,
    ) -> Service:
        model, twin = model or ScriptedModel(), twin or ScriptedModel()
        recipe = serving_settings(gate="entropy-shift", burst=10, warmup=5)
        state = open_state(folder or root / "state", manifest(recipe, model, keep_text))
        rule = LoopSettings(bin_gate=None)
        calibrator = Calibrator(model, gate=gate or EntropyShift(burst=10, warmup=5), loop=rule)
        service = Service(calibrator, Calibrator(twin, loop=rule), state, limits, bounds or Bounds(drift=10))
        twin.set_pause_hook(service.scheduler.wait)
        services.append(service)
        if start:
            service.start()
        return service

    with stopped_in_the_end(services):
        yield make


@contextmanager
def services_of_settings(root: Path) -> Iterator[MakePosterior]:
    """Builds and starts services from settings (`SMALL` unless given); all of them are stopped in the end."""
    services: list[Service] = []

    def make(
        name: str = "state", *, keep: Keep = "full", model: Any = None, twin: Any = None, **settings: Any
    ) -> Service:
        recipe, model = serving_settings(**(settings or SMALL)), model or ScriptedModel()
        state = open_state(root / name, manifest(recipe, model, keep))
        trainer = build_calibrator(recipe, twin or ScriptedModel())
        service = Service(build_calibrator(recipe, model), trainer, state, bounds=Bounds(drift=10))
        services.append(service)
        service.start()
        return service

    with stopped_in_the_end(services):
        yield make


@contextmanager
def stopped_in_the_end(services: list[Service]) -> Iterator[None]:
    """Context whose services are stopped when it is left."""
    yield
    for service in services:
        service.stop()
        service.state.close()


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[MakeService]:
    with scripted_services(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def share_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeService]:
    """The same for services that all tests of a file look at."""
    with scripted_services(tmp_path_factory.mktemp("shared")) as make:
        yield make


@pytest.fixture
def make_posterior(tmp_path: Path) -> Iterator[MakePosterior]:
    with services_of_settings(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def share_posterior(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakePosterior]:
    """The same for services that all tests of a file look at."""
    with services_of_settings(tmp_path_factory.mktemp("shared")) as make:
        yield make
