"""The pages of servers and of a run's review: complete without a script, and safe with hostile texts; search."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from secl.conversation import Message
from secl.errors import ParameterError
from secl.question import Question
from secl.reports.html import TEMPLATES
from secl.runs import Store
from secl.runs.labelling import review_queue, row_id
from secl.server.entries import answer_text
from secl.server.http import health, pages
from secl.server.http.api_keys import Keys
from secl.server.http.health import ServerState, view
from secl.server.http.pages import ASSETS, overview
from secl.server.http.process import create_review_app
from secl.server.online.service import Service
from secl.server.records import Search, search
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests import processes
from tests.answers import answered, run_folder
from tests.server.conftest import Make, Patch, client_of, hosted
from tests.server.waiting import explained, served, settled, until

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
    assert f"{round(accept, 3)}" in Page(overview(view(accepting))).texts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(run_folder(tmp_path / "run", answered([0.7] * 6, [None] * 6)), writable=True) as store:
        yield store


@pytest.fixture
def client(store: Store) -> TestClient:
    return TestClient(create_review_app(store), base_url="http://127.0.0.1")


def shown(page: str) -> str:
    """The id of the answer that a page shows."""
    return str(re.findall(r'data-record="(.*?)"', page)[0])


def test_a_page_shows_the_answers_of_a_run_in_the_order_of_the_terminal_and_stores_labels(
    store: Store, client: TestClient
) -> None:
    queue = review_queue(store).positions
    order = [row_id(store.record(position)) for position in queue]
    verdicts: list[tuple[bool | None, bool]] = [(True, False), (False, False), (None, True)]
    for number, (correct, skipped) in enumerate(verdicts):
        page = client.get("/review", params={"after": queue[number - 1]} if number else {}).text
        assert shown(page) == order[number]
        assert f"{number - (number > 2)} of 6 answers are rated." in page
        said = {"record_id": order[number], "correct": correct, "skipped": skipped, "drawn": True}
        assert client.post("/v1/feedback", json=said).json()["labels"] == min(number + 1, 2)
    log = [(row_id(store.record(e.position)), e.correct, e.skipped, e.source, e.chance) for e in store.label_log()]
    assert log == [(name, *verdict, "review", 1.0) for name, verdict in zip(order[:3], verdicts, strict=True)]
    assert 'aria-pressed="true"' in client.get("/review", params={"record": order[0]}).text
    assert client.post("/v1/feedback", json={"record_id": order[0], "correct": None}).status_code == 200
    assert shown(client.get("/review").text) == order[0]
    for name in (*order[1:2], order[0], *order[3:]):
        client.post("/v1/feedback", json={"record_id": name, "correct": True, "drawn": True})
    assert shown(client.get("/review").text) == order[2]  # the skipped one comes last
    client.post("/v1/feedback", json={"record_id": order[2], "correct": True, "drawn": True})
    page = client.get("/review").text
    assert "No answer is left to rate." in page
    assert [link for link in re.findall(r'href="(.*?)"', page) if "static" not in link] == ["#main"]


def test_the_page_of_a_run_is_for_this_machine_and_has_no_other_routes(store: Store, client: TestClient) -> None:
    name = row_id(store.record(0))
    assert client.get("/", follow_redirects=False).headers["location"] == "review"
    said = {"record_id": name, "correct": True, "drawn": True}
    foreign = client.post("/v1/feedback", json=said, headers={"origin": "http://elsewhere.example"})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert client.get("/review", headers={"host": "elsewhere.example"}).status_code == 403
    for path in ("/records", "/v1/records", "/v1/ask", "/v1/state"):
        assert client.get(path).status_code == 404
    for unknown in ("0", "rec_99_00000000", f"{name[:-1]}{'0' if name[-1] != '0' else '1'}", "rec_1"):
        refused = client.post("/v1/feedback", json=said | {"record_id": unknown})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_value")
        assert client.get("/review", params={"record": unknown}).status_code == 404
    assert store.label_log() == ()


def test_the_command_serves_the_page_until_ctrl_c_and_then_says_what_the_labels_changed(tmp_path: Path) -> None:
    run, log = run_folder(tmp_path / "run", answered([0.7] * 6, [None] * 6)), tmp_path / "log"
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    process = processes.start(log, "review", run, "--port", port)
    until(lambda: f"http://127.0.0.1:{port}/review" in (log.read_text() if log.exists() else ""))
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

        def ready() -> bool:
            with suppress(httpx.TransportError):
                return client.get("/review").status_code == 200
            return False

        until(ready)
        name = shown(client.get("/review").text)
        client.post("/v1/feedback", json={"record_id": name, "correct": False, "drawn": True}).raise_for_status()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        assert processes.finish(process) == 0, log.read_text()
    assert "1 label: 0 right, 1 wrong." in log.read_text()
    assert re.search(r"Mean confidence 0\.\d+ without labels, 0\.\d+ now", log.read_text())


@pytest.mark.slow
def test_in_a_browser_people_rate_the_answers_of_a_run(store: Store, tab: Any) -> None:
    queue = review_queue(store).positions

    def at(position: int) -> None:
        tab.locator(f'.rating[data-record="{row_id(store.record(position))}"]').wait_for()
        tab.wait_for_load_state()  # then the page reacts to keys

    with hosted(create_review_app(store)) as address:
        tab.goto(address)
        for position, key in zip(queue, "rwsrrr", strict=True):
            at(position)
            tab.keyboard.press(key)
        at(queue[2])
        tab.keyboard.press("u")
        at(queue[5])
    until(lambda: [label.position for label in store.labels()] == [*queue[:2], *queue[3:5]])


WANTED = (
    Search(),
    Search(label="right"),
    Search(label="wrong"),
    Search(label="none"),
    Search(min_confidence=0.6),
    Search(max_confidence=0.5, label="none"),
    Search(query="what 7", label="right"),
    Search(domain="nowhere"),
)


def rated(service: Service, count: int = 60) -> Service:
    """The service after answers and lessons; every third answer has a label, and some labels were taken back."""
    for number, question in enumerate(toy_stream(count)):
        service.ask(question, 20)
        if number % 3 == 0:
            service.state.add_feedback(number, number % 2 == 0)
        if number % 9 == 0:
            service.state.add_feedback(number, None)
    settled(service)
    return service


def by_looking(state: ServerStore, wanted: Search) -> list[int]:
    """Positions of matching records, found by a scan."""
    said = {label.position: label.correct for label in state.labels()}
    found = []
    for record in state.records():
        text = " ".join((record.question.text, *record.question.options, answer_text(record))).lower()
        fits = (
            all(word in text for word in wanted.query.split()),
            wanted.domain in ("", record.question.domain),
            wanted.min_confidence <= record.confidence <= wanted.max_confidence,
            wanted.label is None
            or said.get(record.position) is {"right": True, "wrong": False, "none": None}[wanted.label],
        )
        found += [record.position] if all(fits) else []
    return found[::-1]


def all_pages(state: ServerStore, wanted: Search, count: int) -> list[int]:
    found, before = list[int](), None
    while True:
        page = search(state, wanted.model_copy(update={"count": count, "before": before}))
        assert len(page.records) <= count
        found += [each.position for each in page.records]
        if page.before is None:
            return found
        before = page.before


@pytest.fixture(scope="module")
def state(share_service: Make) -> ServerStore:
    """State of a server with sixty answers, for tests that only read."""
    return rated(share_service()).state


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_pages_together_are_what_a_look_at_all_records_finds(state: ServerStore, wanted: Search) -> None:
    expected = by_looking(state, wanted)
    assert expected or wanted.domain
    assert all_pages(state, wanted, 7) == all_pages(state, wanted, 1000) == expected


def test_parts_of_words_are_found_without_case_and_accents_and_never_as_a_language(
    make_service: Make,
) -> None:
    service = make_service()
    texts = ("Where is Malmö?", "A NEAR miss", 'He said "near the end" twice', "sad sleep of 7 * 8", "Ünder_score")
    for text in texts:
        service.ask(Question(text, options=("Zürich", "Île de Ré")), 20)

    def found(query: str) -> list[int]:
        return sorted(each.position for each in search(service.state, Search(query=query)).records)

    assert found("malmo") == [0]
    assert found("near") == [1, 2]
    assert found('"near the"') == [2]
    assert found("end near") == [2]
    assert found("zurich") == [0, 1, 2, 3, 4]
    assert found("malm") == found("MALMÖ?") == [0]
    assert found("malmo OR sad") == found("ma%") == found("question : malmo") == found("ma*") == []
    assert found("8 AND 7") == []
    assert found("7 * 8") == found("8 7") == found("*") == [3]
    assert found('""') == found('" "') == found("") == [0, 1, 2, 3, 4]


def test_without_texts_no_words_are_kept_and_none_are_looked_for(make_service: Make) -> None:
    service = make_service(keep_text="none")
    service.ask(Question("A secret phrase?", options=("hidden thing", "other")), 20)
    assert len(search(service.state, Search()).records) == 1
    with pytest.raises(ParameterError, match=r"keeps no texts \(--keep-text none\)"):
        search(service.state, Search(query="secret"))


def test_a_random_review_draws_every_recent_answer_alike_and_goes_on_where_it_was_left(make_service: Make) -> None:
    service = rated(make_service(), 60)
    queue = review_queue(service.state)
    unrated = by_looking(service.state, Search(label="none"))
    assert sorted(queue.positions) == list(range(60))  # with answers that volunteers have rated
    assert list(queue.positions) not in (list(range(60)), list(range(60))[::-1])
    assert (queue.rated, queue.answers) == (60 - len(unrated), 60)
    first, second, third, *_ = queue.positions
    service.state.add_feedback(first, True, chance=1.0)
    assert review_queue(service.state).positions == queue.positions[1:]
    assert review_queue(service.state, after=second).positions[0] == third
    assert review_queue(service.state, after=10**6).positions == queue.positions[1:]
    service.state.add_feedback(second, None, drawn=True, skipped=True)  # a skipped answer comes last
    assert review_queue(service.state, after=second).positions == (*queue.positions[2:],)
    assert review_queue(service.state).positions == (*queue.positions[2:], second)


def test_the_api_searches_pages_and_refuses_in_words(make_service: Make) -> None:
    service = rated(make_service(), 25)
    client = client_of(service)
    page = client.get("/v1/records", params={"count": 10, "query": "what"}).json()
    older = client.get("/v1/records", params={"count": 10, "query": "what", "before": page["before"]}).json()["records"]
    assert [each["position"] for each in (*page["records"], *older)] == [*range(24, 4, -1)]
    first = client.get("/v1/records", params={"count": 1, "label": "right", "min_confidence": 0.2}).json()["records"][0]
    record = client.get(f"/v1/records/{first['record_id']}").json()
    assert first["label"] is record["label"] is True
    assert first["confidence"] == record["record"]["confidence"]
    assert first["question"] == record["record"]["question"]["text"]
    for params, sentence in (
        ({"min_confidence": 0.9, "max_confidence": 0.1}, "no record can match; exchange the two bounds."),
        ({"before": "yesterday"}, "before: "),
        ({"label": "good"}, "label: "),
        ({"qeury": "x"}, "does not know the field 'qeury'; it knows query, domain, min_confidence, "),
        ({"limit": 3}, "label, accepted, before, count."),
        ({"count": 1000}, "count: "),
    ):
        refused = client.get("/v1/records", params=params)
        assert refused.status_code in (400, 422)
        assert sentence in refused.json()["error"]["message"]
