"""What a state folder keeps, and how the rest is pruned: the oldest records first, in steps that keep nobody waiting.

A step is one transaction. It writes a checkpoint of the stream where the kept records begin, so that what is kept can
still be replayed, and gives pages of the file back. Killed between two steps, a
folder is as whole as before; nothing has to be tidied up.

Kept whatever was asked for: the latest record, those whose lesson waits and all behind them, labels, events and
counters, the adapter versions that answered a kept record, and the one at which learning stands.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from secl.errors import ParameterError, check_whole
from secl.runs.folder import storage_errors
from secl.runs.manifest import Manifest
from secl.server.history import version_now
from secl.server.store import HINT, ServerStore
from secl.server.stream import pack, resume
from secl.server.tables import has_words

DAY = 86400.0

STEP = 100
"""Most records that one step prunes."""

PAGES = 1000
"""Most pages of the file that one step gives back."""

REST = 2.0
"""Pause after a step, as a multiple of the time it took: the file belongs to answers for the rest."""

MERGED = 100
"""Pages of the index of words that one step merges: what is left of words in it goes when it is written anew."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept; None keeps all.

    Attributes:
        records: how many of the latest.
        days: those that are at most so old, by the system's clock.
        versions: how many of the newest adapter versions, beside those that kept records need.
    """

    records: int | None = None
    days: int | None = None
    versions: int | None = None

    @classmethod
    def of(cls, keep_records: str | None, keep_versions: int | None) -> Retention:
        """From what people write: "100000" records or "30d", and a number of versions.

        Raises:
            ParameterError: it is neither, or below 1.

        >>> Retention.of("30d", 50)
        Retention(records=None, days=30, versions=50)
        """
        if keep_versions is not None:
            check_whole("number of versions of --keep-versions", keep_versions, 1)
        if keep_records is None:
            return cls(versions=keep_versions)
        found = re.fullmatch(r"(0*[1-9]\d{0,14})(d?)", keep_records)
        if found is None:
            raise ParameterError(
                f"--keep-records is {keep_records[:40]!r}; give a number of records, like 100000, or of days, like 30d."
            )
        number = int(found[1])
        return cls(days=number, versions=keep_versions) if found[2] else cls(number, versions=keep_versions)

    def __bool__(self) -> bool:
        """Whether anything is ever to be pruned."""
        return any(limit is not None for limit in (self.records, self.days, self.versions))


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was pruned.

    Attributes:
        records, versions: how many.
        first: position of the first record that is kept.
        done: whether all was pruned that may be.
    """

    records: int
    versions: int
    first: int
    done: bool


def prune(
    state: ServerStore,
    policy: Retention,
    *,
    until: Callable[[], bool] = lambda: False,
    rest: float = REST,
    forget: bool = False,
) -> Pruned:
    """Prune what need not be kept, step by step.

    Args:
        state: open for writing; other threads may use it meanwhile.
        policy: what is kept.
        until: asked before every step whether to stop.
        rest: pause after a step, as a multiple of the time it took.
        forget: write the index of words anew, too, which takes long where there are many: until then it may still
            hold words of pruned records.

    Raises:
        RunError: the file is damaged.
        StorageError: the disk refuses; the steps before are done.
    """
    records = versions = 0
    done = began_words = False
    while not done and not until():
        began = time.monotonic()
        pruned = _prune_records(state, policy)
        dropped = 0 if pruned else _prune_version(state, policy)
        merged = forget and not (pruned or dropped) and _merge_words(state, anew=bool(records) and not began_words)
        began_words = began_words or merged
        returned = _give_back(state)
        records, versions, done = records + pruned, versions + dropped, not (pruned or dropped or merged or returned)
        time.sleep(rest * (time.monotonic() - began))
    return Pruned(records, versions, state.first, done)


def _merge_words(state: ServerStore, *, anew: bool) -> bool:
    """Write a part of the index of words anew, without those of pruned records.

    Args:
        state: open for writing.
        anew: begin with all of it; else go on where the last step ended.

    Returns:
        whether anything was left to do.
    """
    with state.writing():
        if not has_words(state.db):
            return False
        before = state.db.total_changes
        state.db.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-MERGED if anew else MERGED,))
        return state.db.total_changes - before > 1  # the command itself counts as one


def _prune_records(state: ServerStore, policy: Retention) -> int:
    """Prune some of the oldest records; returns how many."""
    first, keep = state.first, _first_kept(state, policy)
    if keep <= first:
        return 0
    manifest = Manifest.of(state.store)
    stream = resume(state, manifest.settings.build_gate(), manifest.posterior_rule, keep)
    db = state.db
    with state.writing():
        state.write_checkpoint(stream.position, pack(stream))
        for table in ("checkpoints", "decisions", "served", "records"):
            db.execute(f"DELETE FROM {table} WHERE position < ?", (keep,))
        _prune_updates(db, keep)
        if has_words(db):
            db.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-MERGED,))
    return keep - first


def _first_kept(state: ServerStore, policy: Retention) -> int:
    """Position before which records are pruned now: a step from the first one, at most."""
    first, end = state.first, len(state)
    keep = first
    if policy.records is not None:
        keep = max(keep, end - policy.records)
    if policy.days is not None:
        limit = time.time() - policy.days * DAY
        oldest = state.rows("SELECT position, time FROM served ORDER BY position LIMIT ?", STEP)
        keep = max(keep, min((position for position, moment in oldest if moment > limit), default=first + STEP))
    ((waiting,),) = state.rows("SELECT min(position) FROM records WHERE outcome = 'waiting'")
    return min(keep, first + STEP, end - 1, end if waiting is None else waiting)


_PRUNE_UPDATES = """
    DELETE FROM updates WHERE position < ? AND version NOT IN (SELECT version FROM versions)
    AND version < coalesce((SELECT max(version) FROM versions), 0)"""


def _prune_updates(db: sqlite3.Connection, first: int) -> None:
    """Those before the first kept record whose version is not kept; newer ones may still answer."""
    db.execute(_PRUNE_UPDATES, (first,))


_UNNEEDED = """
    SELECT version FROM versions v WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.version = v.version)
    AND version NOT IN (SELECT version FROM versions ORDER BY version DESC LIMIT ?) AND version != ?
    ORDER BY version LIMIT 1"""


def _prune_version(state: ServerStore, policy: Retention) -> int:
    """Prune the oldest adapter version that nothing needs, if there is one; returns how many."""
    if policy.versions is None:
        return 0
    db = state.db
    with state.writing():
        found = db.execute(_UNNEEDED, (policy.versions, version_now(state))).fetchone()
        if found is None:
            return 0
        db.execute("DELETE FROM versions WHERE version = ?", found)
        _prune_updates(db, state.first)
    return 1


def _give_back(state: ServerStore) -> int:
    """Give free pages of the file back to the disk; returns how many."""
    with state.lock, storage_errors(state.folder, HINT):
        (free,) = state.db.execute("PRAGMA freelist_count").fetchone()
        if free:
            state.db.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
            (left,) = state.db.execute("PRAGMA freelist_count").fetchone()
            return int(free - left)
    return 0
