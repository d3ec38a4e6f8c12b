"""Labels move the confidences of later answers by the formula, and a verdict judges these confidences."""

import csv
import io
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from secl.errors import ParameterError
from secl.evaluation.acceptance import drawn
from secl.labels.label import valid
from secl.labels.state import LabelState
from secl.runs import Store, export
from secl.runs.labelling import labels_from_sheet, review_queue, row_id
from secl.server.http.api_keys import Keys
from secl.server.http.health import problems
from secl.server.http.process import create_review_app
from secl.server.online import service as service_module
from secl.server.online.service import Service
from secl.testing import toy_stream
from tests.server.conftest import Log, Make, Patch, client_of, metrics_of
from tests.server.waiting import close, examined


def rated(service: Service) -> Service:
    """The service after 30 questions, a third of them labelled as right, the others as wrong."""
    for number, question in enumerate(toy_stream(30)):
        service.ask(question, 20)
        service.state.add_feedback(number, number % 3 == 0, 1.0)
    return service


def test_thirty_thumbs_move_the_next_confidence_as_the_formula_says(make_service: Make) -> None:
    service = rated(make_service())
    record = service.ask(toy_stream(31)[30], 20).record
    state = LabelState.start().add(service.state.label_log())
    assert record.labelled == state.rate(record.question.domain, record.confidences.uncalibrated)
    assert record.labelled.labels == 30
    assert record.confidence < record.confidences.uncalibrated - 0.05
    assert examined(service.state) == (31, [])


def test_a_chance_that_would_outweigh_all_other_labels_is_refused(make_service: Make) -> None:
    service = make_service()
    client = client_of(service)
    client.post("/v1/ask", json={"question": "Why?"})
    for chance in (0, 5e-324, 1e-155, 9.9e-5, -1, 1.1):
        refused = client.post("/v1/feedback", json={"record_id": "0", "correct": False, "chance": chance})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "chance")
        with pytest.raises(ParameterError, match="chance of a label"):
            service.state.add_feedback(0, False, chance)
    reply = client.post("/v1/ask", json={"question": "Why?", "detail": "full"}).json()
    assert reply["detail"]["labelled"]["labels"] == 0


def test_a_skip_is_stored_without_a_judgement_and_can_be_taken_back(make_service: Make) -> None:
    service = make_service()
    client = client_of(service)
    client.post("/v1/ask", json={"question": "Why?"})
    said = {"record_id": "0", "correct": None, "skipped": True, "drawn": True}
    assert client.post("/v1/feedback", json=said).json()["labels"] == 0
    (entry,) = service.state.label_log()
    assert (entry.correct, entry.skipped, entry.source, entry.chance) == (None, True, "review", 1.0)
    refused = client.post("/v1/feedback", json={**said, "correct": False})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "skipped")
    client.post("/v1/feedback", json={"record_id": "0", "correct": None})
    assert valid(service.state.label_log()) == ()


def test_labels_that_cannot_be_taken_fail_no_answer(make_service: Make, monkeypatch: Patch) -> None:
    service = rated(make_service())
    monkeypatch.setattr(LabelState, "add", lambda *_: 1 / 0)
    record: Any = service.ask(toy_stream(31)[30], 20).record
    assert record.labelled.labels == 29
    assert problems(service) == ["the server cannot use new labels"]
    monkeypatch.undo()
    record = service.ask(toy_stream(32)[31], 20).record
    assert record.labelled.labels == 30
    assert problems(service) == []


def test_labels_are_counted_while_answers_can_be_written(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "never"})
    client, statements = client_of(service), list[str]()
    for question in toy_stream(6):
        service.ask(question, 20)
    service.state.db.set_trace_callback(statements.append)
    said = [(0, True), (1, False), (1, None), (2, True), (2, False), (3, None)]
    bodies: list[dict[str, Any]] = [{"record_id": str(position), "correct": correct} for position, correct in said]
    replies = [client.post("/v1/feedback", json=body).json() for body in bodies]
    service.state.db.set_trace_callback(None)
    assert replies == [body | {"labels": count} for body, count in zip(bodies, (1, 2, 1, 2, 2, 2), strict=True)]
    assert [label.correct for label in service.state.label_log()] == [correct for _, correct in said]
    served = service.state.served(0)
    assert (served.label, served.record.label) == (True, None)  # labels have a log of their own
    assert any("INSERT INTO labels" in each for each in statements)
    assert [each for each in statements if "count(*)" in each] == []


def test_labels_that_contradict_are_named_everywhere(make_service: Make, monkeypatch: Patch, caplog: Log) -> None:
    monkeypatch.setattr(service_module, "TIDY", 0.0)
    service = make_service(settings={"gate.name": "never"})
    client = client_of(service)
    for position, question in enumerate(toy_stream(30)):
        service.ask(question, 20)
        said = {"record_id": str(position), "correct": False}
        assert client.post("/v1/feedback", json=said).status_code == 200
    health = client.get("/healthz")
    assert health.status_code == 200
    assert health.json()["status"] == "degraded"
    assert "overconfident" in health.json()["trouble"]
    assert metrics_of(client)["secl_verdict"] == 2
    state = client.get("/v1/state").json()["verdict"]
    assert (state["level"], state["graded"]) == ("do not act on it", 30)
    page = client.get("/").text
    assert "Do not act on these confidences." in page
    assert 'class="lamp warn"' in page
    service.ask(toy_stream(1)[0], 20)
    assert len([each for each in caplog.records if each.getMessage().startswith("confidences: ")]) == 1


