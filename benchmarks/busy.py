"""Beside other work: the same questions on a quiet machine and while another process keeps its cores busy.

Every measurement is a process of its own, because threads and waiting are settled when torch is imported: as `secl`
starts it, with threads that sleep at once, as torch comes, and with a single thread. The other process multiplies
matrices with torch's own settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from benchmarks.setting import Say, Setting
from benchmarks.timing import Timings, Work, alternate, medians
from secl.cli.machine import DEFAULTS

AS_SECL = "as_secl_starts"
WAYS: dict[str, dict[str, str]] = {
    AS_SECL: DEFAULTS,
    "asleep_at_once": {**DEFAULTS, "GOMP_SPINCOUNT": "0"},
    "as_torch_comes": {},
    "one_thread": {"OMP_NUM_THREADS": "1"},
}
"""What is set in the environment of each process."""

SETTLING = 2.0
"""Seconds after which the other process is at work."""

LIMIT = 1800.0
"""Seconds that one process may take at most."""

WORK = """
import sys, time
from benchmarks.evidence import KINDS, ask
from benchmarks.setting import Setting
setting = Setting(model=sys.argv[1], dtype=sys.argv[2], data=sys.argv[3] or None)
model, questions = setting.library(), setting.choices(int(sys.argv[4]))
ask(model, questions[:1], [])
began = time.perf_counter()
ask(model, questions, KINDS["both"])
print(time.perf_counter() - began)
"""
OTHER = """
import torch
a = torch.randn(1024, 1024)
while True:
    a = torch.nn.functional.normalize(a @ a)
"""


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Seconds a question of each way, quiet and busy, and the busy ones over the quiet ones as `secl` starts."""
    found = {state: seconds(setting, busy=state == "busy") for state in ("quiet", "busy")}
    for state, each in found.items():
        say(f"{state}: " + ", ".join(f"{name.replace('_', ' ')} {took:.2f} s" for name, took in each.items()))
    over = {name: found["busy"][name] / found["quiet"][name] for name in WAYS}
    return {"ratios": {"busy_vs_quiet": over[AS_SECL]}, "busy": {**found, "busy_over_quiet": over}}


def seconds(setting: Setting, *, busy: bool) -> dict[str, float]:
    """Seconds a question of each way; the medians over the rounds, in which the ways take turns."""
    taken: Timings = {name: [] for name in WAYS}
    works: dict[str, Work] = {name: partial(answer, setting, way, taken[name]) for name, way in WAYS.items()}
    with other_work() if busy else nullcontext():
        alternate(setting.rounds, works)
    return medians(taken, setting.questions)


def answer(setting: Setting, way: dict[str, str], taken: list[float]) -> None:
    """Answer with all evidence in a process with these settings and no others of their kind; adds its seconds."""
    ours = {*DEFAULTS, "OMP_NUM_THREADS"}
    environment = {name: value for name, value in os.environ.items() if name not in ours} | way
    arguments = [setting.model, setting.dtype, setting.data or "", str(setting.questions)]
    done = subprocess.run(
        [sys.executable, "-c", WORK, *arguments],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    taken.append(float(done.stdout.split()[-1]))


@contextmanager
def other_work() -> Iterator[None]:
    """Context in which another process keeps the machine busy; it must still be at work at the end.

    Raises:
        RuntimeError: it stopped by itself, so nothing was measured beside other work.
    """
    environment = {name: value for name, value in os.environ.items() if name not in DEFAULTS}
    other = subprocess.Popen([sys.executable, "-c", OTHER], env=environment)
    try:
        time.sleep(SETTLING)
        yield
        if other.poll() is not None:
            raise RuntimeError(f"the other process ended by itself with code {other.returncode}.")
    finally:
        other.kill()
        other.wait()
