"""Sweeps: many runs from one file, their progress, and runs of one model in lockstep.

A sweep file is a recipe in TOML with two more tables. `[grid]` maps settings to lists of values, and the sweep has a
run for each combination of values. `[[runs]]` are variants of the recipe: each entry gives settings to change. With
both tables, the sweep has a run for each pair of a combination and a variant:

    stream.benchmarks = ["mmlu", "arc"]
    [grid]
    seed = [42, 43]
    stream.order = ["forward", "reversed"]
    [[runs]]
    method = "baselines"
    [[runs]]
    method = "secl"
    gate.name = "page-hinkley"

Runs of one model over one stream proceed in lockstep, window by window. The model computes the frozen answers, and the
states below the adapted layers, once for all of these runs. Records and tokens are the same to the last digit as if
each run proceeded alone, unless a device runs out of memory. Seconds differ, because the first run of a window computes
the shared part.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from secl.calibrator.stream import WINDOW_SIZE
from secl.errors import ParameterError, RunError, SeclError
from secl.records import Record
from secl.runs.folder import FILE, check_free, storage_errors
from secl.runs.loading import Load, load_model, read_stream
from secl.runs.manifest import Manifest
from secl.runs.runner import SUMMARY, ProgressHook, Run, resume_run, start_run
from secl.runs.settings import MACHINE_SETTINGS, RunSettings, read_toml, with_absolute_paths
from secl.runs.store import Store
from secl.settings.names import SETTINGS, as_compared, dotted

if TYPE_CHECKING:
    from secl.flow.model import SharedAnswers

GRID, RUNS = "grid", "runs"


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep. `apart` names the settings that differ between the runs, with this run's values."""

    name: str
    settings: RunSettings
    folder: Path
    apart: str = ""


OnProgress = Callable[[Job, int, int], None]
"""Function called with a job, the number of its answered questions, and the number of all its questions."""


def read_sweep(path: Path) -> list[RunSettings]:
    """Return the checked settings of every run in a sweep file. A setting in `[[runs]]` overrides the grid.

    Raises:
        DataError: the file cannot be read or is not TOML.
        ParameterError: a setting is unknown or has an invalid value, or `[grid]` or `[[runs]]` has the wrong type.
    """
    common = read_toml(path)
    grid, variants = common.pop(GRID, {}), common.pop(RUNS, [{}])
    try:
        grid = dotted(grid) if isinstance(grid, dict) else grid
        _check_tables(grid, variants)
        settings = combinations(common, grid, variants)
    except ParameterError as problem:
        raise ParameterError(f"in {path} (a file of settings, [{GRID}] and [[{RUNS}]]): {problem}") from problem
    return [ready(values) for values in settings]