def test_a_verdict_is_about_the_latest_answers_and_the_latest_labels(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(service_module, "VERDICT_ANSWERS", 10)
    monkeypatch.setattr(service_module, "LABELS", 4)
    service = make_service(settings={"gate.name": "never"})
    for question in toy_stream(25):
        service.ask(question, 20)
    for position in range(6):
        service.state.add_feedback(position, position > 1)
    service.refresh_labels()
    assert (service.verdict.questions, service.verdict.graded, service.verdict.accuracy) == (10, 4, 1.0)


SAID: dict[str, tuple[str, dict[str, Any]]] = {
    "review draws": ("review", {"correct": False, "drawn": True}),
    "review rates": ("review", {"correct": True}),
    "review skips": ("review", {"correct": None, "skipped": True, "drawn": True}),
    "review withdraws": ("review", {"correct": None}),
    "ask rates": ("ask", {"correct": True}),
    "ask withdraws": ("ask", {"correct": None}),
}
"""Feedback on an answer, with the role of the key."""


@pytest.mark.parametrize("length", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_no_order_of_labels_lets_an_ask_key_move_the_sample_of_a_guarantee(make_service: Make, length: int) -> None:
    """Before, a reviewer's click on a record's page let a key of the role "ask" withdraw the label of the sample."""
    service, orders = make_service(settings={"gate.name": "never"}), list(product(SAID, repeat=length))
    for question in toy_stream(len(orders)):
        service.ask(replace(question, reference=None), 20)
    client, keys = client_of(service), Keys(service.state.folder)
    headers = {role: {"authorization": f"Bearer {keys.add(role, role)}"} for role in ("review", "ask")}
    sample = dict[int, bool | None]()  # by this test's own account: None for a skip
    for position, order in enumerate(orders):
        for name in order:
            role, body = SAID[name]
            status = client.post(
                "/v1/feedback", json={"record_id": service.state.served(position).id, **body}, headers=headers[role]
            ).status_code
            assert status == (403 if role == "ask" and position in sample else 200), order
            if name == "review withdraws":
                sample.pop(position, None)
            elif body.get("drawn"):
                sample[position] = body["correct"]
    assert {entry.position: entry.correct for entry in drawn(service.state.label_log())} == sample


def test_a_sheet_of_a_servers_state_has_the_ids_of_its_replies_and_comes_back(
    make_service: Make, tmp_path: Path
) -> None:
    service = make_service(settings={"gate.name": "never"})
    for question in toy_stream(6):
        service.ask(question, 20)
    ids = [service.state.served(position).id for position in range(6)]
    folder = close(service)
    with Store(folder, writable=True) as store:
        drawn = review_queue(store).positions[:3]
        export.write(store, "csv", tmp_path / "a.csv", export.Content(sample=3))
        rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
        assert [row["record_id"] for row in rows] == [ids[position] for position in drawn]
        # An application's own list of thumbs has the same ids.
        (tmp_path / "b.csv").write_text(f"record_id,label\n{ids[drawn[0]]},y\n{ids[drawn[1]]},n\n")
        store.add_labels(labels_from_sheet(store, tmp_path / "b.csv", random=False))
        assert [(e.position, e.correct, e.chance) for e in store.labels()] == [
            (drawn[0], True, None),
            (drawn[1], False, None),
        ]
        page = TestClient(create_review_app(store), base_url="http://127.0.0.1").get("/review")
        assert f'data-record="{row_id(store.record(drawn[0]))}"' in page.text


def test_a_right_answer_in_place_of_correct_labels_an_answer_by_the_question_s_grader(make_service: Make) -> None:
    service = make_service()
    with client_of(service) as client:
        chosen = client.post("/v1/ask", json={"question": "Which is a planet?", "options": ["Mars", "Paris"]}).json()
        short = client.post("/v1/ask", json={"question": "What is the capital of Peru?"}).json()
        text = client.post("/v1/ask", json={"question": "What is the capital of Peru?", "form": "text"}).json()

        def judged(reply: dict[str, str], answer: str) -> Any:
            body = {"record_id": reply["record_id"], "correct_answer": answer}
            said = client.post("/v1/feedback", json=body).json()
            return said["error"]["message"] if "error" in said else said["correct"]

        other = "B" if chosen["letter"] == "A" else "A"
        assert [judged(chosen, answer) for answer in (chosen["letter"], other, chosen["text"])] == [True, False, True]
        assert [judged(short, answer) for answer in ("Tokyo", short["text"].upper())] == [False, True]
        assert "is none of its options (A. Mars, B. Paris)" in judged(chosen, "Rome")
        assert "needs a record with options or a short answer" in judged(text, "Lima")
        listed = client.get("/v1/records").json()["records"]
    assert [each["label"] for each in listed] == [None, True, True]
