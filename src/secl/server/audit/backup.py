"""A copy of a state folder while its server runs: a folder of its own, from which a server can go on."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from secl.errors import RunError, StorageError
from secl.runs.database import connect
from secl.runs.folder import FILE, lock_folder, synchronise
from secl.runs.store import Store
from secl.server.audit.permissions import FILE_MODE, FOLDER_MODE

KEYS = "keys.json"
"""The hashes of the API keys, which belong to a server as much as its records."""


def backup(folder: Path, out: Path) -> int:
    """Copy a state folder as it is at one moment, under another name until the copy is whole and on the disk.

    The copy is read in one go, so a busy server never makes it begin again; that server goes on meanwhile, and its log
    (`run.sqlite-wal`) grows by what it writes.

    Args:
        folder: of a server, running or not.
        out: a folder that does not exist yet.

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
        raise RunError(f"{out} exists already; name a folder that does not, so that no older backup is written over.")
    unfinished = out.with_name(f"{out.name}.unfinished")
    try:
        unfinished.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        with lock_folder(unfinished):
            unfinished.chmod(FOLDER_MODE)
            try:
                _copy(folder, unfinished)
                records = _check(unfinished)
                unfinished.rename(out)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
        synchronise(out.parent)
    except (OSError, sqlite3.OperationalError) as problem:
        raise StorageError(f"cannot write {out}: {problem}; free space or permissions, then try again.") from problem
    except sqlite3.DatabaseError as problem:
        raise RunError(f"{folder / FILE} is damaged: {problem}.") from problem
    return records


def _copy(folder: Path, unfinished: Path) -> None:
    path = unfinished / FILE
    for left in unfinished.glob(f"{FILE}*"):  # of a backup that was killed
        left.unlink()
    path.touch(mode=FILE_MODE)
    with closing(connect(folder / FILE, writable=False)) as state, closing(sqlite3.connect(path)) as copy:
        state.backup(copy)
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if (folder / KEYS).exists():
        shutil.copyfile(folder / KEYS, unfinished / KEYS)
        (unfinished / KEYS).chmod(FILE_MODE)
        synchronise(unfinished / KEYS)
    (unfinished / "lock").chmod(FILE_MODE)
    synchronise(path)
    synchronise(unfinished)


def _check(folder: Path) -> int:
    """Check that a copy can be read to its last page; returns how many records it has.

    Raises:
        RunError: it cannot.
    """
    with Store(folder) as store:
        (sound,) = next(store.read("PRAGMA quick_check(1)"))
        if sound != "ok":
            raise RunError(f"the state is damaged, and so is its copy: {sound}.")
        return len(store)
