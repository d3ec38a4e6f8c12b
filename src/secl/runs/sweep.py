"""Many runs from one file: the runs of a sweep, how far each of them is, and doing them one after the other.

A sweep file is a recipe in TOML with two more tables. `[grid]` maps settings to lists, of which all combinations are
run; `[[runs]]` are variants, each a few changes. With both, every variant is run at every point of the grid:

    benchmarks = ["mmlu", "arc"]
    [grid]
    seed = [42, 43]
    order = ["forward", "reversed"]
    [[runs]]
    method = "baselines"
    [[runs]]
    gate = "page-hinkley"
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from secl.errors import ParameterError, RunError, SeclError
from secl.runs.folder import FILE, check_free, storage_errors
from secl.runs.loading import load_questions
from secl.runs.manifest import Manifest
from secl.runs.runner import SUMMARY, Progress, resume_run, start_run
from secl.runs.settings import (
    MACHINE_SETTINGS,
    RunSettings,
    read_toml,
    shown,
    with_absolute_paths,
)
from secl.runs.store import Store
from secl.setting_groups import merged
from secl.settings import ModelSettings, StreamSettings

GRID, RUNS = "grid", "runs"
NAME_LENGTH = 80
"""Most characters of a run's name before its hash."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep.

    Attributes:
        name: readable, and the same for the same settings; see `run_name`.
        settings: with absolute paths, see `secl.runs.settings.with_absolute_paths`.
        folder: run folder.
    """

    name: str
    settings: RunSettings
    folder: Path


OnProgress = Callable[[Job, int, int], None]
"""Called with a job, the number of its answered questions, and the number of its questions."""


def read_sweep(path: Path) -> list[dict[str, object]]:
    """The settings of every run in a sweep file by group; of several values for a setting, that of `[[runs]]` wins.

    Raises:
        DataError: the file cannot be read or is not TOML.
        ParameterError: an unknown setting, or a grid or runs of the wrong form.
    """
    common = read_toml(path)
    grid, variants = common.pop(GRID, {}), common.pop(RUNS, [{}])
    _check_tables(grid, variants)
    try:
        return combinations(common, grid, variants)
    except ParameterError as problem:
        raise ParameterError(f"in {path}, beside [{GRID}] and [[{RUNS}]], {problem}") from problem


def combinations(
    common: Mapping[str, object], grid: Mapping[str, Sequence[object]], variants: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """Every variant at every point of the grid by group, the last setting of the grid fastest.

    Raises:
        ParameterError: an unknown setting.

    >>> combinations({"seed": 1}, {"rank": [4, 8]}, [{}, {"tau": 0.7}])[1:3]
    [{'adapter': {'rank': 8}, 'seed': 1}, {'adapter': {'rank': 4}, 'seed': 1, 'evidence': {'tau': 0.7}}]
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [merged(merged(common, point), variant) for variant in variants for point in points]


def _check_tables(grid: object, variants: object) -> None:
    if not isinstance(grid, dict):
        raise ParameterError(f"{GRID} is {grid!r}; it must be a table of lists, as in [{GRID}] seed = [42, 43].")
    for field, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ParameterError(f"{field} in [{GRID}] is {values!r}; it must be a list of at least one value.")
    if not isinstance(variants, list) or not variants or not all(isinstance(variant, dict) for variant in variants):
        raise ParameterError(f"{RUNS} is {variants!r}; it must be tables of changes, each under its own [[{RUNS}]].")


