"""What tests of pages share: a service with a past, what stands in a page, and a browser."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
import uvicorn

from secl.server.http.app import create_app
from secl.server.online.service import Service
from secl.testing import toy_stream
from tests.server.waiting import settled, until

HOSTILE = "<script>alert('1')</script> & \"quoted\" {{ 7*7 }} {% raw %} --> \x00\x0b\u202e 日本 </li></main>"
TIMEOUT = 30_000
"""Milliseconds that a browser on a busy machine may take for anything."""


def served(service: Service, count: int = 40) -> Service:
    """The service after some answers, lessons and judgements."""
    for number, question in enumerate(toy_stream(count)):
        service.ask(question, 20)
        if number % 4 == 0:
            service.state.add_feedback(number, number % 8 == 0)
    settled(service)
    return service


class Page(HTMLParser):
    """What tests want to know of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def shown(tab: Any, selector: str, text: str) -> None:
    """Wait until an element holds a text."""
    tab.locator(selector).filter(has_text=text).first.wait_for()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def host() -> Iterator[Callable[[Service], str]]:
    """Puts services behind HTTP on a free port, and gives the address."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(service: Service) -> str:
        free = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="error", ws="none", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]}, daemon=True)
        thread.start()
        running.append((server, thread))
        until(lambda: server.started)
        return f"http://127.0.0.1:{free.getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A page in a browser window of its own; a problem in its console fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.problems = problems
    yield page
    context.close()
