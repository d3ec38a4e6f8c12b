"""Thumbs move the confidences of later answers, by the formula and to the last digit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from secl.labels import LabelRule
from secl.server.http.app import create_app
from secl.server.online.service import Service
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.folders import spoiled
from tests.server.waiting import close, examined


def rated(service: Service, chance: float | None = 1.0) -> list[float]:
    """Ask 30 questions and say of each whether it is right: one of three is."""
    confidences = []
    for number, question in enumerate(toy_stream(30)):
        confidences.append(service.ask(question, 20).record.confidence)
        service.state.add_feedback(number, number % 3 == 0, chance)
    return confidences


def test_thirty_thumbs_move_the_next_confidence_as_the_formula_says(make_service: MakeService) -> None:
    service = make_service()
    rated(service)
    record = service.ask(toy_stream(31)[30], 20).record
    rule = LabelRule()
    state = rule.add(rule.start(), service.state.label_log())
    assert record.labelled == rule.rate(state, record.question.domain, record.label_free)
    assert record.labelled.labels == 30
    assert record.confidence < record.label_free - 0.05
    assert examined(service.state) == (31, [])


def test_what_is_taken_back_is_as_before_to_the_last_digit(make_service: MakeService) -> None:
    service, questions = make_service(), toy_stream(40)
    rated(service)
    before = service.ask(questions[30], 20).record.labelled
    service.state.add_feedback(30, True, 1.0)
    between = service.ask(questions[30], 20).record.labelled
    service.state.add_feedback(30, None)
    after = service.ask(questions[30], 20).record.labelled
    assert before is not None
    assert between is not None
    assert after is not None
    assert between.confidence > before.confidence
    assert replace(after, until=before.until) == before
    assert [label.correct for label in service.state.label_log()][-2:] == [True, None]
    assert examined(service.state)[1] == []


SPOILS = {
    "UPDATE labels SET correct = 1 - correct WHERE number = 4": "labels",
    "UPDATE labels SET confidence = 0.5 WHERE number = 4": "labels",
    "DELETE FROM labels WHERE number = 4": "labels",
    "UPDATE labels SET position = 99 WHERE number = 4": "integrity",
}


def test_whatever_is_changed_in_the_labels_is_found(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    rated(service)
    folder = close(service)
    for number, (statement, check) in enumerate(SPOILS.items()):
        with ServerStore(spoiled(folder, tmp_path / str(number), statement)) as state:
            assert check in {finding.check for finding in examined(state)[1]}, statement


@pytest.fixture
def client(make_service: MakeService) -> TestClient:
    return TestClient(create_app(make_service()), base_url="http://127.0.0.1")


def test_domains_keep_their_own_level(client: TestClient) -> None:
    asked = {"question": "Which is it?", "options": ["this", "that"]}
    for number in range(12):
        client.post("/v1/ask", json={**asked, "domain": "law" if number % 2 else "art"})
        client.post("/v1/feedback", json={"record_id": f"rec_{number:08d}", "correct": number % 2 == 0, "chance": 1})
    art, law = (client.post("/v1/ask", json={**asked, "domain": name}).json()["secl"] for name in ("art", "law"))
    assert art["label_free"] == law["label_free"]
    assert art["labels"] == law["labels"] == 12
    assert law["low"] < law["confidence"] < art["confidence"] < art["high"]
