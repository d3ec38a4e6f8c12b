"""A server says aloud whether its confidences may be acted on: in replies, on the page, to probes and to Prometheus."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from secl.server.http.api_keys import Keys
from secl.server.http.app import create_app
from secl.server.online import service as service_module
from secl.server.online.monitors import LABELS, TrustMonitor
from secl.server.online.service import Service
from secl.testing import toy_stream
from tests.server.conftest import MakeService

HOST = {"host": "localhost"}


def client_of(service: Service) -> TestClient:
    return TestClient(create_app(service, Keys(service.state.folder)), base_url="http://localhost")


def asked(service: Service, count: int) -> list[float]:
    return [service.ask(question, 20).record.confidence for question in toy_stream(count)]


def say(client: TestClient, position: int, correct: bool) -> None:
    body = {"record_id": f"rec_{position:08d}", "correct": correct}
    assert client.post("/v1/feedback", json=body).status_code == 200


def gauges(client: TestClient) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.fixture
def contradicted(make_service: MakeService) -> TestClient:
    """A client of a server all of whose 30 answers people call wrong."""
    service = make_service(gate="never")
    client = client_of(service)
    asked(service, 30)
    for position in range(30):
        say(client, position, False)
    return client


def test_a_server_without_labels_is_unproven_and_healthy(make_service: MakeService) -> None:
    service = make_service(gate="never")
    client = client_of(service)
    reply = client.post("/v1/ask", json={"question": "Why?"}).json()["secl"]
    assert (reply["verdict"], reply["warnings"]) == ("unproven", [])
    health = client.get("/healthz")
    assert health.json() == {
        "status": "ok",
        "learning": "on",
        "problems": [],
        "verdict": "unproven",
        "trouble": [],
    }
    found = gauges(client)
    assert found["secl_verdict"] == 1
    assert found["secl_labelled"] == 0
    assert found['secl_trust{reason="unlabelled"}'] == 1
    assert found['secl_trust{reason="overconfident"}'] == 0


def test_labels_that_contradict_are_named_everywhere(contradicted: TestClient) -> None:
    health = contradicted.get("/healthz")
    assert health.status_code == 200
    assert health.json()["status"] == "degraded"
    assert "overconfident" in health.json()["trouble"]
    found = gauges(contradicted)
    assert found['secl_trust{reason="overconfident"}'] == 2
    assert (found["secl_verdict"], found["secl_labelled"]) == (2, 30)
    reply = contradicted.post("/v1/ask", json={"question": "Why?"}).json()["secl"]
    assert reply["verdict"] == "do not act on it"
    assert "overconfident" in reply["warnings"]
    state = contradicted.get("/v1/state").json()["verdict"]
    assert (state["level"], state["graded"]) == ("do not act on it", 30)
    page = contradicted.get("/").text
    assert "Do not act on these confidences." in page
    assert 'class="lamp warn"' in page


def test_a_verdict_is_about_the_latest_answers_and_the_latest_labels(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "WINDOW", 10)
    service = make_service(gate="never")
    asked(service, 25)
    assert service.trust.verdict.questions == 10
    monitor = TrustMonitor(10)
    monitor.refresh([(0.9, False)] * 50 + [(0.5, True), (0.5, False)] * (LABELS // 2))
    assert monitor.graded == ((0.5, True), (0.5, False)) * (LABELS // 2)
