"""Servers that fail, return and lag behind: every request is answered, by the version that it named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from secl.backends.endpoint import fleet as module
from secl.backends.endpoint.fleet import Fleet
from secl.backends.endpoint.token_server import CompletionRequest, TokenServer
from secl.backends.endpoint.versions import Versions
from secl.errors import ParameterError, QuestionError, UnavailableError
from tests.backends.conftest import Fakes
from tests.backends.endpoint.fake_vllm import FakeVllm, hashed

MakeFleet = Callable[..., Fleet]


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path, {"base_model_name_or_path": "somewhere"}, kept=3)


@pytest.fixture
def make_fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MakeFleet]:
    monkeypatch.setattr(module, "WAIT", 0.05)
    made: list[Fleet] = []

    def make(*fakes: FakeVllm) -> Fleet:
        for fake in fakes:
            fake.adapters = tmp_path
        made.append(Fleet([TokenServer(fake.url, timeout=5) for fake in fakes]))
        made[-1].meet()
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


def said(servers: Fleet, name: str, prompt: list[int]) -> int:
    ((step,),) = servers.complete(name, [prompt], CompletionRequest())
    return step.token


def right(weights: bytes, prompt: list[int]) -> int:
    return int(np.argmax(hashed(weights, prompt)))


def test_a_version_is_served_from_the_moment_on_that_it_has_a_name(
    fakes: Fakes, make_fleet: MakeFleet, versions: Versions
) -> None:
    servers = make_fleet(fakes(), fakes())
    for version in range(1, 7):
        weights = b"w%d" % version
        name = versions.publish(version, weights)
        assert [said(servers, name, [i]) for i in range(9)] == [right(weights, [i]) for i in range(9)]
    assert [said(servers, "", [i]) for i in range(9)] == [right(b"", [i]) for i in range(9)]


def test_a_number_that_is_given_again_is_not_served_with_the_weights_it_had_before(
    fakes: Fakes, make_fleet: MakeFleet, versions: Versions
) -> None:
    servers = make_fleet(fakes(), fakes())
    for weights in (b"first", b"second", b"first"):
        name = versions.publish(1, weights)
        assert [said(servers, name, [i]) for i in range(20)] == [right(weights, [i]) for i in range(20)]


def test_a_version_that_a_file_system_shows_late_is_asked_for_again(
    fakes: Fakes, make_fleet: MakeFleet, versions: Versions
) -> None:
    servers = make_fleet(fakes())
    name = versions.publish(1, b"w")
    (versions.folder / name).rename(versions.folder / "away")
    late = threading.Timer(0.02, (versions.folder / "away").rename, (versions.folder / name,))
    late.start()
    assert said(servers, name, [5]) == right(b"w", [5])
    late.join()


def test_a_server_that_dies_in_the_middle_loses_nothing(
    fakes: Fakes, make_fleet: MakeFleet, versions: Versions
) -> None:
    dying, other = fakes(), fakes()
    servers, name = make_fleet(dying, other), versions.publish(1, b"w")
    reached, die = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        die.wait(5)

    dying.before = wait
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(said, servers, name if i % 2 else "", [i]) for i in range(40)]
        assert reached.wait(5)
        killer = threading.Thread(target=dying.kill)
        killer.start()
        killer.join(5)
        die.set()
        found = [answer.result() for answer in answers]
    assert found == [right(b"w" if i % 2 else b"", [i]) for i in range(40)]
    assert servers.failures > 0
    other.kill()
    dying.start()  # with nothing loaded, as vLLM starts anew
    assert said(servers, name, [7]) == right(b"w", [7])


def test_a_server_that_failed_is_left_alone_for_a_while(
    fakes: Fakes, make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, well = fakes(), fakes()
    servers = make_fleet(failing, well)
    failing.fail = lambda route: 503
    for i in range(8):
        said(servers, "", [i])
    assert (servers.failures, len(well.asked)) == (1, 8)
    failing.fail = lambda route: None
    monkeypatch.setattr(module, "PAUSE", 0.0)
    for i in range(8):
        said(servers, "", [i])
    assert len(failing.asked) == 8


def test_requests_go_where_the_fewest_are_under_way(fakes: Fakes, make_fleet: MakeFleet) -> None:
    fleet = [fakes(), fakes(), fakes()]
    servers = make_fleet(*fleet)
    everywhere = threading.Barrier(12, timeout=5)
    for fake in fleet:
        fake.before = everywhere.wait
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda i: said(servers, "", [i]), range(12)))
    assert [len(fake.asked) for fake in fleet] == [4, 4, 4]


def test_without_any_server_one_sentence_names_them_all(fakes: Fakes, make_fleet: MakeFleet) -> None:
    fleet = [fakes(), fakes()]
    servers = make_fleet(*fleet)
    for fake in fleet:
        fake.kill()
    for ask in (lambda: said(servers, "", [1]), servers.meet):
        with pytest.raises(UnavailableError, match="no vLLM server can be used") as refused:
            ask()
        assert all(fake.url in str(refused.value) for fake in fleet)
    fleet[1].start()
    assert said(servers, "", [1]) == right(b"", [1])


def test_a_request_that_is_refused_is_not_sent_around(fakes: Fakes, make_fleet: MakeFleet) -> None:
    servers = make_fleet(fakes(), fakes())
    with pytest.raises(QuestionError, match="status 400"):
        servers.complete("", [[1]], CompletionRequest(top=30))
    assert servers.failures == 0


def test_servers_must_be_named_and_each_once() -> None:
    for urls in ([], ["http://a:1", "http://a:1/"]):
        with pytest.raises(ParameterError, match="at least one endpoint"):
            Fleet([TokenServer(url) for url in urls])
