"""How the processes that we start use the machine: settings that torch reads once, before it is imported.

Only the command line makes them; variables that the user has set stay.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

WAIT_POLICY = "OMP_WAIT_POLICY"

WAITING = {
    # Threads that wait for each other's share of a matrix product sleep instead of spinning. On a machine with other
    # work, spinning takes the cores from those who are waited for, and everything is three to ten times slower.
    WAIT_POLICY: "PASSIVE",
    # But most shares come within microseconds, and falling asleep for them costs a fifth of the time on a quiet
    # machine: GNU's OpenMP, torch's own on Linux, looks this many times before a thread sleeps.
    "GOMP_SPINCOUNT": "1000",
}

DEFAULTS = {
    **WAITING,
    # Compiled kernels that are kept for shapes that may come again, a third of a MiB each; every new length of a
    # question is a new shape. By default 1024 are kept, and as many again by every thread. A lesson needs between 16
    # and 32, and 64 hit as often as 128.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "LRU_CACHE_CAPACITY": "64",
    # Nothing here is compiled. PEFT imports bitsandbytes where it is installed, which has functions compiled on demand,
    # and would import all of PyTorch's compiler for that: a sixth of the time of all imports.
    "TORCHDYNAMO_DISABLE": "1",
    # On a GPU the same product rounds the same way each time, also where several streams compute.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # Passes have other lengths each time, which leaves holes in memory that is not given out by the page.
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    # On recent GPUs PyTorch asks cuDNN for attention first, which plans anew for every length of a text.
    "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",
}
"""Environment variables and their values: of OpenMP, of oneDNN, of torch's cache in front of it, of its compiler, and
of cuBLAS."""


def set_defaults() -> None:
    """Set unset variables, before torch is imported. Child processes inherit them."""
    # Our count would win over a policy that the user has set.
    chosen = WAITING if WAIT_POLICY in os.environ else {}
    for name, value in DEFAULTS.items():
        if name not in chosen:
            os.environ.setdefault(name, value)
    quota = cpu_quota()
    # torch counts the cores of the machine, and more threads than cores wait for each other.
    if quota is not None and quota < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(math.ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Cores that a container or a unit of systemd may use (Linux, cgroup v2); None without a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    group = Path(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    limits: list[float] = []
    for folder in [group, *group.parents]:  # the limits of the groups around it hold as well
        try:
            allowed, period = (root / "sys/fs/cgroup" / folder / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if allowed != "max":
            limits.append(int(allowed) / int(period))
    return min(limits, default=None)
