"""Pruning: removed and kept records, disk space, and the examination of pruned folders."""

from pathlib import Path
from typing import Any

import pytest

from secl.cli.state import history_page
from secl.errors import ParameterError, StorageError
from secl.labels.label import DAY
from secl.runs.folder import FILE
from secl.runs.store import Store
from secl.server import records, retention, store
from secl.server.entries import moment
from secl.server.http.health import problems
from secl.server.records import history
from secl.server.retention import Retention
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import Make, Patch, client_of, raising
from tests.server.waiting import ask_all, close, examined, prune


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: Patch) -> None:
    """Several steps and checkpoints in short streams."""
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 7)
    monkeypatch.setattr(retention, "REST", 0.0)
    monkeypatch.setattr(store, "CHECKPOINTS", 5)


def test_anything_else_is_refused_in_a_sentence() -> None:
    for text in ("", "0", "0d", "-3", "30 d", "30h", "1e5", "3.5d", "٣"):
        with pytest.raises(ParameterError, match="give a number of records, like 100000, or of days, like 30d"):
            Retention.of(text)


@pytest.mark.parametrize("keep", [1, 8, 1000])
def test_the_latest_records_stay_and_verify_goes_on_to_hold(make_service: Make, keep: int) -> None:
    service = make_service()
    ask_all(service, toy_stream(30))
    before = {served.record.position: served for served in service.state.latest(30)}
    counts, position = service.state.counts(), len(service.state)
    first = max(0, 30 - keep)
    assert prune(service.state, Retention(records=keep)) == service.state.first == first
    assert service.state.latest(30) == [before[number] for number in range(first, 30)]
    assert (service.state.counts(), len(service.state)) == (counts, position)
    assert examined(service.state) == (30 - first, [])
    ask_all(service, toy_stream(33)[30:])
    assert examined(service.state) == (33 - first, [])
    folder = close(service)
    again = make_service(folder)
    assert again.position == 33
    assert again.ask(toy_stream(34)[33], 10).record.position == 33


def test_texts_are_gone_from_the_file_and_its_pages_are_used_again(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "never"})
    secret = "xylophone"
    for question in toy_stream(40):
        service.ask(question.__class__(f"{question.text} {secret} {'padding ' * 500}", question.options), 10)
    ask_all(service, toy_stream(2))
    folder = close(service)
    with ServerStore(folder, writable=True) as state:
        state.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (folder / FILE).stat().st_size
    assert secret.encode() in (folder / FILE).read_bytes()
    with ServerStore(folder, writable=True) as state:
        assert prune(state, Retention(records=2)) == 40
    assert secret.encode() not in (folder / FILE).read_bytes()
    again = make_service(folder, settings={"gate.name": "never"})
    ask_all(again, toy_stream(20))
    close(again)
    assert (folder / FILE).stat().st_size <= size


