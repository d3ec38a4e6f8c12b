"""Exceptions in answering or learning: one request or lesson fails, page and probes show it, and no text is logged."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from secl.errors import StorageError
from secl.model import ModelAnswer
from secl.question import Question
from secl.server.http.health import view
from secl.server.http.pages import overview
from secl.server.online import service as service_module
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import Log, Make, Patch, client_of, metrics_of, raising
from tests.server.waiting import examined, settled, until

SECRET = "My secret is 4711."


class TokenizerError(Exception):
    """An error of a library, unknown to secl."""


class Failing(ScriptedModel):
    """A model whose method raises an error until `broken` is False."""

    def __init__(self, method: str, error: type[Exception]) -> None:
        super().__init__()
        self.broken = True
        works: Callable[..., Any] = getattr(self, method)

        def fails(*args: Any, **named: Any) -> Any:
            if self.broken:
                raise error(SECRET)
            return works(*args, **named)

        setattr(self, method, fails)


OK = {"status": "ok", "learning": "on", "problems": [], "verdict": "unproven", "trouble": []}


def ask(client: TestClient, question: str = SECRET) -> Any:
    return client.post("/v1/ask", json={"question": question, "options": ["yes", "no"], "detail": "full"})


def check_nothing_is_quoted(client: TestClient, caplog: Log) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/"):
        assert SECRET not in client.get(path).text
    assert "4711" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(("method", "error"), [("check", RuntimeError), ("answer", TokenizerError)])
def test_a_failed_question_is_a_500_and_shown(make_service: Make, caplog: Log, method: str, error: Any) -> None:
    model = Failing(method, error)
    service = make_service(model=model)
    client = client_of(service)
    response = ask(client)
    assert response.status_code == 500
    said = {"message": "the model failed on this request.", "type": "server_error"}
    assert response.json() == {"error": {**said, "param": None, "code": "model_failed"}}
    assert client.get("/healthz").json()["problems"] == ["errors occurred at the latest questions"]
    assert client.get("/readyz").json()["ready"] is True
    assert metrics_of(client)["secl_failed_requests_total"] == 1
    page = client.get("/").text
    assert error.__name__ in page
    assert "in the queue, 1 failed" in page
    check_nothing_is_quoted(client, caplog)

    model.broken = False
    assert ask(client).status_code == 200
    assert client.get("/healthz").json() == OK
    assert metrics_of(client)["secl_failed_requests_total"] == 1


@pytest.mark.parametrize(("method", "error"), [("learn", TokenizerError), ("snapshot", MemoryError)])
def test_a_failed_lesson_is_recorded_and_shown(make_service: Make, caplog: Log, method: str, error: Any) -> None:
    twin = Failing(method, error)
    service = make_service(twin=twin, settings={"gate.name": "always"})
    client = client_of(service)
    assert ask(client).status_code == 200
    until(lambda: service.state.counts().get("failed") == 1)
    until(lambda: service.learner.waiting == 0)
    assert client.get("/healthz").json() == {**OK, "status": "degraded", "problems": ["the latest lesson failed"]}
    assert metrics_of(client)["secl_failed_lessons_total"] == 1
    assert error.__name__ in client.get("/").text
    check_nothing_is_quoted(client, caplog)

    twin.broken = False
    assert ask(client).status_code == 200
    settled(service)
    assert service.state.counts() == {"failed": 1, "trained": 1}
    assert client.get("/healthz").json() == OK


def test_a_version_that_cannot_be_loaded_leaves_the_old_one_and_is_shown(make_service: Make, caplog: Log) -> None:
    model = Failing("load_version", TokenizerError)
    service = make_service(model=model, settings={"gate.name": "always"})
    client = client_of(service)
    assert ask(client).status_code == 200
    settled(service)
    assert ask(client).json()["detail"]["reply"]["version"] == 0
    assert client.get("/healthz").json()["status"] == "degraded"
    assert "TokenizerError" in client.get("/").text
    check_nothing_is_quoted(client, caplog)
    model.broken = False
    assert ask(client).json()["detail"]["reply"]["version"] > 0
    assert client.get("/healthz").json() == OK


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_answering_thread_makes_the_server_unready_and_is_shown(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service()
    client = client_of(service)

    monkeypatch.setattr(service, "_answer_batch", raising(SystemExit()))  # nothing catches it
    service.submit(Question("Why?"))
    until(lambda: not service.alive)
    ready, problem = client.get("/readyz"), "the server accepts no questions: the answering thread has ended"
    assert (ready.status_code, ready.json()) == (503, {"ready": False, "problems": [problem]})
    assert client.get("/healthz").json()["status"] == "degraded"
    assert metrics_of(client)["secl_ready"] == 0
    assert "the answering thread has ended" in overview(view(service))
    assert ask(client).status_code == 503  # at once, and not after the timeout


def test_only_the_question_at_fault_fails_and_not_those_that_share_its_pass(make_service: Make) -> None:
    class Choosy(ScriptedModel):
        def answer(self, question: Question, **how: Any) -> ModelAnswer:
            if question.text == SECRET:
                raise MemoryError(SECRET)
            return super().answer(question, **how)

    service = make_service(model=Choosy(), start=False)
    questions = toy_stream(8)
    questions[5] = Question(SECRET, questions[5].options)
    futures = [service.submit(question) for question in questions]
    service.start()
    failed = [number for number, future in enumerate(futures) if future.exception(20) is not None]
    assert failed == [5]
    assert service.failures == 1
    settled(service)
    stored = [served.record.question.text for served in service.state.latest(8)]
    assert stored == [question.text for question in questions if question.text != SECRET]
    assert examined(service.state) == (7, [])


def test_weights_that_cannot_be_restored_pause_learning_until_it_is_resumed(make_service: Make) -> None:
    twin = Failing("learn", RuntimeError)
    restores = twin.restore

    def cannot_restore(snapshot: bytes) -> None:
        if twin.broken:
            raise RuntimeError(SECRET)
        restores(snapshot)

    twin.restore = cannot_restore  # type: ignore[method-assign]
    service = make_service(twin=twin, settings={"gate.name": "always"})
    for question in toy_stream(4):
        service.ask(question, 20)
    until(lambda: service.learner.paused is not None)
    until(lambda: service.learner.waiting == 0)
    assert "could not be restored" in str(service.learner.paused)
    assert [*service.learner.problems.values()] == [service.learner.paused]
    assert SECRET not in str(service.learner.paused)
    assert service.state.paused() == service.learner.paused
    assert twin.version == 0
    assert service.ask(toy_stream(5)[4], 20).record.outcome == "idle"
    twin.broken = False
    service.learner.resume()
    service.ask(toy_stream(6)[5], 20)
    settled(service)
    assert twin.version > 0


def test_errors_behind_the_record_fail_the_request_and_no_thread(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service()
    with monkeypatch.context() as patched:
        patched.setattr(service_module, "caveat", raising(TokenizerError(SECRET)))
        with pytest.raises(TokenizerError):
            service.ask(toy_stream(1)[0], 20)
    assert SECRET not in str(service.problems)
    assert service.ready
    assert service.ask(toy_stream(2)[1], 20).record.position == 1
    assert examined(service.state) == (2, [])


def test_a_disk_that_refuses_is_said_and_logged_once(make_service: Make, caplog: Log, monkeypatch: Patch) -> None:
    service = make_service(settings={"gate.name": "never"})
    client, problem = client_of(service), f"cannot write to {service.state.folder}: disk full."
    with monkeypatch.context() as patched:
        patched.setattr(service.state, "add_answers", raising(StorageError(problem)))
        for _ in range(3):
            reply = ask(client).json()
            assert ("cannot write" in reply["reason"], reply["record_id"]) == (True, None)
            assert reply["reason"] == "the server cannot write to its disk, so the answer has no record."
        health = client.get("/healthz")
        assert health.status_code == 200
        assert health.json()["problems"] == ["the server does not store answers: writing to disk fails"]
        assert str(service.state.folder) not in health.text
    assert service.state.find(ask(client).json()["record_id"]).record.position == 0
    assert client.get("/healthz").json()["status"] == "ok"
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == [
        f"the server answers without storing records until writing to disk works: {problem}",
        "writing to disk works again, from record 0 on",
    ]
