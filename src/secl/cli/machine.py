"""How the processes that we start use the machine: settings that torch reads once, before it is imported.

The command line makes them; a program that imports the library keeps its own. What the user has set stays.
"""

from __future__ import annotations

import os

DEFAULTS = {
    # Threads that wait for each other's share of a matrix product sleep instead of spinning. On a machine with other
    # work, spinning takes the cores from those who are waited for, and everything is three to ten times slower.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Compiled kernels that are kept for shapes that may come again, a third of a MiB each; every new length of a
    # question is a new shape. By default 1024 are kept, and as many again by every thread.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
    "LRU_CACHE_CAPACITY": "128",
}
"""Environment variables and their values: of the OpenMP runtime, of oneDNN, and of torch's own cache in front of it."""


def set_defaults() -> None:
    """Set what is not set; to be called before torch is imported. Processes that are started inherit it."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
