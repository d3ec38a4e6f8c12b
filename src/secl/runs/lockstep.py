"""Runs in this process. Those of one model over one stream go on in lockstep, a window of questions after the other.

What the frozen model says about a question, and the trunk states that the adapted one goes on from, are the same in all
of them, so they are computed once. Records are those of each run alone to the last digit, tokens included; only its
seconds are not, because the first run of a window waits for what the others find there.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from secl.backends.shared import SharedAnswers
from secl.calibrator.lookahead import WINDOW
from secl.errors import SeclError
from secl.runs.loading import load_model
from secl.runs.sweep import Job, OnProgress, is_finished, open_job

TOGETHER = 16
"""Most runs in lockstep: each has modules, an adapter and a database of its own."""


def run_here(jobs: Sequence[Job], on_progress: OnProgress | None = None) -> None:
    """Do runs in this process; finished ones are left alone.

    Raises:
        SeclError: of the first run that fails; what the others have asked is kept.
    """
    for group in groups(jobs):
        unfinished = [job for job in group if not is_finished(job)]
        for start in range(0, len(unfinished), TOGETHER):
            _run_in_lockstep(unfinished[start : start + TOGETHER], on_progress or (lambda *_: None))


def groups(jobs: Iterable[Job]) -> list[list[Job]]:
    """The jobs that can go in lockstep: with one model in this process and one stream; others are alone.

    Models come in the order of their first job, and so do the streams of each.
    """
    of_model: dict[Hashable, dict[Hashable, list[Job]]] = {}
    for job in jobs:
        settings = job.settings
        here = settings.model.answered_by == "local"
        stream = (settings.stream, settings.seed) if here else job.name
        of_model.setdefault(settings.model, {}).setdefault(stream, []).append(job)
    return [group for streams in of_model.values() for group in streams.values()]


def _run_in_lockstep(jobs: Sequence[Job], on_progress: OnProgress) -> None:
    shared = SharedAnswers()
    with ExitStack() as stores:
        runs = []
        for job in jobs:
            with _named(job):
                run = open_job(job, partial(load_model, shared=shared))
                stores.enter_context(run.store)
                runs.append((job, run, run.steps()))
                on_progress(job, len(run.records), len(run.questions))
        for end in range(WINDOW, max(len(run.questions) for _, run, _ in runs) + WINDOW, WINDOW):
            for job, run, steps in runs:
                with _named(job):
                    for _ in itertools.islice(steps, max(0, end - len(run.records))):
                        on_progress(job, len(run.records), len(run.questions))
            shared.clear()
        for job, run, _ in runs:
            with _named(job):
                run.finish()


@contextmanager
def _named(job: Job) -> Iterator[None]:
    """Within the block errors name the run."""
    try:
        yield
    except SeclError as problem:
        raise type(problem)(f"the run {job.name}: {problem}") from problem
