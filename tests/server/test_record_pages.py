"""The pages of records and of the review: whole without a script, safe whatever they show, driven in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from secl.question import Question, Turn
from secl.server.explain import explain, learning_in_words, number_in_words
from secl.server.http.api_keys import Keys
from secl.server.http.app import create_app
from secl.server.online.service import Service
from secl.server.records import review_queue
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.pages import HOSTILE, Page, served, shown
from tests.server.waiting import until

Host = Callable[[Service], str]


def client_of(service: Service) -> TestClient:
    return TestClient(create_app(service), base_url="http://127.0.0.1")


def words(text: str) -> str:
    return " ".join(Page(text).text.split())


def test_the_list_says_what_was_asked_for_and_what_came_of_it(make_service: MakeService) -> None:
    client = client_of(served(make_service(), 40))
    text = client.get("/records", params={"query": "what plus", "label": "right", "max_confidence": "0.99"}).text
    assert "5 records fit." in text
    fields = {each["id"]: each for tag, each in Page(text).tags if tag == "input"}
    assert (fields["query"]["value"], fields["max_confidence"]["value"]) == ("what plus", "0.99")
    assert '<option value="right" selected="selected">' in text
    assert "No record fits." in client.get("/records?query=zebra").text
    for query, sentence in (
        ("min_confidence=2", "min_confidence: Input should be less than or equal to 1."),
        ("min_confidence=0.9&max_confidence=0.1", "nothing can fit; exchange them."),
        ("query=%2A%2A", "type at least one word."),
        ("before=x", "names no record"),
        ("colour=red", "colour: Extra inputs are not permitted."),
    ):
        refused = client.get(f"/records?{query}")
        assert refused.status_code == 400
        assert sentence in words(refused.text)


def test_an_empty_list_and_an_empty_queue_say_so(make_service: MakeService) -> None:
    client = client_of(make_service())
    assert "Nobody has asked anything yet." in client.get("/records").text
    assert "Nobody has asked anything yet." in client.get("/review").text


def test_the_page_of_a_record_says_why_in_the_words_of_secl_show(make_service: MakeService) -> None:
    service = make_service(method="posterior")
    for number, question in enumerate(toy_stream(30)):
        service.ask(question, 20)
        if number % 3 == 0:
            service.state.add_feedback(number, number % 2 == 0, 1.0)
    text = words(client_of(service).get("/records/rec_00000025").text)
    with ServerStore(service.state.folder) as reader:
        explanation = explain(reader, 25)
    record = explanation.served.record
    said = (*number_in_words(explanation), *learning_in_words(explanation))
    assert len(said) >= 4
    for sentence in said:
        assert " ".join(sentence.split()) in text
    assert record.posterior is not None
    for candidate, probability in zip(record.posterior.candidates, record.posterior.probabilities, strict=True):
        assert f"{probability:.3f} {candidate}" in text
    assert "Log-likelihood as a text" in text
    assert f"Confidence {record.confidence:.2f}, band" in text


def test_a_conversation_is_shown_in_its_roles_and_whatever_it_says_is_text(make_service: MakeService) -> None:
    service = make_service()
    history = (Turn("user", f"first {HOSTILE}"), Turn("assistant", f"second {HOSTILE}"))
    safe = HOSTILE.replace("\x00", "").replace("\x0b", "")
    question = Question(f"third {HOSTILE}", system=f"zeroth {HOSTILE}", history=history, domain=safe, form="short")
    service.ask(question, 20)
    service.ask(Question("Which?", options=(f"one {HOSTILE}", f"two {HOSTILE}")), 20)
    client = client_of(service)
    for address in ("/records", "/records/0", "/records/1", "/review", "/review?record=rec_00000000"):
        text = client.get(address).text
        assert "alert(&#39;1&#39;)" in text, address
        assert "<script>" not in text
        assert text.count("<script ") == 1
        for tag, attributes in Page(text).tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
    hostile = client.get(
        "/records", params={"query": '"><script>alert(1)</script>', "domain": "'><img src=x onerror=1>"}
    )
    assert "<script>" not in hostile.text
    assert "<img" not in hostile.text
    shown_turns = words(client.get("/records/0").text)
    places = [
        shown_turns.index(f"{role} {text}")
        for role, text in (("system", "zeroth"), ("user", "first"), ("assistant", "second"), ("user", "third"))
    ]
    assert places == sorted(places)


def test_pages_of_records_say_nothing_to_those_without_a_key(make_service: MakeService) -> None:
    service = served(make_service(), 12)
    token = Keys(service.state.folder).add("reader", "read")
    client = client_of(service)
    for address in ("/records", "/records/rec_00000003", "/records/rec_99999999", "/review"):
        locked = client.get(address)
        assert (locked.status_code, locked.headers["vary"]) == (200, "Authorization")
        assert 'data-locked="yes"' in locked.text
        assert not re.search(r"rec_|plus|toy", locked.text.replace("records", ""))
        assert "unsafe" not in locked.headers["content-security-policy"]
        opened = client.get(address, headers={"Authorization": f"Bearer {token}"})
        assert "data-locked" not in opened.text
    assert client.get("/v1/records").status_code == client.get("/v1/review").status_code == 401


# From here on with a browser.


@pytest.mark.slow
def test_in_a_browser_a_search_by_keys_finds_and_opens_and_goes_back(
    make_service: MakeService,
    host: Host,
    tab: Any,
) -> None:
    service = served(make_service(gate="never"), 40)
    tab.goto(host(service))
    tab.keyboard.press("/")
    shown(tab, "h1", "Records")
    tab.keyboard.press("/")
    tab.keyboard.type("what 17")
    tab.keyboard.press("Enter")
    shown(tab, "#found", "records fit.")
    hrefs = tab.locator("#rows a").evaluate_all("all => all.map(a => a.getAttribute('href').slice(8))")
    assert hrefs
    assert "query=what+17" in tab.url
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    tab.keyboard.press("k")
    tab.keyboard.press("Enter")
    shown(tab, "h1", hrefs[0])
    assert tab.url.endswith(f"/records/{hrefs[0]}")
    tab.go_back()
    shown(tab, "#found", "records fit.")
    assert tab.input_value("#query") == "what 17"
    tab.goto(f"{tab.url.split('/records')[0]}/records/5")
    tab.keyboard.press("j")
    shown(tab, "h1", "rec_00000004")
    tab.keyboard.press("k")
    shown(tab, "h1", "rec_00000005")
    tab.keyboard.press("w")
    shown(tab, ".why", "People say: wrong.")
    assert service.state.store.labels()[-1].chance is None
    tab.keyboard.press("u")
    shown(tab, ".why", "Nobody has said whether it is right.")


@pytest.mark.slow
def test_in_a_browser_a_review_goes_through_the_queue_by_keys_and_by_mouse(
    make_service: MakeService,
    host: Host,
    tab: Any,
) -> None:
    service = make_service(gate="never")
    for question in toy_stream(8):
        service.ask(question, 20)
    queue = review_queue(service.state).positions
    tab.goto(f"{host(service)}/review")

    def current() -> int:
        return int(tab.locator(".rating").get_attribute("data-record").removeprefix("rec_"))

    def at(position: int) -> None:
        tab.locator(f'.rating[data-record="rec_{position:08d}"]').wait_for()

    def said() -> dict[int, bool]:
        return {label.position: bool(label.correct) for label in service.state.store.labels()}

    assert current() == queue[0]
    assert f"{service.state.served(queue[0]).record.confidence:.2f}" not in tab.inner_text("main")
    tab.keyboard.press("r")
    at(queue[1])
    tab.click(".rating button:has-text('Wrong')")
    at(queue[2])
    tab.keyboard.press("s")
    at(queue[3])
    assert said() == {queue[0]: True, queue[1]: False}
    assert {label.chance for label in service.state.store.labels()} == {1.0}
    tab.keyboard.press("u")
    at(queue[2])
    tab.click("#undo")
    at(queue[1])
    until(lambda: said() == {queue[0]: True})
    for position in queue[1:]:
        at(position)
        tab.keyboard.press("r")
    shown(tab, ".empty", "Nothing is left here.")
    assert said() == dict.fromkeys(queue, True)
    tab.keyboard.press("u")
    at(queue[-1])