def test_versions_that_no_kept_record_needs_go_and_the_newest_stay(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(retention, "KEPT_VERSIONS", 2)
    service = make_service()
    ask_all(service, toy_stream(30))
    assert service.state.versions() == list(range(1, 11))
    assert prune(service.state, Retention(records=24)) == 6
    assert service.state.versions() == [6, 7, 8, 9, 10]  # earlier versions answered no kept record
    prune(service.state, Retention(records=5))
    assert service.state.versions() == [9, 10]
    assert examined(service.state) == (5, [])


def test_the_version_at_which_learning_stands_stays(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(retention, "KEPT_VERSIONS", 1)
    service = make_service()
    ask_all(service, toy_stream(12))
    service.learner.rollback(3)
    prune(service.state, Retention(records=1))
    assert service.state.versions() == [3, 10]
    ask_all(service, toy_stream(13)[12:])
    assert service.state.latest(1)[0].record.reply.version == 3
    assert examined(service.state) == (2, [])
    service.learner.rollback(10)
    prune(service.state, Retention(records=1))
    assert make_service(close(service)).learner.version == 10


def test_labels_of_pruned_records_still_move_confidences(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(12))
    for number in range(8):
        service.state.add_feedback(number, number % 2 == 0)
    expected = service.ask(toy_stream(1)[0], 10).record.labelled
    prune(service.state, Retention(records=2))
    close(service)
    again = make_service(settings={"gate.name": "never"})
    again.refresh_labels()
    assert again.ask(toy_stream(1)[0], 10).record.labelled == expected
    assert (again.state.label_count(), again.verdict.graded) == (8, 8)
    with pytest.raises(ParameterError, match="record 3 was pruned, like all records before 11"):
        again.state.add_feedback(3, True)
    assert examined(again.state) == (3, [])


def test_what_was_pruned_is_said_in_a_sentence(make_service: Make, tmp_path: Path) -> None:
    service = make_service()
    ask_all(service, toy_stream(20))
    prune(service.state, Retention(records=5))
    past = history(service.state)
    assert (past["answers"], past["first"], past["lessons"]) == (20, 15, {"trained": 10, "idle": 10})
    assert any("the records before number 15 were pruned" in str(part) for part in history_page(past))
    with client_of(service) as client:
        gone = client.get("/v1/records/3")
        said = "record 3 was pruned, like all records before 15."
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, said)
        assert client.get("/v1/records/15").status_code == 200
        assert client.get("/v1/state").status_code == 200
    with Store(service.state.folder) as store:
        assert store.pruned == f"The records 0 to 14 of {service.state.folder} were pruned."
        assert [record.position for record in store.records()] == [15, 16, 17, 18, 19]


def test_records_older_than_so_many_days_are_pruned(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(20))
    with service.state.db as db:  # a question a day
        db.execute("UPDATE served SET time = time - ? * (20 - position)", (DAY,))
    assert prune(service.state, Retention(days=30)) == 0
    prune(service.state, Retention(days=12))
    assert service.state.first == 9  # answered 11 days ago
    with service.state.db as db:
        db.execute("UPDATE served SET time = time - ?", (100 * DAY,))
    prune(service.state, Retention(days=12))
    assert service.state.first == 19  # the latest always stays


NOW = 1.8e9
"""The right time in tests of clocks."""

OLD, YOUNG = NOW - 40 * DAY, NOW - 5 * DAY

CLOCKS = {
    "all are old, one is of 2036": ([OLD, OLD, NOW + 3650 * DAY, *[OLD] * 5], 7),
    "all are of 2036 but the newest": ([*[NOW + 3650 * DAY] * 7, NOW], 0),
    "the first are of 2036, and older than old answers": ([*[NOW + 3650 * DAY] * 3, *[OLD] * 3, YOUNG, YOUNG], 6),
    "one was 20 days ahead, and is no longer in the future": ([OLD, OLD, NOW - 20 * DAY, *[OLD] * 5], 7),
    "one is of 1970, before all": ([0.0, *[YOUNG] * 7], 0),
    "one is of 1970, among old ones": ([OLD, 0.0, OLD, OLD, *[YOUNG] * 4], 4),
    "some are of 1970, among young ones": ([YOUNG, YOUNG, *[5.0] * 4, YOUNG, YOUNG], 0),
    "the clock was set back by a year, and right again": ([YOUNG, YOUNG, *[NOW - 365 * DAY] * 4, YOUNG, YOUNG], 0),
    "the clock was set back by a year, and is right": ([*[YOUNG] * 4, *[NOW - 365 * DAY] * 4], 0),
    "all are young": ([YOUNG] * 8, 0),
}


@pytest.mark.parametrize(("times", "pruned"), CLOCKS.values(), ids=CLOCKS)
def test_wrong_clocks_at_the_time_of_answers_neither_keep_nor_delete(
    make_service: Make, monkeypatch: Patch, times: list[float], pruned: int
) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(len(times)))
    with service.state.db as db:
        db.executemany("UPDATE served SET time = ? WHERE position = ?", [(t, n) for n, t in enumerate(times)])
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 100)
    for clock in (0.0, 1000.0):  # set back at the time of the look
        assert prune(service.state, Retention(days=30), now=clock) == 0
    assert prune(service.state, Retention(days=30), now=NOW) == pruned


def test_a_clock_that_runs_ahead_for_one_look_deletes_nothing_and_a_clock_behind_is_reported(
    make_service: Make, monkeypatch: Patch
) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(8))
    answered = service.state.served(7).time
    pruner = service.pruner
    pruner.policy = Retention(days=30)
    looks = [
        (answered + 60, 0, {}),
        (answered + 31 * DAY, 0, {}),  # ahead for one look
        (answered + 120, 0, {}),
        (0.0, 0, {retention.CLOCK: f"the newest record is of {moment(answered)}"}),
        (answered + 29 * DAY, 0, {}),
        (answered + 31 * DAY, 0, {}),
        (answered + 31 * DAY + 600, 7, {}),  # a month later
    ]
    for clock, first, found in looks:
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        pruner.look()
        assert (service.state.first, pruner.problems) == (first, found), clock


def test_a_server_prunes_by_itself_and_says_when_the_disk_refuses(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(20))
    pruner = service.pruner
    pruner.policy = Retention(records=6)
    full = StorageError("cannot write: database or disk is full.")
    with monkeypatch.context() as patched:
        patched.setattr(service.state, "write_checkpoint", raising(full))
        pruner.look()
    assert service.state.first == 0
    assert "pruning of old records fails (cannot write: database or disk is full.)" in problems(service, details=True)
    pruner.look()
    assert (service.state.first, pruner.problems) == (14, {})
    assert problems(service) == []


def test_a_list_is_of_one_moment_while_records_are_pruned(make_service: Make, monkeypatch: Patch) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(20))

    def prunes_in_between(*arguments: Any) -> Any:
        prune(service.state, Retention(records=5))
        return points(*arguments)

    points = records._points
    monkeypatch.setattr(records, "_points", prunes_in_between)
    with client_of(service) as client:
        listed = client.get("/v1/records").json()["records"]
        assert [each["position"] for each in listed] == [*range(19, -1, -1)]
        assert len(client.get("/v1/records").json()["records"]) == 5
