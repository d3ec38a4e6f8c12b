"""Services that answer test questions, and state folders with many records made without a service."""

import shutil
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from secl.model import ModelAnswer
from secl.question import Question
from secl.records import Record
from secl.runs.folder import FILE
from secl.runs.loading import build_calibrator
from secl.runs.manifest import Manifest
from secl.runs.settings import Recipe
from secl.server.entries import new_record_id
from secl.server.explain import Explained, explain_served
from secl.server.online.queue import ServedAnswer
from secl.server.online.service import Service, create_state, serving_settings
from secl.server.online.texts import Ended, TextEvent, WritingJob
from secl.server.retention import Pruner, Retention
from secl.server.store import ServerStore
from secl.server.verify import Finding, examine
from secl.testing import ScriptedModel, toy_stream
from secl.writing import Chunk, SamplingParameters


class Slow(ScriptedModel):
    """Writes at once; answers and rates only after `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def answer(self, question: Question, **how: Any) -> ModelAnswer:
        self.begun.set()
        assert self.go.wait(60)
        return super().answer(question, **how)


class Texts(WritingJob):
    """Texts that a service writes, with their events."""

    def __init__(self, service: Service, question: Question, sampling: SamplingParameters | None = None) -> None:
        self.events: list[TextEvent] = []
        self._service = service
        super().__init__(question, sampling or SamplingParameters(), self.events.append, rate=True)
        service.write(self)

    @property
    def chunks(self) -> list[Chunk]:
        return [event for event in self.events if isinstance(event, Chunk)]

    @property
    def done(self) -> bool:
        last = self.events[-1] if self.events else None
        return isinstance(last, Exception) or (isinstance(last, Ended) and last.answers is not None)

    def cancel(self) -> None:
        self._service.texts.cancel(self)

    def answers(self) -> tuple[ServedAnswer, ...]:
        until(lambda: self.done, 60)
        last = self.events[-1]
        if isinstance(last, Exception):
            raise last
        assert isinstance(last, Ended)
        assert self.events[-2] == Ended(last.texts)
        return last.answers or ()


def until(condition: Any, seconds: float = 120) -> None:
    """Wait until another thread has made a condition true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def settled(service: Service) -> None:
    """Wait for all lessons."""
    until(lambda: service.learner.waiting == 0 and "waiting" not in service.state.counts())


def ask_all(service: Service, questions: Sequence[Question]) -> list[Record]:
    """Ask questions one after the other, each after the lesson of the previous one; return their records."""
    records = []
    for question in questions:
        records.append(service.ask(question, 60).record)
        settled(service)
    return records


def close(service: Service) -> Path:
    """Stop a service; return its folder."""
    service.stop()
    service.state.close()
    return service.state.folder


def examined(state: ServerStore) -> tuple[int, list[Finding]]:
    """Number of examined records, and findings."""
    found = examine(state)
    return found.examined, found.findings


def explained(state: ServerStore, position: int) -> Explained:
    """Explanation of an answer's confidence."""
    return explain_served(state, state.served(position))


def served(service: Service, count: int = 40) -> Service:
    """The service after answers, lessons and labels."""
    for number, question in enumerate(toy_stream(count)):
        service.ask(question, 20)
        if number % 4 == 0:
            service.state.add_feedback(number, number % 8 == 0)
    settled(service)
    return service


BATCH = 50

QUIET = serving_settings({"method": "secl", "gate.name": "never"})
"""Settings of a server that does not learn."""


def filled(folder: Path, count: int, settings: Recipe = QUIET) -> Path:
    """A new state folder with `count` answers, written in batches."""
    model = ScriptedModel()
    calibrator = build_calibrator(settings, model)
    questions = toy_stream(BATCH)
    with create_state(folder, settings, "full", model) as state:
        for _ in range(0, count, BATCH):
            records = [calibrator.answer(question) for question in questions]
            ids = [new_record_id() for _ in records]
            state.add_answers(records, 1.0, moment=1.7e9, stream=calibrator.state, ids=ids)
    return folder


def multiply(state: ServerStore, count: int) -> None:
    """Fill a folder with copies of its last record, in one statement for each table, up to `count` records.

    One checkpoint follows the copies.
    """
    last = len(state) - 1
    (record,) = state.records("r.position = ?", last)
    numbers = "WITH RECURSIVE n (p) AS (SELECT ? UNION ALL SELECT p + 1 FROM n WHERE p + 1 < ?)"
    with state.db as db:
        for table in ("records", "served"):
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")][1:]
            columns = ", ".join(names)
            values = columns.replace("id,", "'rec_' || p,") if table == "served" else columns
            query = f"INSERT INTO {table} (position, {columns}) {numbers} SELECT p, {values} FROM n, {table}"
            db.execute(f"{query} WHERE position = ?", (last + 1, count, last))
        db.execute("UPDATE records SET body = json_set(body, '$.position', position) WHERE position > ?", (last,))
        calibrator = build_calibrator(QUIET, ScriptedModel())
        state.write_checkpoint(replace(calibrator.state, position=count, decision=record.decision))


def spoiled(folder: Path, place: Path, statement: str) -> Path:
    """A copy of a stopped server's folder, changed by one statement."""
    copy = place / "spoiled"
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    with closing(sqlite3.connect(copy / FILE)) as db, db:
        assert db.execute(statement).rowcount >= 1, statement
    return copy


def prune(state: ServerStore, policy: Retention, now: float | None = None) -> int:
    """Prune a state folder now; return the number of pruned records."""
    return Pruner(state, policy, Manifest.of(state).gate()).prune(time.time() if now is None else now)
