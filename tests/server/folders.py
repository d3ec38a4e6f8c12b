"""State folders with many records, made without a service."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from secl.runs.folder import FILE
from secl.runs.loading import build_calibrator
from secl.runs.settings import Recipe
from secl.server.entries import new_record_id
from secl.server.online.factory import begun, serving_settings
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream

BATCH = 50

QUIET = serving_settings({"method": "secl", "gate.name": "never"})
"""Settings of a server that learns nothing."""


def filled(folder: Path, count: int, settings: Recipe = QUIET) -> Path:
    """A new state folder with so many answers, written in batches."""
    model = ScriptedModel()
    calibrator = build_calibrator(settings, model)
    questions = toy_stream(BATCH)
    with begun(folder, settings, "full", model) as state:
        for _ in range(0, count, BATCH):
            records = [calibrator.answer(question) for question in questions]
            ids = [new_record_id() for _ in records]
            state.add_answers(records, 1.0, moment=1.7e9, stream=calibrator.state, ids=ids)
    return folder


def multiply(state: ServerStore, count: int) -> None:
    """Fill a folder with copies of its last record, in one statement for each table, until it has so many.

    One checkpoint stands behind the copies.
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
    """A copy of a stopped server's folder, in which one statement has changed something."""
    copy = place / "spoiled"
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    with closing(sqlite3.connect(copy / FILE)) as db, db:
        assert db.execute(statement).rowcount >= 1, statement
    return copy
