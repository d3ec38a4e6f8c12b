"""The pages: complete without a script, and safe with hostile texts."""

import json
import re
from html.parser import HTMLParser
from typing import Any

from secl.conversation import Message
from secl.question import Question
from secl.reports.html import TEMPLATES
from secl.server.http import health, pages
from secl.server.http.api_keys import Keys
from secl.server.http.health import ServerState, view
from secl.server.http.pages import ASSETS, overview
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import Make, Patch, client_of
from tests.server.waiting import explained, served, settled

HOSTILE = "<script>alert('1')</script> & \"quoted\" {{ 7*7 }} {% raw %} --> \x00\x0b\u202e 日本 </li></main>"


class Page(HTMLParser):
    """Tags and texts of a page."""

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


def test_the_page_is_whole_without_a_script(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(pages, "time", lambda: 0.0)
    service = served(make_service())
    state: Any = view(service)
    text = overview(state)
    page = Page(text)
    words = " ".join(page.text.split())
    assert "1970-01-01 00:00:00" in words
    assert f"Version {state.learning.version}" in words
    assert f"ECE {state.labels.ece:.3f}" in words
    assert f"Trained {state.learning.lessons['trained']}" in words
    pictures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(pictures) == 1
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for picture in pictures:
        assert set(str(picture["aria-labelledby"]).split()) <= set(identifiers)
    assert [attributes["id"] for _, attributes in page.tags if "data-refresh" in attributes] == ["state"]
    state_at = [attributes.get("id") for _, attributes in page.tags].index("state")
    assert "button" not in {tag for tag, _ in page.tags[state_at:]}


def test_the_page_allows_nothing_from_outside_and_nothing_inline(make_service: Make) -> None:
    service = served(make_service())
    client = client_of(service)
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
    for path in (*ASSETS.iterdir(), TEMPLATES / "shared.css"):
        file = client.get(f"/static/{path.name}")
        assert file.status_code == (200 if path.suffix in kinds else 404)
        if file.status_code == 200:
            assert file.headers["content-type"].startswith(kinds[path.suffix])
            assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", file.text) == []
            assert "@import" not in file.text
            assert "innerHTML" not in file.text
    assert client.get("/static/nothing").status_code == 404


def test_an_empty_server_has_pages_that_say_so(make_service: Make) -> None:
    client = client_of(make_service())
    shown = words(client.get("/").text)
    assert "This chart appears after the first answers." in shown
    assert "No answer has a label yet." in shown
    assert "nan" not in shown
    assert "None" not in shown
    for path in ("/records", "/review"):
        assert "No question yet." in client.get(path).text


def words(text: str) -> str:
    return " ".join(Page(text).text.split())


def test_the_list_says_what_was_asked_for_and_what_came_of_it(make_service: Make) -> None:
    client = client_of(served(make_service(), 40))
    text = client.get("/records", params={"query": "what plus", "label": "right", "max_confidence": "0.99"}).text
    assert "5 records match." in text
    fields = {each["id"]: each for tag, each in Page(text).tags if tag == "input"}
    assert (fields["query"]["value"], fields["max_confidence"]["value"]) == ("what plus", "0.99")
    assert '<option value="right" selected="selected">' in text
    assert "No record matches." in client.get("/records?query=zebra").text
    gone = client.get("/records/<script>")
    assert (gone.status_code, "There is no record" in gone.text, "<script>" in gone.text) == (404, True, False)
    assert "5 records match; the next page has older records" in client.get("/records?count=5").text
    refused = client.get("/records?min_confidence=2")
    assert refused.status_code == 400
    assert "min_confidence: Input should be less than or equal to 1." in words(refused.text)


def test_the_page_of_a_record_says_why_in_the_words_of_secl_show(make_service: Make) -> None:
    service = make_service(settings={"method": "posterior"})
    for number, question in enumerate(toy_stream(30)):
        service.ask(question, 20)
        if number % 3 == 0:
            service.state.add_feedback(number, number % 2 == 0, 1.0)
    text = words(client_of(service).get("/records/25").text)
    record: Any
    with ServerStore(service.state.folder) as reader:
        record, why = reader.served(25).record, explained(reader, 25)["why"]
    assert len(why) >= 3
    for sentence in why:
        assert " ".join(sentence.split()) in text
    for candidate, probability in zip(record.posterior.candidates, record.posterior.probabilities, strict=True):
        assert f"{probability:.3f} {candidate}" in text
    assert f"Confidence {record.confidence:.2f}, band" in text


def test_a_conversation_is_shown_in_its_roles_and_hostile_texts_stay_texts(make_service: Make) -> None:
    service = make_service()
    history = (Message("user", f"first {HOSTILE}"), Message("assistant", f"second {HOSTILE}"))
    safe = HOSTILE.replace("\x00", "").replace("\x0b", "")
    question = Question(f"third {HOSTILE}", system=f"zeroth {HOSTILE}", history=history, domain=safe, form="short")
    service.ask(question, 20)
    service.ask(Question("Which?", options=(f"one {HOSTILE}", f"two {HOSTILE}")), 20)
    service.model.name = HOSTILE
    service.learner.pause(HOSTILE)
    client = client_of(service)
    assert HOSTILE.replace("\x00\x0b", "\ufffd\ufffd") in Page(client.get("/").text).text
    for address in ("/", "/records", "/records/0", "/records/1", "/review", "/review?record=0"):
        text = client.get(address).text
        assert "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;" in text, address
        assert "<script>" not in text
        assert text.count("<script ") == 1
        for tag, attributes in Page(text).tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
    wanted = {"query": '"><script>alert(1)</script>', "domain": "'><img src=x onerror=1>"}
    hostile = client.get("/records", params=wanted)
    assert "<script>" not in hostile.text
    assert "<img" not in hostile.text
    shown_turns = words(client.get("/records/0").text)
    turns = ("system zeroth", "user first", "assistant second", "user third")
    assert [shown_turns.index(turn) for turn in turns] == sorted(shown_turns.index(turn) for turn in turns)


def test_pages_of_records_say_nothing_to_those_without_a_key(make_service: Make) -> None:
    service = served(make_service(), 12)
    token = Keys(service.state.folder).add("reader", "review")
    client = client_of(service)
    for address in ("/", "/records", "/records/3", "/records/99999999", "/review"):
        locked = client.get(address)
        assert (locked.status_code, locked.headers["vary"]) == (200, "Authorization")
        assert 'data-locked="yes"' in locked.text
        assert not re.search(r"rec_|plus|toy|scripted", locked.text.replace("records", ""))
        assert "unsafe" not in locked.headers["content-security-policy"]
        opened = client.get(address, headers={"Authorization": f"Bearer {token}"})
        assert "data-locked" not in opened.text
    assert client.get("/v1/records").status_code == 401


def test_a_view_is_what_the_records_say_and_is_json_without_nan(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service()
    questions = toy_stream(40)
    answers = [service.ask(question, 20) for question in questions]
    settled(service)
    service.state.add_feedback(3, True)
    service.state.add_feedback(4, False)
    monkeypatch.setattr(health, "POINTS", 25)
    state = view(service)
    assert ServerState.model_validate_json(json.dumps(state.model_dump(), allow_nan=False)) == state
    assert (state.model, state.answers, state.problems) == ("scripted", 40, [])
    assert [point.position for point in state.timeline] == list(range(15, 40))
    for point in state.timeline:
        record = answers[point.position].record
        assert (point.confidence, point.frozen_confidence) == (record.reply.stated, record.frozen.stated)
        assert (point.entropy, point.version) == (record.reply.entropy, record.reply.version)
        assert (point.alarm, point.in_burst) == (record.decision.alarm, record.decision.in_burst)
    learning: Any = state.learning
    assert learning.lessons == service.state.counts()
    assert state.labels.count == 2
    assert learning.version == service.learner.version == sum(s.record.outcome == "waiting" for s in answers)
    last = answers[-1].record.decision
    gate = (learning.in_burst, learning.remaining, learning.statistic)
    assert gate == (last.in_burst, last.remaining, last.statistic)
    assert view(service) == state


def test_a_server_that_does_not_learn_shows_nothing_of_learning(make_service: Make) -> None:
    headings = {"Version", "Drift of weights", "Gate statistic", "Learning", "Trained", "alarm", "burst"}
    learning = Page(overview(view(served(make_service())))).texts
    assert headings <= learning
    page = Page(overview(view(served(make_service("fixed", settings={"method": "posterior"})))))
    assert not headings & page.texts
    assert {"Answers", "Confidence, mean", "Labels", "Threshold", "none set (--accept)", "API key"} <= page.texts
    assert {"key-box", "done", "ask"} <= {attributes.get("id") for _, attributes in page.tags}
    accepting = served(make_service("accepting", settings={"method": "posterior", "loop.accept": 0.4}))
    accept = view(accepting).accept
    assert accept is not None
    assert accept > 0.4  # labels since the start have raised the confidences and the threshold
    assert f"{accept:.4g}" in Page(overview(view(accepting))).texts
