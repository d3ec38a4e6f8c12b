"""A server with OpenAI's API by rule, and a model behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secl.backends.openai import client
from secl.backends.openai.model import EndpointModel
from tests.backends.openai.fake import FakeServer, running


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    with running(FakeServer()) as started:
        yield started


@pytest.fixture
def model(server: FakeServer) -> Iterator[EndpointModel]:
    loaded = EndpointModel(server.url)
    server.asked.clear()
    yield loaded
    loaded.close()
