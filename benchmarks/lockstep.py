"""Seconds of the paper's ablations over one stream, one run after the other and in lockstep; both ways must give the
same records."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.setting import Say, Setting
from secl.runs.store import Store
from secl.runs.sweep import Job, groups, run_here, run_job
from secl_paper.reproduce import Reproduction, find
from secl_paper.setup import Setup

TABLES = ("kl", "gating", "accumulation", "hyperparameters")


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Measure the runs of `TABLES`, over the questions of a timed round and a third more questions about numbers."""
    with tempfile.TemporaryDirectory() as folder:
        alone, together = (_jobs(setting, Path(folder) / name) for name in ("alone", "together"))
        # Before the measurement, one job imports modules and compiles kernels for these lengths.
        run_job(_jobs(setting, Path(folder) / "first")[0])
        began = time.perf_counter()
        for number, job in enumerate(alone, start=1):
            run_job(job)
            say(f"{number} of {len(alone)} alone, {time.perf_counter() - began:.0f} s")
        one_by_one, began = time.perf_counter() - began, time.perf_counter()
        run_here(together)
        in_lockstep = time.perf_counter() - began
        same = [_records(one) == _records(other) for one, other in zip(alone, together, strict=True)]
    say(f"{one_by_one:.0f} s one by one, {in_lockstep:.0f} s in lockstep, {sum(same)} of {len(same)} runs the same")
    return {
        "ratios": {"ablations_in_lockstep_vs_one_by_one": one_by_one / in_lockstep},
        "seconds": {"ablations": {"one_by_one": one_by_one, "in_lockstep": in_lockstep}},
        "agreement": {"ablations in lockstep": {"runs": len(same), "same records": sum(same)}},
    }


def _jobs(setting: Setting, out: Path) -> list[Job]:
    """Return the learning runs among those that can go in lockstep with the first run of `TABLES`."""
    choices = setting.domains(setting.questions)
    numbers = f"{'gsm8k' if setting.data else 'arithmetic'}:{choices[0].partition(':')[2]}"
    place = {"model": setting.model, "dtype": setting.dtype, "device": setting.device, "data": setting.data}
    setup = Setup.model_validate({**place, "benchmarks": (*choices, numbers)})
    first, *_ = groups(Reproduction.plan(find(TABLES), setup, out).runs)
    return [job for job in first if job.settings.named_method.learns]


def _records(job: Job) -> list[Any]:
    with Store(job.folder) as store:
        return list(store.records())
