"""A state folder holds what people asked, so only the user who runs the server may read it; and how it is copied."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path

from secl.errors import RunError, StorageError
from secl.runs.database import connect
from secl.runs.folder import FILE, lock_folder, synchronise
from secl.runs.store import Store

log = logging.getLogger("secl.server")

FOLDER_MODE, FILE_MODE = 0o700, 0o600

KEYS = "keys.json"
"""The hashes of the API keys, which belong to a server as much as its records."""


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner may enter; one that exists stays as it is."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_private(folder: Path) -> None:
    """Take the permissions of other users away from a state folder (to 0700) and from the files in it (to 0600).

    Raises:
        RunError: that is not possible, because the folder belongs to somebody else or its file system keeps no modes.
    """
    try:
        open_before = _open_to_others(folder)
        folder.chmod(FOLDER_MODE)
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # a new key file, which has just got its name
                if not path.is_symlink():
                    path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
        open_now = _open_to_others(folder)
    except OSError as problem:
        raise _cannot(folder, str(problem.strerror)) from problem
    if open_now:
        raise _cannot(folder, "its file system does not keep permissions")
    if open_before:
        log.warning("other users could open %s; now only its owner can.", folder)


def _open_to_others(folder: Path) -> bool:
    return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)


def _cannot(folder: Path, reason: str) -> RunError:
    return RunError(
        f"{folder} would hold what people ask, but it cannot be closed to other users: {reason}; name a folder of "
        "your own with --state."
    )


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
