"""Runs in this process. Runs of one model over one stream proceed in lockstep, window by window.

The model computes the frozen answers, and the states below the adapted layers, once for all of these runs. Records and
tokens are the same to the last digit as if each run proceeded alone, unless a device runs out of memory. Seconds
differ, because the first run of a window computes the shared part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from secl.calibrator.stream import WINDOW_SIZE
from secl.errors import SeclError
from secl.records import Record
from secl.runs.loading import load_model
from secl.runs.runner import Run
from secl.runs.sweep import Job, OnProgress, groups, is_finished, open_job, raise_first

if TYPE_CHECKING:
    from secl.flow.model import SharedAnswers

TOGETHER = 16
"""Maximum number of runs in lockstep. Each run holds an adapter in memory and an open database."""


def run_here(jobs: Sequence[Job], on_progress: OnProgress | None = None) -> None:
    """Finish all runs in this process. If some runs fail, raise the first error after the last run."""
    failures: list[SeclError] = []
    for group in groups(jobs):
        unfinished = [job for job in group if not is_finished(job)]
        for start in range(0, len(unfinished), TOGETHER):
            failures += _run_in_lockstep(unfinished[start : start + TOGETHER], on_progress or (lambda *_: None))
    raise_first(failures)


def _run_in_lockstep(jobs: Sequence[Job], on_progress: OnProgress) -> list[SeclError]:
    """Finish runs in lockstep, and return the errors of failed runs."""
    shared: SharedAnswers | None = None
    if len(jobs) > 1:
        from secl.flow.model import SharedAnswers  # torch takes seconds to import

        shared = SharedAnswers()
    load = None if shared is None else partial(load_model, shared=shared)
    failures: list[SeclError] = []
    going: list[tuple[Job, Run, Iterator[Record]]] = []
    with ExitStack() as stores:
        for job in jobs:
            try:
                run = open_job(job, load)
            except SeclError as problem:
                failures.append(_of_run(job, problem))
                continue
            stores.enter_context(run.store)
            going.append((job, run, run.steps()))
            on_progress(job, len(run.records), len(run.questions))
        end = 0
        while going:
            end += WINDOW_SIZE
            for each in list(going):
                job, run, steps = each
                try:
                    for _ in itertools.islice(steps, max(0, end - len(run.records))):
                        on_progress(job, len(run.records), len(run.questions))
                    if len(run.records) == len(run.questions):
                        run.finish()
                        going.remove(each)
                except SeclError as problem:
                    failures.append(_of_run(job, problem))
                    going.remove(each)
            if shared is not None:
                shared.clear()
    return failures


def _of_run(job: Job, problem: SeclError) -> SeclError:
    return type(problem)(f"the run {job.name}: {problem}")
