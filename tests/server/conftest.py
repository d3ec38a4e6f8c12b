"""Services around a scripted model, their clients, and a browser."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import uvicorn
from fastapi.testclient import TestClient

from secl.runs.loading import build_calibrator
from secl.server.entries import Keep
from secl.server.http.process import create_app
from secl.server.online import learner
from secl.server.online.service import Service, create_state, reopen, serving_settings
from secl.server.settings import Limits
from secl.testing import ScriptedModel

Make = Callable[..., Service]
Patch = pytest.MonkeyPatch
Log = pytest.LogCaptureFixture

LEARNING: dict[str, Any] = {"gate.name": "entropy-shift", "gate.burst": 10, "gate.warmup": 5}
"""Settings of a server unless a test names a gate or a method."""

TIMEOUT = 30_000
"""Timeout of the browser in milliseconds, for busy machines."""


@contextmanager
def opened(service: Service, **how: Any) -> Iterator[str]:
    """The address of a service behind HTTP, without a slash at its end; `how`: parameters of `create_app`."""
    with hosted(create_app(service, **how)) as address:
        yield address


@contextmanager
def hosted(app: Any) -> Iterator[str]:
    """The address of an application behind HTTP."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(1000):
        if server.started:
            break
        time.sleep(0.005)
    (port,) = {socket.getsockname()[1] for listener in server.servers for socket in listener.sockets}
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def client_of(service: Service) -> TestClient:
    """A client of a service, without a network."""
    return TestClient(create_app(service), base_url="http://127.0.0.1")


@contextmanager
def sdk_of(service: Service) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of a service."""
    with opened(service) as address, sdk_at(address) as client:
        yield client


def sdk_at(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


@contextmanager
def http_of(service: Service) -> Iterator[httpx.Client]:
    """A client of a service behind HTTP."""
    with opened(service) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises an error, with any arguments."""

    def raise_it(*_: Any, **__: Any) -> None:
        raise error

    return raise_it


def metrics_of(client: Any) -> dict[str, float]:
    """Metrics of a server by name with labels."""
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@contextmanager
def scripted_services(root: Path) -> Iterator[Make]:
    """A function that builds and starts services on state folders; all services stop at the end."""
    services: list[Service] = []

    def make(
        folder: Path | str = "state",
        *,
        model: Any = None,
        twin: Any = None,
        keep_text: Keep = "full",
        limits: Limits | None = None,
        start: bool = True,
        settings: Mapping[str, object] | None = None,
    ) -> Service:
        model, twin = model or ScriptedModel(), twin or ScriptedModel()
        given = settings or {}
        if "method" not in given:
            learning = {} if "gate.name" in given else LEARNING
            given = {"method": "secl", "loop.bin_gate": "off", **learning, **given}
        recipe = serving_settings(given)
        place = root / folder
        state = reopen(place, recipe, keep_text)
        if state is None:
            state = create_state(place, recipe, keep_text, model)
        calibrator, trainer = build_calibrator(recipe, model), build_calibrator(recipe, twin)
        service = Service(calibrator, trainer, state, limits)
        twin.set_pause_hook(service.scheduler.wait)
        services.append(service)
        if start:
            service.start()
        return service

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "MAX_DRIFT", 10.0)  # a scripted model has no weights to compare with
        yield make
        for service in services:
            service.stop()
            service.state.close()


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[Make]:
    with scripted_services(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def share_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """As `make_service`, for services that all tests of a file read."""
    with scripted_services(tmp_path_factory.mktemp("shared")) as make:
        yield make


@pytest.fixture
def service(make_service: Make) -> Service:
    """A service that has answered nothing yet."""
    return make_service()


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    """Address of the service behind HTTP."""
    with opened(service) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    """A client of the service."""
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture
def sdk(address: str) -> Iterator[openai.OpenAI]:
    with sdk_at(address) as client:
        yield client


@pytest.fixture
def host() -> Iterator[Callable[[Service], str]]:
    """A function that puts a service behind HTTP on a free port, and returns its address."""
    with ExitStack() as running:
        yield lambda service: running.enter_context(opened(service))


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A page in a browser window of its own; a problem in its console fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert [problem for problem in problems if "status of 4" not in problem] == []
