"""The routes, asked by a plain HTTP client."""

import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from secl.errors import RunError
from secl.runs.encoding import from_plain
from secl.server.online.service import Service
from secl.server.settings import Limits
from secl.server.store import ServerStore
from tests.server.conftest import Log, Make, Patch, client_of, http_of, metrics_of, opened, raising
from tests.server.waiting import Slow, until

OPTIONS = {"question": "Capital of France?", "options": ["Rome", "Paris", "Bern"]}


@pytest.fixture(scope="module")
def refusing(share_service: Make) -> Iterator[httpx.Client]:
    """A client of a server that answers nothing of what the tests ask."""
    service = share_service()
    with http_of(service) as client:
        yield client
    assert service.position == 0


def error_of(reply: Any) -> dict[str, Any]:
    """The error inside a reply, which must have OpenAI's shape."""
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")
    assert "\n" not in error["message"]
    return error


def test_a_reply_holds_an_option_and_a_confidence_and_has_a_record(client: httpx.Client, service: Service) -> None:
    reply = client.post("/v1/ask", json={**OPTIONS, "domain": "law", "detail": "full"}).json()
    brief = ["text", "letter", "confidence", "low", "high", "candidates", "accepted", "accept", "record_id"]
    assert [*client.post("/v1/ask", json=OPTIONS).json()] == brief
    detail = reply.pop("detail")
    assert [*reply] == brief
    assert reply["letter"] in "ABC"
    assert reply["text"] == OPTIONS["options"]["ABC".index(reply["letter"])]
    assert math.isclose(sum(detail["reply"]["bins"]), 1)
    assert math.isclose(reply["confidence"], sum(p * (k + 0.5) / 10 for k, p in enumerate(detail["reply"]["bins"])))
    assert (detail["posterior"], detail["reply"]["version"], detail["question"]["domain"]) == (None, 0, "law")
    read = client.get(f"/v1/records/{reply['record_id']}").json()
    assert from_plain(read["record"]) == service.state.served(0).record
    assert read["record"]["reply"]["stated"] == reply["confidence"]
    assert (read["record_id"], read["batch"], read["label"]) == (reply["record_id"], 1, None)


def test_a_record_that_is_not_there_is_not_found(refusing: httpx.Client) -> None:
    for name in ("9", "rec_x", "x" * 300, "rec_" + "9" * 40, "%00", "é", "-1"):
        reply = refusing.get(f"/v1/records/{name}")
        assert (reply.status_code, error_of(reply)["code"]) == (404, "record_not_found")


def test_a_server_is_paused_and_rolled_back_over_http(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "always"})
    client = client_of(service)
    client.post("/v1/ask", json=OPTIONS)
    until(lambda: service.learner.version > 0)
    paused = client.post("/v1/pause", json={"reason": "for a look"}).json()
    assert paused["version"] > 0
    assert client.post("/v1/rollback", json={"version": 0}).json() == {**paused, "version": 0}
    assert (paused["paused"], paused["dropped"]) == ("for a look", 0)
    assert client.post("/v1/ask", json={**OPTIONS, "detail": "full"}).json()["detail"]["reply"]["version"] == 0
    refused = client.post("/v1/rollback", json={"version": 2**53})
    assert (refused.status_code, error_of(refused)["code"]) == (404, "version_not_found")
    assert client.post("/v1/resume").json() == {"version": 0, "paused": None, "dropped": 0}
    events = client.get("/v1/state").json()["events"]
    assert [event["kind"] for event in events] == ["pause", "rollback", "resume"]


def test_a_stopping_server_is_not_ready_and_takes_no_questions(client: httpx.Client, service: Service) -> None:
    assert client.get("/readyz").status_code == 200
    service.stop()
    assert client.get("/readyz").status_code == 503
    reply = client.post("/v1/ask", json=OPTIONS)
    assert (reply.status_code, error_of(reply)["code"]) == (503, "closing")
    assert reply.headers["retry-after"] == "1"
    assert client.get("/healthz").status_code == 200


def test_a_full_queue_says_so_and_time_that_is_up_takes_the_question_back(make_service: Make) -> None:
    model = Slow()
    service = make_service(model=model, limits=Limits(batch=1, queue=1, timeout=1.5))
    with http_of(service) as client:
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: client.post("/v1/ask", json=OPTIONS), range(8)))
        assert {reply.status_code for reply in replies} == {429, 503}
        for reply in replies:
            assert reply.headers["retry-after"] == "1"
            assert error_of(reply)["type"] == ("rate_limit_error" if reply.status_code == 429 else "server_error")
        model.go.set()
        assert client.post("/v1/ask", json=OPTIONS).status_code == 200
    # The model was answering one question at its timeout; the server took the next one back.
    assert service.position == 2


def test_a_question_whose_client_has_gone_is_not_asked(make_service: Make) -> None:
    model = Slow()
    service = make_service(model=model, limits=Limits(batch=1))
    with opened(service) as address, httpx.Client(base_url=address, timeout=60) as client:
        first = threading.Thread(target=lambda: client.post("/v1/ask", json=OPTIONS))
        first.start()
        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{address}/v1/ask", json=OPTIONS, timeout=0.2)
        until(lambda: all(request.future.cancelled() for request in service._queue._requests))
        model.go.set()
        first.join()
        assert client.post("/v1/ask", json=OPTIONS).status_code == 200
        assert service.position == 2


