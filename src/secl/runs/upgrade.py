"""Run folders and server states of the format before this one (2), converted in place: same numbers, today's names.

The converted file is made beside the old one, which is kept as `run.sqlite.v2`; until the last step, a rename, the
folder is what it was. Remove this file, and the command, once no folder of that format is left.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from secl.errors import RunError
from secl.evaluation.summary import summarise
from secl.evaluation.trust import assess
from secl.runs.folder import FILE, UNFINISHED, check_is_run, lock_folder, storage_errors
from secl.runs.manifest import Manifest
from secl.runs.runner import SUMMARY, estimators_of, write_summary
from secl.runs.settings import RunSettings
from secl.runs.store import FORMAT, OLD_FORMAT, Store
from secl.settings_base import OFF

KEPT = f"{FILE}.v{OLD_FORMAT}"
"""The file as it was before."""

EVENTS = {"freeze": "pause", "thaw": "resume"}


def upgrade(folder: Path) -> bool:
    """Convert a run folder or a server's state folder to this version's format.

    Returns:
        whether anything was to be done; False for a folder of this version's format.

    Raises:
        RunError: the folder is no run, is in use, or has another format.
        StorageError: it cannot be written; nothing is changed then.
    """
    check_is_run(folder)
    with lock_folder(folder):
        with closing(sqlite3.connect(folder / FILE)) as old:
            number = _format(old, folder)
            if number == FORMAT:
                return False
            if number != OLD_FORMAT:
                raise RunError(f"{folder} has the format {number}; only format {OLD_FORMAT} can be upgraded.")
            with storage_errors(folder, "upgrade it again"):
                _write_new(old, folder / UNFINISHED)
        with storage_errors(folder, "upgrade it again"):
            (folder / KEPT).unlink(missing_ok=True)
            os.link(folder / FILE, folder / KEPT)
            (folder / UNFINISHED).replace(folder / FILE)
    if (folder / SUMMARY).exists():
        with Store(folder) as store:
            records = list(store.records())
            if records:
                write_summary(store, summarise(records, estimators_of(Manifest.of(store))), assess(records))
    return True


def _format(db: sqlite3.Connection, folder: Path) -> Any:
    try:
        # Whatever still stands in the log belongs into the file, which is about to be linked and replaced alone.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        row = db.execute("SELECT value FROM manifest WHERE key = 'format'").fetchone()
    except sqlite3.DatabaseError as problem:
        raise RunError(f"{folder / FILE} is damaged or no run: {problem}.") from problem
    return row and json.loads(row[0])


def _write_new(old: sqlite3.Connection, path: Path) -> None:
    """Copy a database and convert the copy, which ends without a log of its own."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as new:
        os.chmod(path, 0o600)
        old.backup(new)
        with new:
            new.execute("ALTER TABLE records RENAME COLUMN lesson TO outcome")
            _convert(new, "records", "position", "body", _body)
            _convert_manifest(new)
            if new.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
                new.executemany("UPDATE events SET kind = ? WHERE kind = ?", [(b, a) for a, b in EVENTS.items()])
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _convert(
    db: sqlite3.Connection, table: str, key: str, column: str, function: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Apply a function to every JSON object in a column."""
    rows = db.execute(f"SELECT {key}, {column} FROM {table}")
    values = ((json.dumps(function(json.loads(text))), number) for number, text in rows.fetchall())
    db.executemany(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", values)


def _body(body: dict[str, Any]) -> dict[str, Any]:
    """What a record says, in today's names."""
    names = {"shadow": "frozen", "shadow_correct": "frozen_correct", "lesson": "outcome"}
    new = {names.get(key, key): value for key, value in body.items()}
    new["ledger"] = {("scoring" if key == "judging" else key): value for key, value in body["ledger"].items()}
    judgement, dinco = body["evidence"]["judgement"], body["evidence"]["dinco"]
    new["evidence"] = {
        "p_true": judgement
        and {
            "candidates": judgement["candidates"],
            "probabilities": judgement["p_true"],
            "distractor_source": judgement["strategy"],
        },
        "samples": body["evidence"]["samples"],
        "dinco": dinco and {("nli_name" if key == "judge" else key): value for key, value in dinco.items()},
    }
    return new


def _convert_manifest(db: sqlite3.Connection) -> None:
    (text,) = db.execute("SELECT value FROM manifest WHERE key = 'recipe'").fetchone()
    db.execute("DELETE FROM manifest WHERE key = 'recipe'")
    rows = {"format": FORMAT, "settings": _settings(json.loads(text)).to_json()}
    db.executemany("INSERT OR REPLACE INTO manifest VALUES (?, ?)", [(key, json.dumps(rows[key])) for key in rows])


def _settings(recipe: dict[str, Any]) -> RunSettings:
    """Settings by group from the flat ones of the old format."""
    names = {"stream": "benchmarks", "judge": "evidence_on"}
    flat = {names.get(key, key): value for key, value in recipe.items()}
    if flat.get("bin_gate") == -1:
        flat["bin_gate"] = OFF
    return RunSettings.of(flat)
