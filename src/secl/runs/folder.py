"""The folder of a run or of a server: checks, lock, connection to its SQLite file, and storage errors."""

from __future__ import annotations

import errno
import fcntl
import shutil
import sqlite3
import tempfile
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

ELSEWHERE = "try again, or name another place with --out"
"""Remedy in messages of commands that read a run and write files."""


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
    """Open a database. If its folder cannot be written, and so SQLite cannot read the database, open a copy."""
    db = _open(path)
    try:
        if not writable:
            db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA synchronous = NORMAL")
    except DAMAGE as problem:
        db.close()
        if not isinstance(problem, sqlite3.OperationalError):
            raise RunError(f"{path} is damaged or not a database of secl: {problem}.") from problem
        if not writable and problem.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN:
            return _open_copy(path)
        # The disk has no space, or the user no permission; the file may be intact.
        raise StorageError(f"cannot open {path}: {problem}; {_remedy(problem)}.") from problem
    return db


def _open(path: Path) -> sqlite3.Connection:
    # Several threads of a server use this connection, one at a time (`secl.server.store`).
    return sqlite3.connect(path, timeout=30, isolation_level="DEFERRED", check_same_thread=False)


def _open_copy(path: Path) -> sqlite3.Connection:
    """Open a copy, which is removed from its folder at once, so that it vanishes when it is closed.

    SQLite can also read a file itself as "immutable", but a process may write to the file through another mount.
    """
    with tempfile.TemporaryDirectory(prefix="secl-") as place, storage_errors(Path(place)):
        parts = [part for part in (path, path.with_name(f"{path.name}-wal")) if part.exists()]
        for _ in range(COPIES):
            before = [(each.st_mtime_ns, each.st_size) for each in map(Path.stat, parts)]
            copy, *_ = [Path(shutil.copyfile(part, Path(place) / part.name)) for part in parts]
            if before == [(each.st_mtime_ns, each.st_size) for each in map(Path.stat, parts)]:
                break
        else:
            raise StorageError(f"another process writes to {path} all the time; stop it, then try again.")
        db = _open(copy)
        db.execute("PRAGMA journal_mode = MEMORY")  # so that the copy needs no file beside it
        return db


COPIES = 5
"""Maximum number of copies of a file to which another process writes."""


def _remedy(problem: Exception) -> str:
    if getattr(problem, "errno", None) == errno.EROFS or "readonly" in str(problem):
        return "copy the folder to a disk that can be written"
    return "free disk space or correct the permissions"


@contextmanager
def storage_errors(folder: Path, then: str = "try again") -> Iterator[None]:
    """Turn errors of writing into a StorageError. The message ends with `then`, where {folder} becomes the folder."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise StorageError(
            f"cannot write to {folder}: {reason}; {_remedy(problem)}, then {then.format(folder=folder)}."
        ) from problem
