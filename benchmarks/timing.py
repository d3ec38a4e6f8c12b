"""Timing of compared programs, which take turns; results are medians, with facts about the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

Work = Callable[[], object]
Timings = dict[str, list[float]]
"""Seconds of each work, one entry for each round."""

LIBRARIES = ("secl", "torch", "transformers", "peft", "numpy")


def seconds(work: Work) -> float:
    """Do a work, and return its wall-clock seconds, including the end of its work on a GPU."""
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def alternate(rounds: int, works: Mapping[str, Work]) -> Timings:
    """Do all works in turn, `rounds` times; every other round is in reverse order, so that drift affects all equally.

    >>> done = []
    >>> timings = alternate(2, {"a": lambda: done.append("a"), "b": lambda: done.append("b")})
    >>> done, len(timings["a"])
    (['a', 'b', 'b', 'a'], 2)
    """
    timings: Timings = {name: [] for name in works}
    for number in range(rounds):
        for name in list(works)[:: -1 if number % 2 else 1]:
            timings[name].append(seconds(works[name]))
    return timings


def medians(timings: Timings, each: int = 1) -> dict[str, float]:
    """Return the median seconds of each work, divided by `each`, for example the questions of a round.

    >>> medians({"a": [3.0, 1.0, 2.0]}, 2)
    {'a': 1.0}
    """
    return {name: statistics.median(rounds) / each for name, rounds in timings.items()}


def machine(**more: Any) -> dict[str, Any]:
    """Return facts that affect timing: processor, cores, present load, library versions, and `more`."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        **more,
    }


def _processor() -> str:
    """Return the processor's name from the system."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
