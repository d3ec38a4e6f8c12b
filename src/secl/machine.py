"""Services of this machine: a cache folder, files written completely, freed memory, and faster imports."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for converted models, which may not exist: SECL_CACHE, or "secl" in the user's cache folder."""
    base = os.environ.get("SECL_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "secl")
    return Path(base).expanduser()


def synchronise(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_folder(unfinished: Path, folder: Path) -> None:
    """Rename a folder once all of its files are on the disk, so that a power cut leaves no incomplete folder."""
    for path in (*unfinished.iterdir(), unfinished):
        synchronise(path)
    unfinished.rename(folder)
    synchronise(folder.parent)


def release_memory() -> None:
    """Return freed memory to the system, if the C library can (glibc).

    glibc keeps the gaps that freed tensors leave between other data: some hundred MiB in a server.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection: it takes a sixth of the time of importing PyTorch and transformers."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
