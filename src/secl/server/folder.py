"""A state folder holds what people asked, so only the user who runs the server may enter it; and how it is copied."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import stat
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from secl.errors import RunError
from secl.machine import publish_folder
from secl.runs.folder import FILE, storage_errors
from secl.runs.store import Store

log = logging.getLogger("secl.server")

KEYS = "keys.json"
"""The hashes of the API keys, which belong to a server as much as its records."""


def make_private(folder: Path) -> None:
    """Make a state folder that only its owner can enter (0700), and so whatever is in it; one that exists is closed.

    Raises:
        RunError: that is not possible, because the folder belongs to somebody else or its file system keeps no modes.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_before = _is_open(folder)
        folder.chmod(0o700)
        reason = "its file system does not keep permissions" if _is_open(folder) else None
    except (PermissionError, FileExistsError, NotADirectoryError) as problem:
        reason = str(problem.strerror)
    if reason is not None:
        raise RunError(
            f"{folder} would hold what people ask, but it cannot be closed to other users: {reason}; name a folder of "
            "your own."
        )
    if open_before:
        log.warning("other users could open %s; now only its owner can.", folder)


def _is_open(folder: Path) -> bool:
    return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)


def backup(folder: Path, out: Path) -> int:
    """Copy a state folder as it is at one moment, under another name until the copy is whole and on the disk.

    The copy is read in one go, so a busy server never makes it begin again; that server goes on meanwhile, and its log
    (`run.sqlite-wal`) grows by what it writes.

    Returns:
        how many records are in the copy.

    Raises:
        RunError: there is something at `out` already, or the folder is no server's state or damaged.
        StorageError: the copy cannot be written.
    """
    with Store(folder) as store:
        if not store.is_server:
            raise RunError(f"{folder} is a run and no server's state; copy its folder while nobody writes to it.")
        if out.exists() or out.is_symlink():
            raise RunError(f"{out} exists already; name a folder that does not, so that no older backup is lost.")
        try:
            with storage_errors(out), ExitStack() as failure:
                out.parent.mkdir(parents=True, exist_ok=True)
                unfinished = Path(
                    tempfile.mkdtemp(prefix=f"{out.name}.", dir=out.parent)
                )  # only its owner can enter it
                failure.callback(shutil.rmtree, unfinished, ignore_errors=True)
                records = _copy(store, unfinished)
                publish_folder(unfinished, out)
                failure.pop_all()
        except sqlite3.DatabaseError as problem:
            raise store.damaged(problem) from problem
    return records


def _copy(store: Store, to: Path) -> int:
    """Copy a state into a folder and read the copy to its last page; returns its records."""
    (to / FILE).touch(mode=0o600)  # who copies the file alone shall not open it to others
    with closing(sqlite3.connect(to / FILE)) as copy:
        store.db.backup(copy)
        (sound,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if sound != "ok":
            raise RunError(f"the state is damaged, and so is its copy: {sound}.")
        (records,) = copy.execute("SELECT count(*) FROM records").fetchone()
    if (store.folder / KEYS).exists():
        shutil.copy2(store.folder / KEYS, to / KEYS)
    return int(records)
