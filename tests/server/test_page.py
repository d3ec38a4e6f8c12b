"""The page: whole without a script, safe whatever it shows, and driven in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from secl.evidence import EvidenceKind
from secl.model import ModelAnswer
from secl.question import Question
from secl.server.http.api_keys import Keys
from secl.server.http.app import create_app
from secl.server.http.pages.rendering import ASSETS, headline, overview
from secl.server.http.pages.view import view
from secl.server.online.service import Service
from secl.testing import ScriptedModel
from tests.server.conftest import MakeService
from tests.server.pages import HOSTILE, Page, served, shown
from tests.server.waiting import until


def test_the_page_is_whole_without_a_script(make_service: MakeService) -> None:
    service = served(make_service())
    state = view(service)
    text = overview(state, now=0.0)
    page = Page(text)
    words = " ".join(page.text.split())
    assert "1970-01-01 00:00:00" in words
    assert f"Version {state['newest']}" in words
    assert f"ECE {state['feedback']['ece']:.3f}" in words
    assert f"Trained {state['lessons']['trained']}" in words
    for point in state["timeline"][-8:]:
        assert f"rec_{point['position']:08d}" in words
    pictures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(pictures) == 5
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for picture in pictures:
        assert set(str(picture["aria-labelledby"]).split()) <= set(identifiers)
    live = [attributes for _, attributes in page.tags if "data-live" in attributes]
    assert len(live) >= 8
    assert all("id" in attributes for attributes in live)


def test_the_page_allows_nothing_from_outside_and_nothing_inline(make_service: MakeService) -> None:
    service = served(make_service())
    client = TestClient(create_app(service), base_url="http://127.0.0.1")
    reply = client.get("/")
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert reply.headers["cache-control"] == "no-store"
    for tag, attributes in Page(reply.text).tags:
        assert tag not in ("style", "iframe", "object", "base", "img")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href"):
            if name in attributes:
                assert str(attributes[name]).startswith(("static/", "records", "review", "./", "#main"))
    assert re.findall(r"<script(?![^>]*\bsrc=)", reply.text) == []
    kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    for path in ASSETS.iterdir():
        file = client.get(f"/static/{path.name}")
        assert file.status_code == (200 if path.suffix in kinds else 404)
        if file.status_code == 200:
            assert file.headers["content-type"].startswith(kinds[path.suffix])
            assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", file.text) == []
            assert "@import" not in file.text
            assert "innerHTML" not in file.text
    for name in ("..%2fpage.py", "nothing"):
        assert client.get(f"/static/{name}").status_code == 404


def test_whatever_a_model_or_an_admin_writes_is_shown_as_text(make_service: MakeService) -> None:
    model = ScriptedModel()
    model.name = HOSTILE
    service = served(make_service(model=model))
    service.learner.pause(HOSTILE)
    text = overview(view(service))
    assert "<script>" not in text
    assert text.count("<script ") == 1
    assert "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;" in text
    assert HOSTILE.replace("\x00\x0b", "\ufffd\ufffd") in Page(text).text


def test_who_may_not_see_gets_a_page_that_asks_for_a_key_and_says_nothing(make_service: MakeService) -> None:
    service = served(make_service())
    token = Keys(service.state.folder).add("reader", "read")
    client = TestClient(create_app(service), base_url="http://127.0.0.1")
    locked = client.get("/")
    assert locked.status_code == 200
    assert 'data-locked="yes"' in locked.text
    assert "scripted" not in locked.text
    assert "rec_" not in locked.text
    assert locked.headers["vary"] == "Authorization"
    opened = client.get("/", headers={"Authorization": f"Bearer {token}"})
    assert "data-locked" not in opened.text
    assert "scripted" in opened.text


def test_an_empty_server_has_a_page_that_says_so(make_service: MakeService) -> None:
    words = " ".join(Page(overview(view(make_service()))).text.split())
    assert "Nobody has asked anything yet." in words
    assert "The first answers will be drawn here." in words
    assert "Nobody has said yet whether an answer was right." in words
    assert "nan" not in words
    assert "None" not in words


def test_the_headline_says_what_the_server_does() -> None:
    learning = {"on": True, "active": True, "paused": None, "waiting": 0, "backlog": 9}
    state: Any = {"learning": learning, "in_burst": False, "remaining": 0, "answers": 5, "events": [], "newest": 3}
    assert headline(state) == "The gate is quiet: it answers, and watches its uncertainty."
    burst: Any = {**state, "in_burst": True, "remaining": 1, "learning": {**learning, "waiting": 1}}
    assert headline(burst).endswith("learns from the next question, behind the answers. 1 lesson waits.")
    assert headline(burst | {"remaining": 3}).startswith("The gate has fired: it learns from the next 3 questions")
    assert headline(state | {"learning": {**learning, "paused": "x"}}) == "It answers; learning is paused."
    assert "does not learn" in headline(state | {"learning": {**learning, "on": False}})
    back = {"kind": "rollback", "version": 3}
    assert headline(state | {"events": [back]}).startswith("It was rolled back to version 3, and learns again when")
    assert headline(state | {"events": [back], "newest": 4}).startswith("The gate is quiet")


# From here on with a browser.


class Smooth(ScriptedModel):
    """Like a real model in that its bins are spread, and that a question without a reference gets an answer."""

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
    ) -> ModelAnswer:
        answered = super().answer(question, evidence=evidence, written=written)
        bins = tuple(0.9 * p + 0.01 for p in answered.reply.bins)
        return replace(answered, reply=replace(answered.reply, bins=bins))


@pytest.mark.slow
def test_in_a_browser_one_asks_sees_the_bins_says_right_and_the_feedback_counts(
    make_service: MakeService, host: Callable[[Service], str], tab: Any
) -> None:
    service = served(make_service(model=Smooth(), twin=Smooth()))
    tab.goto(host(service))
    before = view(service)["feedback"]["n"]
    shown(tab, "#labelled", str(before))
    tab.fill("#question", "What is <b>3</b> plus 4?")
    tab.fill("#options", "seven\n\n <i>eight</i> \n")
    tab.keyboard.press("Control+Enter")
    tab.locator("#answer").wait_for()
    record = service.state.served(40).record
    assert record.question.options == ("seven", "<i>eight</i>")
    answer = str(record.reply.answer)
    assert tab.inner_text("#said") == f"{answer}. {record.question.option(answer)}"
    assert tab.inner_text("#confidence") == f"{record.confidence:.2f}"
    bars = tab.locator("#answer [data-bin]")
    assert bars.count() == 10
    heights = [float(bars.nth(k).get_attribute("height")) for k in range(10)]
    most = max(record.reply.bins)
    assert heights == pytest.approx([100 * p / most for p in record.reply.bins])
    assert f"Version {record.reply.version}, rec_00000040." in tab.inner_text("#origin")
    tab.click("button:text-is('Right')")
    shown(tab, "#thanks", "the model learns nothing from it")
    shown(tab, "#labelled", str(before + 1))
    assert service.state.served(40).correct is True
    tab.click("button:text-is('Wrong')")
    until(lambda: service.state.served(40).correct is False)
    shown(tab, "button[aria-pressed=true]", "Wrong")


@pytest.mark.slow
def test_in_a_browser_a_key_opens_the_page_and_its_role_decides_what_may_be_done(
    make_service: MakeService, host: Callable[[Service], str], tab: Any
) -> None:
    service = served(make_service())
    keys = Keys(service.state.folder)
    reader, admin = keys.add("reader", "read"), keys.add("admin", "admin")
    address = host(service)
    tab.goto(address)
    tab.fill("#key", "wrong")
    tab.click("#key-form button[type=submit]")
    shown(tab, "#trouble", "That key opens nothing here.")
    tab.fill("#key", reader)
    tab.keyboard.press("Enter")
    shown(tab, "h1", "scripted")
    tab.fill("#question", "Capital of France?")
    tab.click("#ask button")
    tab.locator("#answer").wait_for()
    tab.once("dialog", lambda dialog: dialog.accept())
    tab.click("#rollback-0")
    shown(tab, "#done", "this needs a key with the role admin.")
    assert service.learner.model.version != 0
    tab.fill("#key", admin)  # its box has opened by itself
    tab.click("#key-form button[type=submit]")
    shown(tab, "#done", "The key is in use.")
    tab.once("dialog", lambda dialog: dialog.accept())
    tab.click("#rollback-0")
    shown(tab, "#done", "Answers come from version 0 now.")
    tab.reload()
    shown(tab, "h1", "scripted")  # the tab still has the key
    assert tab.evaluate("localStorage.length") == 0
    assert tab.evaluate("document.cookie") == ""
    tab.click("#key-box summary")
    tab.click("#key-forget")
    shown(tab, ".headline", "to those who have a key")