def plan(settings: Sequence[Mapping[str, object]], out: Path) -> list[Job]:
    """Validate the settings of a sweep's runs, with paths as from here; equal settings are one run.

    Raises:
        ParameterError: an unknown key or an unusable value.
        RunError: `out` is a file.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; name a folder for the runs.")
    jobs: dict[str, Job] = {}
    for values in settings:
        run_settings = RunSettings.of(with_absolute_paths(values))
        name = run_name(run_settings)
        jobs.setdefault(name, Job(name, run_settings, out / name))
    return list(jobs.values())


def run_name(settings: RunSettings) -> str:
    """The name of a run folder: model, method, stream, what differs from the defaults, and eight digits of a hash.

    It depends on the settings alone, so that every sweep finds the run again. The folder of the data and the device
    make no difference.

    >>> run_name(RunSettings.of({"benchmarks": ["capitals:5", "arc"], "seed": 43, "tau": 0.7}))[:-8]
    'smollm2-secl-capitals-5-arc-tau=0.7-seed=43-'
    """
    flat = settings.flat()
    values = {key: value for key, value in flat.items() if key not in MACHINE_SETTINGS}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    stream = settings.stream
    parts = [Path(settings.model.name).name, settings.method, *stream.benchmarks, Path(stream.questions or "").stem]
    for key, value in settings.changed().items():
        if key not in ("model", "method", "benchmarks", "questions", *MACHINE_SETTINGS):
            parts.append(f"{key}={shown(key, value).replace(',', '+')}")
    slug = re.sub(r"[^\w.=+]+", "-", "-".join(filter(None, parts)), flags=re.ASCII)[:NAME_LENGTH].strip("-.")
    return f"{slug}-{digest[:8]}"


def progress_of(job: Job) -> tuple[int, int] | None:
    """The number of recorded questions of a job's run and of all its questions; None if it has not begun.

    Raises:
        RunError: the folder holds other files, or a run with other settings.
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
    """Whether the folder holds the complete run, with its summary.

    Raises:
        RunError: the folder holds other files, or a run with other settings.
    """
    progress = progress_of(job)
    if progress is None or progress[0] < progress[1]:
        return False
    # The summary is the last thing that a run writes, but a report of an unfinished run writes one, too.
    try:
        return bool(json.loads((job.folder / SUMMARY).read_text(encoding="utf-8"))["complete"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # it is made again from the records


def run_job(job: Job, progress: Progress | None = None) -> None:
    """Start or resume a job's run and finish it; a finished run is left as it is.

    Raises:
        SeclError: see `secl.runs.runner`.
    """
    if is_finished(job):
        return
    if (job.folder / FILE).exists():
        run = resume_run(job.folder, job.settings.to_json())
    else:
        run = start_run(job.settings, job.folder)
    with run.store:
        run.proceed(progress)
        run.finish()


def run_in_sequence(jobs: Sequence[Job], on_progress: OnProgress | None = None) -> None:
    """Do one run after the other in this process, those with the same model together; finished ones are left alone.

    Raises:
        SeclError: of the first run that fails; those before it are kept.
    """

    def progress_for(job: Job) -> Progress | None:
        return None if on_progress is None else lambda answered, total, _record: on_progress(job, answered, total)

    for job in grouped_by_model(jobs):
        try:
            run_job(job, progress_for(job))
        except SeclError as problem:
            raise type(problem)(f"the run {job.name}: {problem}") from problem


def grouped_by_model(jobs: Iterable[Job]) -> list[Job]:
    """The jobs with those that can share a loaded model next to each other, models in the order of their first job."""
    groups: dict[ModelSettings, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.settings.model, []).append(job)
    return list(itertools.chain.from_iterable(groups.values()))


def question_counts(jobs: Iterable[Job]) -> dict[str, int]:
    """The number of questions of each run, by its name; every stream is read once.

    Raises:
        SeclError: a stream or a question file that a run could not read either.
    """
    count_of_source: dict[StreamSettings, int] = {}
    counts = {}
    for job in jobs:
        source = job.settings.stream
        if source not in count_of_source:
            count_of_source[source] = len(load_questions(job.settings))
        counts[job.name] = count_of_source[source]
    return counts


def read_files(folder: Path) -> dict[str, bytes]:
    """The content of every file in a folder, by its path inside."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(job: Job, files: Mapping[str, bytes]) -> None:
    """Write a finished run from another machine into its folder, completely or not at all.

    An unfinished run in the folder is replaced, a finished one is kept.

    Raises:
        RunError: the files are no finished run of this job, or the folder is in use or holds something else.
        StorageError: the disk is full or refuses.
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
            raise RunError(f"the run {job.name} has come back unfinished; has its worker another version of secl?")
        if (job.folder / FILE).exists():
            with Store(job.folder, writable=True):  # refuses if somebody is writing it
                shutil.rmtree(job.folder)
        staging.rename(job.folder)
