"""The review page of a run: the page of a server, without a model; its labels are those of `secl label`."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from secl.runs import Store
from secl.runs.labelling import review_queue, row_id
from secl.server.http.process import create_review_app
from tests import processes
from tests.answers import answered, run_folder
from tests.server.conftest import hosted
from tests.server.waiting import until


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
