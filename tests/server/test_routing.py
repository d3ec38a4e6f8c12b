"""examples/route.py between two real servers: a small model with a threshold, and a stub of a large one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from examples.route import Endpoint, route
from secl.server.http.app import create_app
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.doors import opened


class Large(BaseHTTPRequestHandler):
    """Answers every chat with "A" for 100 tokens."""

    asked: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "large", "object": "model", "created": 0, "owned_by": "us"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body["messages"][-1]["content"])
        message = {"role": "assistant", "content": "A"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "large", "choices": [choice]}
        self._send({**reply, "usage": usage})

    def _send(self, value: dict[str, Any]) -> None:
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def large_server() -> Iterator[str]:
    Large.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Large) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def test_what_the_small_model_does_not_accept_goes_to_the_large_one(make_service: MakeService) -> None:
    questions = toy_stream(12)
    service = make_service(method="posterior", accept=0.27)
    with opened(create_app(service)) as small, large_server() as large:
        first, second = Endpoint.at(f"{small}/v1", 0.1, "none"), Endpoint.at(large, 2.0, "none")
        answers = list(route(questions, first, second))
    assert {each.by for each in answers} == {"small", "large"}
    assert [each.by for each in answers] == ["small" if each.confidence >= 0.27 else "large" for each in answers]
    sent_on = [each for each in answers if each.by == "large"]
    assert all((each.answer, each.paid_large) == ("A", 0.2) for each in sent_on)
    assert all(
        each.paid_small == pytest.approx(0.001) and each.answer[1:2] == "." for each in answers if each.by == "small"
    )
    assert len(Large.asked) == len(sent_on)
    assert Large.asked[0] == f"{sent_on[0].question.text}\nA. {sent_on[0].question.options[0]}" + "".join(
        f"\n{letter}. {option}" for letter, option in zip("BCD", sent_on[0].question.options[1:], strict=True)
    )
    assert all(record.accept == 0.27 for record in service.state.store.records())