def test_damage_of_a_state_is_logged_and_not_shown(client: httpx.Client, monkeypatch: Patch, caplog: Log) -> None:
    problem = RunError("/srv/state/run.sqlite is damaged or not a run.")
    monkeypatch.setattr(ServerStore, "counts", raising(problem))
    reply = client.get("/v1/state")
    assert reply.status_code == 500
    assert "/srv" not in error_of(reply)["message"]
    assert "/srv/state/run.sqlite is damaged" in caplog.text


def test_any_text_that_is_unicode_is_asked_and_recorded_as_it_is(client: httpx.Client, service: Service) -> None:
    texts = ("Was heißt 日本? 🤷🏽", "\u202ereversed", "null\x00byte", "\\u0000", "a" * 5000, "É\u0301")
    for position, text in enumerate(texts):
        assert client.post("/v1/ask", json={"question": text, "options": [text, "no"]}).status_code == 200
        assert service.state.served(position).record.question.text == text


BAD: list[tuple[str, Any, str]] = [
    ("ask", {"question": " \n"}, "question"),
    ("ask", {"question": 5}, "question"),
    ("ask", {}, "question"),
    ("ask", {"question": "Why?", "options": ["one"]}, "single option"),
    ("ask", {"question": "Why?", "options": ["a", "a "]}, "no two different options"),
    ("ask", {"question": "Why?", "options": "ab"}, "options"),
    ("ask", {"question": "Why?", "form": "poem"}, "form"),
    ("ask", {"question": "Why?", "form": "choice"}, "no options"),
    ("ask", {"question": "Why?", "option": ["a", "b"]}, "does not know the field 'option'; leave it out"),
    ("ask", {"question": "Why?", "accept": 0.5}, "compare `confidence` in the reply with your own number"),
    ("ask", [], "body"),
    ("ask", None, "body"),
    ("feedback", {"record_id": "0"}, "give either correct (true, false or null) or correct_answer"),
    ("feedback", {"record_id": "0", "correct": True, "correct_answer": "Lima"}, "give either correct"),
    ("feedback", {"record_id": "1", "correct": True, "drawn": True, "chance": 0.5}, "leave one of them out"),
    *(("rollback", {"version": no}, "version") for no in (-1, 1.5, "1", None, 2**53 + 1, 10**30, True)),
    ("score", {**OPTIONS, "answer": "Oslo"}, "none of its options (A. Rome"),
    ("score", {"question": "Why?"}, "answer: "),
    ("score", {"question": " ", "answer": "Lima"}, "no text"),
    ("score", {"question": "Why?", "answer": " "}, "empty answer"),
    ("score", {**OPTIONS, "answer": "A", "rivals": ["Oslo"]}, "leave rivals out"),
    ("score", {"question": "Why?", "answer": "x" * 10**6}, "shorten it"),
]


def test_a_bad_body_is_refused_in_one_sentence_that_names_the_field(refusing: httpx.Client) -> None:
    for path, body, word in BAD:
        reply = refusing.post(f"/v1/{path}", json=body)
        assert reply.status_code == (413 if "shorten" in word else 400), body
        assert word in error_of(reply)["message"], body


NO_JSON = {
    "empty": b"",
    "half": b"{",
    "no UTF-8": b"\xff\xfe",
    "half a character": b'{"question": "\\ud800"}',
    "nan": b'{"question": NaN}',
    "deep": b"[" * 200_000,
    "long number": b'{"question": ' + b"9" * 5000 + b"}",
    "half a character in a name": b'{"record_id": "\\ud800", "correct": true}',
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_a_body_that_is_no_json_of_ours_is_refused(refusing: httpx.Client, body: bytes) -> None:
    for path in ("ask", "feedback"):
        reply = refusing.post(f"/v1/{path}", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 400
        assert error_of(reply)["type"] == "invalid_request_error"


def test_metrics_count_requests_by_route_and_show_the_service(client: httpx.Client) -> None:
    client.post("/v1/ask", json=OPTIONS)
    for path in ("/v1/records/0", "/v1/records/1"):
        client.get(path)
    assert "ends with /v1" in error_of(client.post("/chat/completions", json={}))["message"]
    numbers = metrics_of(client)
    for route, status in (("/v1/ask", 200), ("/v1/records/{record_id}", 404), ("none", 404)):
        assert numbers[f'secl_requests_total{{route="{route}",status="{status}"}}'] == 1
    for name in ("confidence_count", "ready", "learning"):
        assert numbers[f"secl_{name}"] == 1


def test_the_description_has_a_type_for_every_reply_and_loads_nothing_from_elsewhere(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/ask", "/v1/feedback", "/v1/rollback", "/metrics"} <= set(described["paths"])
    for route in described["paths"].values():
        for method in route.values():
            (kind, content), *_ = method["responses"]["200"]["content"].items()
            assert kind == "text/plain" or "$ref" in content["schema"], method["operationId"]
    assert "422" not in json.dumps(described)
    schemas = described["components"]["schemas"]
    assert {"ResponseFormat", "JsonSchema", "AnswerReply"} <= {*schemas}
    assert "schema" in schemas["JsonSchema"]["properties"]
    assert json.dumps(schemas["Secl"]["properties"]["fields"]).count("AnswerReply") == 1
    assert client.get("/docs").headers["location"] == "openapi.json"
