"""Endpoints that fail, return and lag behind: every request is answered, by the version that it named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from secl.backends.vllm.client import CompletionRequest, Endpoint
from secl.backends.vllm.pool import Fleet
from secl.backends.vllm.versions import Versions
from secl.errors import ModelError, ParameterError, UnavailableError
from tests.backends.vllm.conftest import Fakes
from tests.backends.vllm.fake import FakeVllm, hashed

MakeFleet = Callable[..., Fleet]


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "versions", {})


@pytest.fixture
def make_fleet(versions: Versions) -> Iterator[MakeFleet]:
    made: list[Fleet] = []

    def make(*fakes: FakeVllm, **settings: object) -> Fleet:
        endpoints = [Endpoint(fake.url, timeout=5) for fake in fakes]
        made.append(Fleet(endpoints, versions, **settings))  # type: ignore[arg-type]
        made[-1].meet()
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


def publish(fleet: Fleet, version: int, weights: bytes) -> None:
    fleet.versions.write(version, weights)
    fleet.publish()


def said(fleet: Fleet, version: int, prompt: list[int]) -> int:
    ((step,),) = fleet.ask(version, [prompt], CompletionRequest())
    return step.token


def right(weights: bytes, prompt: list[int]) -> int:
    return int(np.argmax(hashed(weights, prompt)))


def test_a_published_version_reaches_every_endpoint_and_the_old_one_leaves(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes()]
    fleet = make_fleet(*servers)
    for version in (1, 2, 3):
        publish(fleet, version, b"w%d" % version)
        assert all(list(server.loaded) == [f"secl-{version}"] for server in servers)
        assert [said(fleet, version, [i]) for i in range(9)] == [right(b"w%d" % version, [i]) for i in range(9)]
    assert all(len(set(server.paths)) == len(server.paths) == 3 for server in servers)
    assert [said(fleet, 0, [i]) for i in range(9)] == [right(b"", [i]) for i in range(9)]


def test_an_endpoint_that_dies_in_the_middle_loses_nothing(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes()]
    fleet = make_fleet(*servers)
    publish(fleet, 1, b"w")
    reached, die = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        die.wait(5)

    servers[0].before = wait
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(said, fleet, i % 2, [i]) for i in range(40)]
        assert reached.wait(5)
        killer = threading.Thread(target=servers[0].kill)
        killer.start()
        killer.join(5)
        die.set()
        found = [answer.result() for answer in answers]
    assert found == [right(b"w" if i % 2 else b"", [i]) for i in range(40)]
    assert fleet.failures > 0
    assert fleet.health[servers[1].url] == "well"
    assert "does not answer" in fleet.health[servers[0].url]


def test_an_endpoint_that_returns_has_the_newest_version_before_it_is_used(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers, now = [fakes(), fakes()], [0.0]
    fleet = make_fleet(*servers, pause=10.0, clock=lambda: now[0])
    publish(fleet, 1, b"old")
    servers[0].kill()
    assert [said(fleet, 1, [i]) for i in range(4)] == [right(b"old", [i]) for i in range(4)]
    publish(fleet, 2, b"new")
    servers[0].start()
    said(fleet, 2, [0])
    assert servers[0].loaded == {}  # too early
    now[0] = 11.0
    servers[0].asked.clear()
    said(fleet, 0, [0])
    assert list(servers[0].loaded) == ["secl-2"]
    assert [said(fleet, 2, [i]) for i in range(9)] == [right(b"new", [i]) for i in range(9)]
    assert set(servers[0].models()) <= {"base", "secl-2"}
    assert fleet.health == {server.url: "well" for server in servers}


def test_a_server_that_was_started_anew_unseen_gets_its_version_back(fakes: Fakes, make_fleet: MakeFleet) -> None:
    server = fakes()
    fleet = make_fleet(server)
    publish(fleet, 1, b"w")
    server.kill()
    server.start()
    assert server.loaded == {}
    assert said(fleet, 1, [5]) == right(b"w", [5])
    assert list(server.loaded) == ["secl-1"]


def test_a_rolled_back_number_is_not_served_with_the_weights_it_had_before(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers, now = [fakes(), fakes()], [0.0]
    fleet = make_fleet(*servers, clock=lambda: now[0])
    publish(fleet, 1, b"first")
    servers[0].fail = lambda route: 503
    said(fleet, 1, [0])
    publish(fleet, 1, b"second")  # the server that failed keeps the first one
    servers[0].fail, now[0] = (lambda route: None), 100.0
    assert list(servers[0].loaded) == ["secl-1"]
    assert [said(fleet, 1, [i]) for i in range(40)] == [right(b"second", [i]) for i in range(40)]
    assert servers[0].asked[-1]["model"] == "secl-1"


def test_a_reply_under_way_keeps_its_version_while_others_come(fakes: Fakes, make_fleet: MakeFleet) -> None:
    server = fakes()
    fleet = make_fleet(server)
    publish(fleet, 1, b"w1")
    with fleet.versions.holding() as version:
        publish(fleet, 2, b"w2")
        publish(fleet, 3, b"w3")
        assert sorted(server.loaded) == ["secl-1", "secl-3"]
        assert said(fleet, version, [7]) == right(b"w1", [7])
    publish(fleet, 4, b"w4")
    assert sorted(server.loaded) == ["secl-4"]


def test_adapters_of_others_are_left_alone(fakes: Fakes, make_fleet: MakeFleet) -> None:
    server = fakes()
    server.loaded = {"secl-99": "left by an earlier run", "theirs-1": "x"}
    fleet = make_fleet(server)
    publish(fleet, 1, b"w1")
    assert sorted(server.loaded) == ["secl-1", "theirs-1"]


def test_prompts_that_begin_alike_go_where_their_beginning_is_cached(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes(), fakes()]
    fleet = make_fleet(*servers)
    for start in range(12):
        for server in servers:
            server.asked.clear()
        for end in range(4):
            said(fleet, 0, [*[start] * 64, end])
        assert sorted(len(server.asked) for server in servers) == [0, 0, 4]


def test_no_endpoint_has_much_more_to_do_than_another(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes(), fakes()]
    fleet = make_fleet(*servers)
    everywhere = threading.Barrier(12, timeout=5)
    for server in servers:
        server.before = everywhere.wait
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda i: said(fleet, 0, [1]), range(12)))
    counts = sorted(len(server.asked) for server in servers)
    assert counts[-1] <= 2 * counts[0] + 3


def test_without_any_endpoint_one_sentence_names_them_all(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes()]
    fleet = make_fleet(*servers)
    for server in servers:
        server.kill()
    with pytest.raises(UnavailableError, match="none of the 2 vLLM endpoints can be used") as refused:
        said(fleet, 0, [1])
    assert all(server.url in str(refused.value) for server in servers)
    servers[1].start()
    assert said(fleet, 0, [1]) == right(b"", [1])


def test_an_endpoint_that_is_not_accepted_is_not_used(fakes: Fakes, make_fleet: MakeFleet) -> None:
    good, bad = fakes(), fakes()

    def accept(endpoint: Endpoint) -> None:
        if endpoint.url == bad.url:
            raise UnavailableError("another model")

    fleet = make_fleet(bad, good, accept=accept)
    assert [said(fleet, 0, [i]) for i in range(9)] == [right(b"", [i]) for i in range(9)]
    assert (len(bad.asked), fleet.health[bad.url]) == (0, "another model")


def test_a_request_that_is_refused_is_not_sent_around(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes()]
    fleet = make_fleet(*servers)
    with pytest.raises(ModelError, match="status 400"):
        fleet.ask(0, [[1]], CompletionRequest(top=30))
    assert fleet.health == {server.url: "well" for server in servers}


def test_a_request_that_breaks_every_endpoint_is_given_up(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = [fakes(), fakes()]
    fleet = make_fleet(*servers)
    for server in servers:
        server.fail = lambda route: 500 if route == "/v1/completions" else None
    with pytest.raises(ModelError, match="status 500"):
        said(fleet, 0, [1])
    assert fleet.failures == 6


def test_endpoints_must_be_named_and_each_once(versions: Versions) -> None:
    for urls in ([], ["http://a:1", "http://a:1/"]):
        with pytest.raises(ParameterError, match="at least one endpoint"):
            Fleet([Endpoint(url) for url in urls], versions)
