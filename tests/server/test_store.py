"""A state folder: permissions, synchronised writes, backups, starts from a checkpoint.

The work of a server does not grow with the number of its records, measured in steps of SQLite.
"""

import re
import sqlite3
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.calibrator import StreamState
from secl.errors import RunError, StorageError
from secl.gates import Always, EntropyShift, Gate, Never, PageHinkley
from secl.posterior.rule import PosteriorRule
from secl.runs.folder import FILE, connect
from secl.runs.loading import build_calibrator
from secl.runs.store import Store
from secl.server import retention
from secl.server import store as store_module
from secl.server.entries import Keep
from secl.server.http.api_keys import Keys
from secl.server.online.service import Service
from secl.server.retention import Retention, backup
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import Log, Make, Patch, client_of, raising
from tests.server.test_posterior import Mixed, mixed_stream
from tests.server.waiting import QUIET, ask_all, close, examined, filled, multiply, prune


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_user_can_enter_a_state_folder(make_service: Make, tmp_path: Path, caplog: Log) -> None:
    Keys(tmp_path / "state").add("a", "read")
    assert (mode(tmp_path / "state"), mode(tmp_path / "state" / "keys.json")) == (0o700, 0o600)
    folder = close(make_service(tmp_path / "new"))
    assert mode(folder) == 0o700
    folder.chmod(0o755)
    ServerStore(folder).close()  # reading changes nothing
    assert mode(folder) == 0o755
    ServerStore(folder, writable=True).close()
    assert mode(folder) == 0o700
    assert "now only its owner can" in caplog.text


def test_a_folder_that_cannot_be_closed_is_refused(make_service: Make, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(store_module, "_is_open", lambda _folder: True)
    with pytest.raises(RunError, match="cannot close it to other users: its file system ignores"):
        make_service(tmp_path / "new")

    monkeypatch.setattr(Path, "chmod", raising(PermissionError(1, "Operation not permitted")))
    with pytest.raises(RunError, match="Operation not permitted; name a folder of your own"):
        make_service(tmp_path / "newer")


def test_a_run_is_not_a_state_folder_and_keeps_its_permissions(tmp_path: Path) -> None:
    Store.create(tmp_path / "run", {}).close()
    before = mode(tmp_path / "run")
    with pytest.raises(RunError, match="is a run, not a server's state folder"):
        ServerStore(tmp_path / "run", writable=True)
    assert mode(tmp_path / "run") == before


def test_no_thread_sees_what_another_has_not_finished_writing(make_service: Make) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(3))
    state, seen, begun = service.state, list[int](), threading.Event()

    def read() -> None:
        begun.set()
        seen.extend((len(state), len(list(state.records())), state.first, len(state.versions())))

    reader = threading.Thread(target=read)
    with state.writing():
        for table in ("served", "records"):
            state.db.execute(f"DELETE FROM {table} WHERE position != 1")
        reader.start()
        assert begun.wait(20)
        reader.join(0.5)  # long enough to read
        state.db.rollback()
    reader.join(20)
    assert seen == [3, 3, 0, 0]


def test_every_commit_is_synchronised_and_no_batch_reads_the_manifest(make_service: Make) -> None:
    service = make_service(keep_text="none")
    assert service.state.rows("PRAGMA synchronous") == [(2,)]  # FULL
    statements: list[str] = []
    service.state.db.set_trace_callback(statements.append)
    ask_all(service, toy_stream(3))
    service.state.db.set_trace_callback(None)
    assert any("INSERT INTO records" in statement for statement in statements)
    assert not [statement for statement in statements if "manifest" in statement]


