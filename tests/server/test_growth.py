"""The work of a server does not grow with the number of its records, measured in steps of SQLite."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secl.runs.folder import connect
from secl.runs.loading import build_calibrator
from secl.server import retention
from secl.server.online.service import Service
from secl.server.retention import Retention, prune
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import Patch, client_of
from tests.server.waiting import QUIET, filled, multiply

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