def combinations(
    common: Mapping[str, object], grid: Mapping[str, Sequence[object]], variants: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Return the settings of every variant at every point of the grid. The last setting of the grid varies fastest.

    >>> combinations({"seed": 1}, {"adapter.rank": [4, 8]}, [{}, {"evidence": {"tau": 0.7}}])[1:3]
    [{'seed': 1, 'adapter.rank': 8}, {'seed': 1, 'adapter.rank': 4, 'evidence.tau': 0.7}]
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [{**dotted(common), **point, **dotted(variant)} for variant in variants for point in points]


def _check_tables(grid: object, variants: object) -> None:
    if not isinstance(grid, dict):
        raise ParameterError(f"{GRID} is {grid!r}; it must be a table of lists, as in [{GRID}] seed = [42, 43].")
    for field, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ParameterError(f"{field} in [{GRID}] is {values!r}; it must be a list of at least one value.")
    if not isinstance(variants, list) or not variants or not all(isinstance(variant, dict) for variant in variants):
        raise ParameterError(f"{RUNS} is {variants!r}; it must be tables of changes, each under its own [[{RUNS}]].")


def ready(values: Mapping[str, object]) -> RunSettings:
    """Return the checked settings of a run, with absolute paths. The check executes the file of a user's gate."""
    settings = RunSettings.of(with_absolute_paths(values))
    settings.build_gate()
    return settings


def plan(runs: Iterable[RunSettings], out: Path) -> list[Job]:
    """Return a job for each run with different settings. The folder of a job is out/MODEL-METHOD-HASH."""
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; name a folder for the runs.")
    unique = {_digest(settings): settings for settings in runs}
    every = [settings.dotted() for settings in unique.values()]
    varied = [name for name in SETTINGS if len({str(values[name]) for values in every}) > 1]
    varied = [name for name in varied if name not in MACHINE_SETTINGS]
    jobs = []
    for (digest, settings), values in zip(unique.items(), every, strict=True):
        model = re.sub(r"[^\w.]+", "-", Path(settings.model.name).name, flags=re.ASCII)
        name = f"{model}-{settings.method}-{digest[:8]}".lstrip("-.")
        apart = ", ".join(f"{key} {as_compared(key, values[key])}" for key in varied)
        jobs.append(Job(name, settings, out / name, apart))
    return jobs


def _digest(settings: RunSettings) -> str:
    """Return the hash of all settings except `MACHINE_SETTINGS`."""
    values = {key: value for key, value in settings.dotted().items() if key not in MACHINE_SETTINGS}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def progress_of(job: Job) -> tuple[int, int] | None:
    """Return (number of answered questions, number of all questions) of a job's run; None before the run starts.

    Raises:
        RunError: the job's folder holds a run with other settings, or other files.
    """
    if not (job.folder / FILE).exists():
        check_free(job.folder)
        return None
    with Store(job.folder) as store:
        manifest = Manifest.of(store)
        differences = manifest.settings.differences(job.settings)
        if differences:
            raise RunError(
                f"{job.folder} holds a run with other settings ({'; '.join(differences)}); move it away or name "
                f"another folder for the sweep."
            )
        return len(store), manifest.total


def is_finished(job: Job) -> bool:
    """Return whether the folder of a job has the complete run with its summary."""
    progress = progress_of(job)
    if progress is None or progress[0] < progress[1]:
        return False
    # A run writes its summary last. A report of an unfinished run writes a summary that is not "complete".
    try:
        return bool(json.loads((job.folder / SUMMARY).read_text(encoding="utf-8"))["complete"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False  # `run_job` then writes the summary again


def run_job(job: Job, progress: ProgressHook | None = None) -> None:
    """Start or resume the run of a job, and finish the run. Do nothing if the run is finished."""
    if is_finished(job):
        return
    run = open_job(job)
    with run.store:
        run.proceed(progress)
        run.finish()


def open_job(job: Job, load: Load | None = None) -> Run:
    """Start or resume a job's run."""
    if (job.folder / FILE).exists():
        return resume_run(job.folder, job.settings.to_json(), load)
    return start_run(job.settings, job.folder, load)


def groups(jobs: Iterable[Job]) -> list[list[Job]]:
    """Return groups of jobs for lockstep: jobs with the same local model and stream. Any other job is its own group.

    Groups with the same model follow each other.
    """
    of_model: dict[Hashable, dict[Hashable, list[Job]]] = {}
    for job in jobs:
        settings = job.settings
        # Runs that differ only in `answer_weights` also share the answers of the frozen model.
        model = settings.model.model_copy(update={"answer_weights": None})
        stream = (settings.stream, settings.seed) if model.answered_by == "local" else job.name
        of_model.setdefault(model, {}).setdefault(stream, []).append(job)
    return [group for streams in of_model.values() for group in streams.values()]


def raise_first(failures: Sequence[SeclError]) -> None:
    """Raise the first error, if any, with the number of further errors in the message."""
    if failures:
        others = f" ({len(failures) - 1} more failed.)" if len(failures) > 1 else ""
        raise type(failures[0])(f"{failures[0]}{others}") from failures[0]


def question_counts(jobs: Sequence[Job]) -> dict[str, int]:
    """Return the number of questions of each run by the run's name. Read every stream only once."""
    of_stream = {job.settings.stream: job.settings for job in jobs}
    counts = {stream: len(read_stream(settings).questions) for stream, settings in of_stream.items()}
    return {job.name: counts[job.settings.stream] for job in jobs}


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file in a folder, by its path in the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(job: Job, files: Mapping[str, bytes]) -> None:
    """Write a finished run from another machine into its folder, completely or not at all.

    The run may replace an unfinished run in the folder, but never a finished run.
    """
    if is_finished(job):
        return
    staging = job.folder.with_name(f".{job.folder.name}.new")
    with storage_errors(job.folder, "start the sweep again"):
        shutil.rmtree(staging, ignore_errors=True)
        for name, content in files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).write_bytes(content)
        if not is_finished(replace(job, folder=staging)):
            raise RunError(f"the run {job.name} has come back unfinished; does its worker run another version of secl?")
        if (job.folder / FILE).exists():
            with Store(job.folder, writable=True):  # raises a RunError if another process writes to the run
                shutil.rmtree(job.folder)
        staging.rename(job.folder)


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
