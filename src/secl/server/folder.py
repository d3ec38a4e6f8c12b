"""Permissions of a state folder, which holds users' questions, and its backup."""

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
"""File with the hashes of the API keys."""


def make_private(folder: Path) -> None:
    """Create a state folder, or restrict an existing folder to its owner (mode 0700). Raises RunError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_before = _is_open(folder)
        folder.chmod(0o700)
        reason = "its file system does not keep permissions" if _is_open(folder) else None
    except (PermissionError, FileExistsError, NotADirectoryError) as problem:
        reason = str(problem.strerror)
    if reason is not None:
        why = f"{folder} would hold people's questions, but it cannot be closed to other users: {reason}"
        raise RunError(f"{why}; name a folder of your own.")
    if open_before:
        log.warning("other users could open %s; now only its owner can.", folder)


def _is_open(folder: Path) -> bool:
    return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)


def backup(folder: Path, out: Path) -> int:
    """Copy the present state of a folder while its server runs; return the number of records.

    secl writes the copy under a temporary name, and renames the copy once it is complete and on the disk. Raises
    RunError: `out` exists, or the folder is no server's state or damaged; StorageError: the copy cannot be written.
    """
    with Store(folder) as store:
        if not store.is_server:
            raise RunError(
                f"{folder} is a run, not a server's state folder; copy the run's folder while no process writes to it."
            )
        if out.exists() or out.is_symlink():
            raise RunError(f"{out} exists already; name a new folder, so that no older backup is lost.")
        with storage_errors(out), ExitStack() as failure:
            out.parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f"{out.name}.", dir=out.parent))  # only its owner can enter it
            failure.callback(shutil.rmtree, unfinished, ignore_errors=True)
            try:
                (unfinished / FILE).touch(mode=0o600)  # stays private if copied out of this folder
                store.db.execute("PRAGMA query_only = OFF")  # VACUUM INTO needs this; nothing else is written
                store.db.execute("VACUUM INTO ?", (str(unfinished / FILE),))
                with closing(sqlite3.connect(unfinished / FILE)) as copy:
                    copy.execute("PRAGMA journal_mode = WAL")
                    (records,) = copy.execute("SELECT count(*) FROM records").fetchone()
            except sqlite3.DatabaseError as problem:
                if isinstance(problem, sqlite3.OperationalError):
                    raise
                raise store.damaged(problem) from problem
            if (folder / KEYS).exists():
                shutil.copy2(folder / KEYS, unfinished / KEYS)
            publish_folder(unfinished, out)
            failure.pop_all()
    return int(records)
