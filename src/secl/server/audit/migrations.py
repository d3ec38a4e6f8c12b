"""Upgrades of a state folder's format, step by step, each to the next number.

The file is copied, the copy is converted, and in the last step, a rename, it takes the place of the old one, which
stays beside it as `run.sqlite.state-N`. An upgrade that is killed leaves the folder as it was.

A step that changes rows adds entries about them to the chains (`secl.server.audit.chain`).
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from secl.errors import RunError
from secl.runs import label_log
from secl.runs.folder import FILE, UNFINISHED, lock_folder, storage_errors
from secl.server.audit import chain
from secl.server.audit.schema import KEPT, POSTERIORS, STATE_FORMAT

log = logging.getLogger("secl.server")

KEY = "state_format"
"""Of the number in the manifest; the first format had none."""


def kept_as(number: int) -> str:
    """Name of the file as it was in an older format."""
    return f"{FILE}.state-{number}"


def read_format(db: sqlite3.Connection) -> int:
    """The number of a state folder's format."""
    row = db.execute("SELECT value FROM manifest WHERE key = ?", (KEY,)).fetchone()
    return 1 if row is None else int(json.loads(row[0]))


def check_format(number: int, folder: Path) -> None:
    """Check that a state folder has today's format.

    Raises:
        RunError: it is older, or of a newer version of secl.
    """
    if number > STATE_FORMAT:
        raise RunError(
            f"{folder} is the state of a newer version of secl (its format is {number}, this version knows up to "
            f"{STATE_FORMAT}); install that version."
        )
    if number < STATE_FORMAT:
        raise RunError(
            f"{folder} is the state of an older version of secl; start its server once, or convert it with: "
            f"secl upgrade {folder}"
        )


def upgrade_state(folder: Path) -> str | None:
    """Convert a state folder to today's format.

    Returns:
        name of the file as it was; None where nothing was to be done.

    Raises:
        RunError: it is in use, or of a newer version of secl.
        StorageError: it cannot be written; nothing is changed then.
    """
    with closing(sqlite3.connect(folder / FILE)) as old:
        number = read_format(old)
        if number >= STATE_FORMAT:
            check_format(number, folder)
            return None
        with lock_folder(folder), storage_errors(folder, "start again"):
            _write_new(old, folder / UNFINISHED, number)
            # Whatever still stands in the log belongs into the file, which is about to be linked and replaced alone.
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (folder / kept_as(number)).unlink(missing_ok=True)
            os.link(folder / FILE, folder / kept_as(number))
            (folder / UNFINISHED).replace(folder / FILE)
            synchronise(folder)
    log.warning("%s was converted to format %d; the file as it was is %s.", folder, STATE_FORMAT, kept_as(number))
    return kept_as(number)


def _write_new(old: sqlite3.Connection, path: Path, number: int) -> None:
    """Copy a database and convert the copy, which ends on the disk and without a log of its own."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    old.execute("PRAGMA auto_vacuum = INCREMENTAL")  # holds for the copy, whose pages can be given back one by one
    old.execute("VACUUM INTO ?", (str(path),))
    with closing(sqlite3.connect(path)) as new:
        new.execute("PRAGMA journal_mode = WAL")
        for step in STEPS[number - 1 :]:
            step(new)
        new.execute("INSERT OR REPLACE INTO manifest VALUES (?, ?)", (KEY, str(STATE_FORMAT)))
        new.commit()
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    synchronise(path)


def synchronise(path: Path) -> None:
    """Have a file, or the names in a folder, written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _add_labels_and_posteriors(db: sqlite3.Connection) -> None:
    """From 1 to 2: feedback becomes a log of labels."""
    db.executescript(label_log.TABLE + POSTERIORS)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "feedback" in tables:
        db.execute("""
            INSERT INTO labels
            SELECT row_number() OVER (ORDER BY f.time, f.position), f.position, f.correct,
                   coalesce(p.confidence, r.confidence), r.domain, coalesce(p.confidence, r.confidence), f.time,
                   'feedback', NULL
            FROM feedback f JOIN records r USING (position) LEFT JOIN posteriors p USING (position)
            ORDER BY f.time, f.position""")
        db.execute("DROP TABLE feedback")
    db.commit()


def _add_chains_and_counters(db: sqlite3.Connection) -> None:
    """From 2 to 3: hashes over all that there is, counters of it, the folder's clock."""
    db.execute("DROP INDEX IF EXISTS posterior_groups")
    db.execute("ALTER TABLE served ADD COLUMN clock REAL NOT NULL DEFAULT 0")
    db.execute("""
        UPDATE served SET clock = ticks.clock FROM (
            SELECT position, sum(passed) OVER (ORDER BY position) AS clock FROM (
                SELECT position, coalesce(min(max(time - lag(time) OVER (ORDER BY position), 0), 86400), 0) AS passed
                FROM served)) AS ticks
        WHERE ticks.position = served.position""")
    db.executescript(KEPT)
    db.execute("INSERT INTO counts SELECT 'outcome', outcome, count(*) FROM records GROUP BY outcome")
    db.execute("""
        INSERT INTO counts
        SELECT 'posterior', 'answers', count(*) FROM posteriors
        UNION ALL SELECT 'posterior', 'uninformed', total(NOT informed) FROM posteriors
        UNION ALL SELECT 'posterior', 'differs', total(differs) FROM posteriors""")
    db.execute("""
        INSERT INTO standing
        SELECT position, number, reported, correct FROM labels
        WHERE correct IS NOT NULL AND number IN (SELECT max(number) FROM labels GROUP BY position)""")
    kinds: tuple[tuple[chain.EntryKind, str], ...] = (
        ("answer", "SELECT position FROM records ORDER BY position"),
        ("label", "SELECT number FROM labels ORDER BY number"),
        ("event", "SELECT id FROM events ORDER BY id"),
        ("version", "SELECT version FROM versions ORDER BY version"),
    )
    for kind, query in kinds:
        chain.append(db, kind, (key for (key,) in db.execute(query)))


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_add_labels_and_posteriors, _add_chains_and_counters)
"""The step at index n - 1 converts format n to n + 1."""
