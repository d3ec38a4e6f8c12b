"""The machine: environment variables for torch, cache folder, writing to disk, freed memory, faster imports."""

from __future__ import annotations

import ctypes
import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path

WAIT_POLICY = "OMP_WAIT_POLICY"

WAITING = {
    # Threads that wait for others sleep instead of spinning. On a busy machine, spinning threads take the cores of the
    # threads that they wait for. Then all work takes three to ten times as long.
    WAIT_POLICY: "PASSIVE",
    # Most waits last microseconds. On a quiet machine, work takes a fifth longer if threads sleep at once. So GNU's
    # OpenMP (part of torch on Linux) spins this many times before a thread sleeps.
    "GOMP_SPINCOUNT": "1000",
}

DEFAULTS = {
    **WAITING,
    # For each length of a question, oneDNN caches a kernel (a third of a MiB), by default up to 1024 in each thread.
    # A lesson needs 16 to 32 kernels. A cache of 64 has the same hit rate as a cache of 128.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "LRU_CACHE_CAPACITY": "64",
    # secl never compiles a model. PEFT imports bitsandbytes if installed, and bitsandbytes imports PyTorch's compiler.
    # With this variable, the import skips the compiler, which takes a sixth of the time of all imports.
    "TORCHDYNAMO_DISABLE": "1",
    # With this workspace, cuBLAS rounds reproducibly even if several CUDA streams are in use.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # Passes differ in length, which fragments memory unless segments can grow.
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    # On recent GPUs PyTorch prefers cuDNN's attention, which makes a new plan for every length of a text.
    "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",
}
"""Environment variables that torch reads on import. The command line sets those that the user has not set."""


def set_defaults() -> None:
    """Set the unset variables of `DEFAULTS`, and OMP_NUM_THREADS under a CPU quota; child processes inherit them."""
    # GOMP_SPINCOUNT would override a wait policy that the user has set.
    chosen = WAITING if WAIT_POLICY in os.environ else {}
    for name, value in DEFAULTS.items():
        if name not in chosen:
            os.environ.setdefault(name, value)
    quota = cpu_quota()
    # torch starts a thread for each core of the machine. With a lower quota, these threads would slow each other down.
    if quota is not None and quota < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(math.ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the number of cores that a container or systemd unit may use (cgroup v2); None without a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    group = Path(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    limits: list[float] = []
    for folder in [group, *group.parents]:  # the limits of surrounding groups also apply
        try:
            allowed, period = (root / "sys/fs/cgroup" / folder / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if allowed != "max":
            limits.append(int(allowed) / int(period))
    return min(limits, default=None)


def cache_folder() -> Path:
    """Return the folder for converted models and readings: SECL_CACHE, or "secl" in the user's cache folder.

    The folder may not exist. Raises FileNotFoundError: the user has no home folder.
    """
    base = os.environ.get("SECL_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "secl")
    try:
        return Path(base).expanduser()
    except RuntimeError as problem:
        raise FileNotFoundError(ENOENT, "the home folder is unknown, and SECL_CACHE names no other", base) from problem


def synchronise(path: Path) -> None:
    """Write a file, or the list of names in a folder, to the disk (fsync)."""
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

    glibc keeps the gaps that freed tensors leave between other data: several hundred MiB in a server.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: it takes a sixth of the time of importing PyTorch and transformers."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
