"""The folder of a run or of a server: checks, lock, connection to its SQLite file, and storage errors."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from secl.errors import RunError, StorageError

FILE = "run.sqlite"
UNFINISHED = f"{FILE}.new"
BESIDE = (UNFINISHED, "keys.json")
"""Files that may already exist in a new run's folder: the file of an interrupted start, and a server's API keys."""

DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors of SQLite about a file. If a definition in the file is no UTF-8, Python cannot decode SQLite's message."""

RESUME = "go on with --resume {folder}"
"""Remedy in messages: the option that continues a stopped run."""


def check_is_run(folder: Path) -> None:
    """Check that a folder holds a run or a server's state."""
    if not (folder / FILE).is_file():
        raise RunError(f"{folder} is not a run folder (it has no {FILE}); name the folder of a run.")


def check_free(folder: Path) -> None:
    """Check that a run may be created in a folder: the folder does not exist, or holds only files of `BESIDE`."""
    if folder.exists() and (not folder.is_dir() or any(not path.name.startswith(BESIDE) for path in folder.iterdir())):
        hint = f"continue it with --resume {folder}, or" if (folder / FILE).exists() else "please"
        kind = "not empty" if folder.is_dir() else "a file"
        raise RunError(f"{folder} exists and is {kind}; {hint} name another folder.")


def check_outside(path: Path, own: Path) -> None:
    """Check that an export to a path overwrites no file of the run in `own`, and does not write into another run."""
    is_own_file = path.name.startswith((FILE, "summary.")) or path.name in ("lock", "adapter")
    inside_own = path.parent.resolve() == own.resolve()
    other = next((folder for folder in (path, path.parent) if (folder / FILE).exists()), None)
    if (inside_own and is_own_file) or (other is not None and not inside_own):
        raise RunError(f"{path} belongs to a run, and an export would damage the run; name another file with --out.")


def lock_folder(folder: Path) -> IO[str]:
    """Lock a run for writing until the caller closes the returned file or the process ends."""
    with storage_errors(folder):
        stream = (folder / "lock").open("a+")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        stream.close()
        raise RunError(f"{folder} is in use by another process; wait for it or stop it.") from problem
    return stream


def connect(path: Path, writable: bool) -> sqlite3.Connection:
    # Several threads of a server use this connection, one at a time (`secl.server.store`).
    db = sqlite3.connect(path, timeout=30, isolation_level="DEFERRED", check_same_thread=False)
    try:
        if not writable:
            db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA synchronous = NORMAL")
    except DAMAGE as problem:
        db.close()
        if isinstance(problem, sqlite3.OperationalError):  # no space or no permission; the file may be intact
            raise StorageError(
                f"cannot open {path}: {problem}; free disk space or correct the permissions."
            ) from problem
        raise RunError(f"{path} is damaged or not a database of secl: {problem}.") from problem
    return db


@contextmanager
def storage_errors(folder: Path, then: str = "try again") -> Iterator[None]:
    """Turn errors of writing into a StorageError. The message ends with `then`, where {folder} becomes the folder."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise StorageError(
            f"cannot write to {folder}: {reason}; free disk space or correct the permissions, then "
            f"{then.format(folder=folder)}."
        ) from problem
