"""What tests of pages share: a service with a past, and what stands in a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from secl.server.online.service import Service
from secl.testing import toy_stream
from tests.server.waiting import settled

HOSTILE = "<script>alert('1')</script> & \"quoted\" {{ 7*7 }} {% raw %} --> \x00\x0b\u202e 日本 </li></main>"


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
        self.texts: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"
        self.texts.add(data.strip())


def shown(tab: Any, selector: str, text: str) -> None:
    """Wait until an element holds a text, and the page hears keys."""
    tab.locator(selector).filter(has_text=text).first.wait_for()
    tab.wait_for_load_state()
