"""A state folder holds what people asked, so only the user who runs the server may read it."""

from __future__ import annotations

import logging
import stat
from contextlib import suppress
from pathlib import Path

from secl.errors import RunError

log = logging.getLogger("secl.server")

FOLDER_MODE, FILE_MODE = 0o700, 0o600


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