def test_a_server_goes_on_from_a_backup_as_if_nothing_had_happened(make_service: Make, tmp_path: Path) -> None:
    service = make_service()
    questions = toy_stream(20)
    ask_all(service, questions[:12])
    service.state.add_feedback(3, True)
    key = Keys(service.state.folder).add("operator", "admin")
    assert backup(service.state.folder, tmp_path / "copy") == 12
    assert {path.name for path in tmp_path.iterdir()} == {"state", "copy"}
    assert mode(tmp_path / "copy") == 0o700
    assert {path.name: mode(path) for path in (tmp_path / "copy").iterdir()} == {FILE: 0o600, "keys.json": 0o600}
    original = [service.ask(question, 10).record for question in questions[12:]]

    with ServerStore(tmp_path / "copy") as copy:
        assert examined(copy) == (12, [])
    restored = make_service(tmp_path / "copy")
    assert (found := Keys(tmp_path / "copy").find(key))
    assert found.role == "admin"
    assert restored.learner.version == 10
    again = [restored.ask(question, 10).record for question in questions[12:]]
    assert again == original
    assert examined(restored.state) == (20, [])


def test_nothing_is_written_over_and_what_is_no_state_is_refused(make_service: Make, tmp_path: Path) -> None:
    service = make_service()
    folder = service.state.folder
    (tmp_path / "there").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("there", "dangling"):
        with pytest.raises(RunError, match="exists already; name a new folder"):
            backup(folder, tmp_path / name)
    with pytest.raises(RunError, match="is not a run folder"):
        backup(tmp_path / "there", tmp_path / "copy")
    Store.create(tmp_path / "run", {}).close()
    with pytest.raises(RunError, match="is a run, not a server's state folder; copy"):
        backup(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "file").write_text("")
    sentence = r"cannot write .*; free disk space or correct the permissions, then try again\.$"
    with pytest.raises(StorageError, match=sentence):
        backup(folder, tmp_path / "file" / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_damaged_state_gives_no_backup(make_service: Make, tmp_path: Path) -> None:
    service = make_service()
    ask_all(service, toy_stream(12))
    ((page,),) = service.state.rows("SELECT rootpage FROM sqlite_master WHERE name = 'served'")
    ((size,),) = service.state.rows("PRAGMA page_size")
    with (close(service) / FILE).open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(b"\xff" * size)
    with pytest.raises(RunError, match="damaged"):
        backup(service.state.folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.fixture(autouse=True)
def often(monkeypatch: Patch) -> None:
    """A checkpoint every five records."""
    monkeypatch.setattr(store_module, "CHECKPOINTS", 5)


def replayed(state: ServerStore, gate: Gate, rule: PosteriorRule) -> StreamState:
    """The stream after all records from the first one on, without any checkpoint."""
    stream = StreamState(gate=gate.start(), posterior=rule.start())
    for record in state.records():
        stream, _, _ = stream.follow(record, gate, rule)
    return stream


@pytest.mark.parametrize(("keep", "asked"), [("full", 13), ("none", 5)])
def test_a_start_from_a_checkpoint_is_one_from_a_whole_replay(make_service: Make, keep: Keep, asked: int) -> None:
    first = make_service(keep_text=keep, model=Mixed(), settings={"method": "posterior"})
    ask_all(first, mixed_stream(asked))
    live = first.calibrator.state
    close(first)
    second = make_service(keep_text=keep, model=Mixed(), settings={"method": "posterior"})
    whole = replayed(second.state, second.calibrator.gate, second.calibrator.plan.posterior)
    now = second.calibrator.state
    assert now.pack() == whole.pack() == live.pack()
    assert now.position == asked
    assert [row[0] for row in second.state.rows("SELECT position FROM checkpoints")] == list(range(5, asked + 1, 5))


GATES: list[Gate] = [Always(), Never(), EntropyShift(burst=3, warmup=4), PageHinkley(warmup=3)]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: type(gate).__name__)
def test_every_gate_comes_back_from_a_checkpoint(gate: Gate) -> None:
    stream = StreamState(gate=gate.start(), posterior=PosteriorRule().start())
    for number in range(12):
        stream, _ = stream.step(gate, 0.1 + 0.7 * (number % 3))
        assert StreamState.unpack(stream.pack(), gate) == replace(stream, labels=stream.labels)


@pytest.mark.parametrize("state", [b"", b"no checkpoint"])
def test_a_damaged_checkpoint_is_refused(make_service: Make, state: bytes) -> None:
    service = make_service(settings={"gate.name": "never"})
    ask_all(service, toy_stream(7))
    with service.state.writing():
        service.state.db.execute("UPDATE checkpoints SET state = ?", (state,))
    with ServerStore(close(service)) as store, pytest.raises(RunError, match="damaged"):
        store.stream(service.calibrator.gate, service.calibrator.plan.posterior)


FEW, MANY = 1_500, 30_000
"""Both are more than any window of latest records; the work may not differ by the factor between them."""

EACH = 50
"""SQLite reports its steps in such portions."""


class Steps:
    """Counts the steps of all connections opened during a test, and keeps their statements."""

    def __init__(self) -> None:
        self.count = 0
        self.statements: set[str] = set()

    def connect(self, path: Path, writable: bool) -> sqlite3.Connection:
        db = connect(path, writable)
        db.set_progress_handler(self._add, EACH)
        db.set_trace_callback(self.statements.add)
        return db

    def _add(self) -> int:
        self.count += EACH
        return 0

    def of(self, work: Callable[[], Any]) -> int:
        """Steps that a piece of work takes."""
        before = self.count
        work()
        return self.count - before


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    made = {}
    for count in (FEW, MANY):
        folder = made[count] = filled(tmp_path_factory.mktemp("states") / str(count), 50)
        with ServerStore(folder, writable=True) as state:
            multiply(state, count)
            for position in range(count - 150, count):
                state.add_feedback(position, position % 3 > 0)
            state.add_event("pause", 0, "long ago")
    return made


@pytest.fixture
def steps(monkeypatch: Patch) -> Steps:
    counted = Steps()
    monkeypatch.setattr("secl.runs.store.connect", counted.connect)
    return counted


def work(folder: Path, steps: Steps) -> dict[str, int]:
    """Steps of each repeated task of a server."""
    found: dict[str, int] = {}
    states: list[ServerStore] = []
    found["open"] = steps.of(lambda: states.append(ServerStore(folder, writable=True)))
    (state,) = states
    services: list[Service] = []

    def start() -> None:
        calibrator, trainer = (build_calibrator(QUIET, ScriptedModel()) for _ in range(2))
        services.append(Service(calibrator, trainer, state))
        services[0].start()

    found["start"] = steps.of(start)
    (service,) = services
    try:
        with client_of(service) as client:
            for path in ("/", "/metrics", "/healthz", "/readyz", "/v1/state", "/v1/records"):
                found[path] = steps.of(lambda path=path: client.get(path).raise_for_status())  # type: ignore[misc]
            name = state.served(len(state) - 5).id
            said = {"record_id": name, "correct": True}
            for path in (f"/v1/records/{name}", f"/records/{name}"):
                found[path.removesuffix(name)] = steps.of(lambda path=path: client.get(path).raise_for_status())  # type: ignore[misc]
            found["feedback"] = steps.of(lambda: client.post("/v1/feedback", json=said).raise_for_status())
        found["answer"] = steps.of(lambda: service.ask(toy_stream(1)[0], 10))
        found["pause"] = steps.of(lambda: service.learner.pause("for a test"))
        found["nothing to prune"] = steps.of(lambda: prune(state, Retention(records=10**6)))
        found["prune"] = steps.of(lambda: prune(state, Retention(records=len(state) - 50)))
    finally:
        service.stop()
        state.close()
    return found


def test_no_work_grows_with_the_number_of_records(folders: dict[int, Path], steps: Steps, monkeypatch: Patch) -> None:
    monkeypatch.setattr(retention, "REST", 0.0)
    few, many = work(folders[FEW], steps), work(folders[MANY], steps)
    assert few.keys() == many.keys()
    assert sum(few.values()) > 1000
    grown = {name: (few[name], count) for name, count in many.items() if count > 1.3 * few[name] + 2000}
    assert grown == {}
    # SQLite counts a whole table in a single step.
    whole = re.compile(r"count\(\*\) FROM (records|served)$")
    assert len(steps.statements) > 50
    assert not [statement for statement in steps.statements if whole.search(statement)]
