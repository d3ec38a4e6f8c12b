"""The pages, driven in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

from secl.runs.labelling import review_queue
from secl.server.http.api_keys import Keys
from secl.server.http.health import view
from secl.server.online.service import Service
from secl.testing import toy_stream
from tests.server.conftest import Make
from tests.server.waiting import ask_all, served, until

pytestmark = pytest.mark.slow

Host = Callable[[Service], str]


def shown(tab: Any, selector: str, text: str) -> None:
    """Wait until an element has a text, and the page reacts to keys."""
    tab.locator(selector).filter(has_text=text).first.wait_for()
    tab.wait_for_load_state()


def test_in_a_browser_one_asks_sees_why_and_says_right_which_counts(make_service: Make, host: Host, tab: Any) -> None:
    service = served(make_service())
    address = host(service)
    tab.goto(address)
    before = view(service).labels.count
    shown(tab, ".line", f"Labelled{before}")
    tab.fill("#question", "What is <b>3</b> plus 4?")
    tab.fill("#options", "seven\n\n <i>eight</i> \n")
    tab.keyboard.press("Control+Enter")
    until(lambda: len(service.state) > 40)
    shown(tab, "h1", service.state.served(40).id)
    record = service.state.served(40).record
    assert record.question.options == ("seven", "<i>eight</i>")
    answer = str(record.reply.answer)
    assert f"{answer}. {record.question.option(answer)}" in tab.inner_text(".conversation .short")
    assert tab.inner_text(".figure") == f"{record.confidence:.2f}"
    heights = tab.locator(".bins .bar").evaluate_all("all => all.map(bar => Number(bar.getAttribute('height')))")
    assert heights == pytest.approx([100 * p for p in record.reply.bins])
    tab.click("button:has-text('Right')")
    shown(tab, ".why", "A person labelled it as right.")
    assert service.state.served(40).label is True
    tab.click("nav a:text-is('Overview')")
    shown(tab, ".line", f"Labelled{before + 1}")


def test_in_a_browser_an_answer_that_is_not_kept_is_shown_in_place(make_service: Make, host: Host, tab: Any) -> None:
    service = served(make_service(keep_text="none"))
    tab.goto(host(service))
    tab.fill("#question", "What is 3 plus 4?")
    tab.fill("#options", "seven\neight")
    tab.keyboard.press("Control+Enter")
    until(lambda: "this server keeps no texts" in tab.inner_text("#trouble"))
    record = service.state.served(40).record
    answer = {"A": "seven", "B": "eight"}[str(record.answer)]
    assert tab.inner_text("#trouble").startswith(f"{answer} (confidence {record.confidence:.2f})")
    assert tab.input_value("#question") == "What is 3 plus 4?"


def test_in_a_browser_a_key_opens_the_page_until_it_is_forgotten(make_service: Make, host: Host, tab: Any) -> None:
    service = served(make_service())
    keys = Keys(service.state.folder)
    reader = keys.add("reader", "read")
    address = host(service)
    tab.goto(address)
    tab.fill("#key", "wrong")
    tab.click("#key-form button[type=submit]")
    shown(tab, "#trouble", "This key does not open this page.")
    tab.fill("#key", reader)
    tab.keyboard.press("Enter")
    shown(tab, "h1", "scripted")
    shown(tab, "#done", "The key is in use.")
    tab.fill("#question", "Capital of France?")
    tab.click("#ask button")
    shown(tab, "h1", "rec_")
    tab.goto(address)
    tab.reload()
    shown(tab, "h1", "scripted")  # the tab still has the key
    assert tab.evaluate("localStorage.length") == 0
    assert tab.evaluate("document.cookie") == ""
    tab.click("#key-box summary")
    tab.click("#key-forget")
    shown(tab, ".headline", "This page needs an API key.")


def test_in_a_browser_a_search_by_keys_finds_and_opens_and_goes_back(make_service: Make, host: Host, tab: Any) -> None:
    service = served(make_service(settings={"gate.name": "never"}), 40)
    tab.goto(host(service))
    tab.keyboard.press("/")
    shown(tab, "h1", "Records")
    tab.keyboard.press("/")
    tab.keyboard.type("what 17")
    tab.keyboard.press("Enter")
    shown(tab, "#found", "records match.")
    hrefs = tab.locator("#rows a").evaluate_all("all => all.map(a => a.getAttribute('href').slice(8))")
    assert hrefs
    assert "query=what+17" in tab.url
    tab.click("#rows a")
    shown(tab, "h1", hrefs[0])
    assert tab.url.endswith(f"/records/{hrefs[0]}")
    tab.go_back()
    shown(tab, "#found", "records match.")
    assert tab.input_value("#query") == "what 17"
    tab.goto(f"{tab.url.split('/records')[0]}/records/5")
    tab.click("a[rel=next]")
    shown(tab, "h1", service.state.served(4).id)
    tab.click("a[rel=prev]")
    shown(tab, "h1", service.state.served(5).id)
    tab.keyboard.press("w")
    shown(tab, ".why", "A person labelled it as wrong.")
    assert service.state.labels()[-1].chance is None
    tab.keyboard.press("u")
    shown(tab, ".why", "The answer has no label.")


def test_in_a_browser_a_review_takes_keys_and_mouse(make_service: Make, host: Host, tab: Any) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(8))
    queue = review_queue(service.state).positions
    tab.goto(f"{host(service)}/review")

    def current() -> int:
        return service.state.find(tab.locator(".rating").get_attribute("data-record")).record.position

    def at(position: int) -> None:
        tab.locator(f'.rating[data-record="{service.state.served(position).id}"]').wait_for()
        tab.wait_for_load_state()  # then the page reacts to keys

    def said() -> dict[int, bool]:
        return {label.position: bool(label.correct) for label in service.state.labels()}

    assert current() == queue[0]
    assert f"{service.state.served(queue[0]).record.confidence:.2f}" not in tab.inner_text("main")
    tab.keyboard.press("r")
    at(queue[1])
    tab.click(".rating button:has-text('Wrong')")
    at(queue[2])
    tab.keyboard.press("s")
    at(queue[3])
    assert said() == {queue[0]: True, queue[1]: False}
    assert {label.chance for label in service.state.labels()} == {1.0}
    assert [entry.position for entry in service.state.label_log() if entry.skipped] == [queue[2]]
    assert review_queue(service.state).positions == (*queue[3:], queue[2])
    tab.keyboard.press("u")
    at(queue[2])
    until(lambda: review_queue(service.state).positions == queue[2:])
    tab.click("#undo")
    at(queue[1])
    until(lambda: said() == {queue[0]: True})
    for position in queue[1:]:
        at(position)
        tab.keyboard.press("r")
    shown(tab, ".empty", "No answer is left to rate.")
    assert said() == dict.fromkeys(queue, True)
    tab.keyboard.press("u")
    at(queue[-1])
