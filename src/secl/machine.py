"""What this machine gives: a folder for what can be made again, whole files on its disk, and imports without a search
for garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """SECL_CACHE, else the user's cache folder, for converted models; it need not exist."""
    base = os.environ.get("SECL_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "secl")
    return Path(base).expanduser()


def synchronise(path: Path) -> None:
    """Have a file, or the names in a folder, written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_folder(unfinished: Path, folder: Path) -> None:
    """Give a folder its name once all files in it are on the disk, so that a power cut leaves none with torn files."""
    for path in (*unfinished.iterdir(), unfinished):
        synchronise(path)
    unfinished.rename(folder)
    synchronise(folder.parent)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage: a sixth of the time of importing PyTorch and transformers goes into it, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
