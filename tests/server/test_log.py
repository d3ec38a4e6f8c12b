"""The server's log: where it stands, what goes wrong, and every request; never what people ask."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastapi.testclient import TestClient

from secl.errors import StorageError
from secl.server.http.api_keys import Keys
from secl.server.http.app import create_app
from secl.testing import toy_stream
from tests.reports.conftest import make_record as make_record
from tests.server.conftest import MakeService

LOGGER = "secl.server"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, LOGGER)
    return caplog


def test_a_request_is_a_line_without_its_text(make_service: MakeService, said: pytest.LogCaptureFixture) -> None:
    service = make_service(gate="never")
    client = TestClient(create_app(service, Keys(service.state.folder)), base_url="http://localhost")
    client.post("/v1/ask?hint=secret", json={"question": "secret?"})
    client.get("/healthz")
    client.get("/v1/records/rec_%0Asecond%20line")
    lines = {record.getMessage().rsplit(" ", 2)[0]: record.levelname for record in said.records}
    assert lines["POST /v1/ask 200"] == "INFO"
    assert lines["GET /healthz 200"] == "DEBUG"
    assert lines["GET /v1/records/rec_%0Asecond%20line 404"] == "INFO"
    assert "secret" not in said.text


def test_disk_trouble_is_logged_once_and_so_is_its_end(
    make_service: MakeService, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(gate="never")

    def refuse(*_args: Any, **_named: Any) -> None:
        raise StorageError("disk full.")

    monkeypatch.setattr(service.state, "add_answers", refuse)
    for question in toy_stream(3):
        service.ask(question, 20)
    monkeypatch.undo()
    service.ask(toy_stream(1)[0], 20)
    messages = [record.getMessage() for record in said.records if record.levelno == logging.WARNING]
    assert messages == [
        "answers are not stored until the disk takes them again: disk full.",
        "the disk takes answers again, from record 0 on",
    ]
