"""Many runs from one file: which runs a sweep is made of, which of them are done, and doing the rest one by one.

A sweep file is a recipe in TOML with two more tables. `[grid]` maps fields of `RunSettings` to lists, of which all
combinations are run; `[[runs]]` are variants, each a few changes. With both, every variant meets every combination:

    stream = ["mmlu", "arc"]
    [grid]
    seed = [42, 43]
    order = ["forward", "reversed"]
    [[runs]]
    method = "baselines"
    [[runs]]
    gate = "page-hinkley"
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import itertools
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from secl.errors import ParameterError, RunError, SeclError, StorageError
from secl.runs.runner import SUMMARY, Progress, load_questions, resume, start
from secl.runs.settings import RunSettings, anchored, read_toml
from secl.runs.store import FILE, Store, check_free

GRID, RUNS = "grid", "runs"
WHERE = ("data", "device")
"""Fields that say where a run happens and not what it is; see `RunSettings.differences`."""

LONGEST = 80
"""Characters of a run's name before its hash."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep.

    Attributes:
        name: readable, and the same for the same recipe; see `name_of`.
        recipe: with absolute paths, see `secl.runs.settings.anchored`.
        folder: of the run.
    """

    name: str
    recipe: RunSettings
    folder: Path


Watch = Callable[[Job, int, int], None]
"""Called with a job, its questions done, and its questions in all."""


def read_sweep(path: Path) -> list[dict[str, Any]]:
    """The settings of every run in a sweep file, not yet checked; later tables win: common, `[grid]`, `[[runs]]`.

    Raises:
        DataError: the file cannot be read or is not TOML.
        ParameterError: an unknown key, or a grid or runs of the wrong form.
    """
    common = read_toml(path)
    grid, variants = common.pop(GRID, {}), common.pop(RUNS, [{}])
    known = [GRID, RUNS, *(field.name for field in dataclasses.fields(RunSettings))]
    _check_tables(grid, variants)
    for key in itertools.chain(common, grid, *variants):
        if key not in known:
            raise ParameterError(f"the sweep {path} has the unknown key {key!r}; the keys are {', '.join(known)}.")
    return combinations(common, grid, variants)


def combinations(
    common: dict[str, Any], grid: dict[str, Sequence[Any]], variants: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Every variant at every point of the grid, the last field of the grid fastest.

    >>> combinations({"rank": 4}, {"seed": [1, 2]}, [{}, {"rank": 8}])
    [{'rank': 4, 'seed': 1}, {'rank': 4, 'seed': 2}, {'rank': 8, 'seed': 1}, {'rank': 8, 'seed': 2}]
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [{**common, **point, **variant} for variant in variants for point in points]


def _check_tables(grid: Any, variants: Any) -> None:
    if not isinstance(grid, dict):
        raise ParameterError(f"{GRID} is {grid!r}; it must be a table of lists, as in [{GRID}] seed = [42, 43].")
    for field, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ParameterError(f"{field} in [{GRID}] is {values!r}; it must be a list of at least one value.")
    if not isinstance(variants, list) or not variants or not all(isinstance(variant, dict) for variant in variants):
        raise ParameterError(f"{RUNS} is {variants!r}; it must be tables of changes, each under its own [[{RUNS}]].")


def plan(settings: Sequence[dict[str, Any]], out: Path) -> list[Job]:
    """The runs of a sweep, checked; settings that come to the same recipe are one run.

    Args:
        settings: of each run; paths in them are relative to the working directory.
        out: folder that holds the run folders.

    Raises:
        ParameterError: an unknown key or an unusable value.
        RunError: `out` is a file.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; name a folder for the runs.")
    jobs: dict[str, Job] = {}
    for given in settings:
        recipe = RunSettings.from_json(anchored(given))
        name = name_of(recipe)
        jobs.setdefault(name, Job(name, recipe, out / name))
    return list(jobs.values())


def name_of(recipe: RunSettings) -> str:
    """What a run folder is called: model, method, what the recipe changes, and eight digits of its hash.

    It depends on nothing but the recipe, so that every sweep finds the run again. Where the data lie and the device
    make no difference.

    >>> name_of(RunSettings(stream=("capitals:5", "arc"), seed=43, tau=0.7))[:-8]
    'smollm2-secl-capitals-5-arc-tau=0.7-seed=43-'
    """
    plain = {key: _plain(value) for key, value in recipe.to_json().items() if key not in WHERE}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    defaults = {field.name: field.default for field in dataclasses.fields(RunSettings)}
    shown = ("model", "method", "stream", "questions")
    parts = [Path(recipe.model).name, recipe.method, *recipe.stream]
    parts += [Path(recipe.questions).stem] if recipe.questions else []
    for key, value in plain.items():
        if key not in shown and getattr(recipe, key) != defaults[key]:
            parts.append(f"{key}={'+'.join(value) if isinstance(value, list) else value}")
    slug = re.sub(r"[^\w.=+]+", "-", "-".join(parts), flags=re.ASCII)[:LONGEST].strip("-.")
    return f"{slug}-{digest[:8]}"


def _plain(value: Any) -> Any:
    """A TOML file may say 16 or 16.0 for the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def asked(job: Job) -> tuple[int, int] | None:
    """How many questions of a job's run are recorded, and how many it has; None if it has not begun.

    Raises:
        RunError: the folder holds other files, or a run of another recipe.
    """
    if not (job.folder / FILE).exists():
        check_free(job.folder)
        return None
    with Store(job.folder) as store:
        differences = RunSettings.from_json(store.manifest["recipe"]).differences(job.recipe)
        if differences:
            raise RunError(
                f"{job.folder} holds a run with other settings ({'; '.join(differences)}); move it away or name "
                f"another folder for the sweep."
            )
        return len(store), int(store.manifest["total"])


def finished(job: Job) -> bool:
    """Whether a complete run of exactly this recipe is there.

    Raises:
        RunError: the folder holds other files, or a run of another recipe.
    """
    found = asked(job)
    if found is None or found[0] < found[1]:
        return False
    # The summary is the last thing that a run writes, but a report of an unfinished run writes one, too.
    try:
        return bool(json.loads((job.folder / SUMMARY).read_text(encoding="utf-8"))["complete"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # it is made again from the records


def perform(job: Job, progress: Progress | None = None) -> None:
    """Start a job's run, or go on with it, and finish it; nothing if it is finished.

    Raises:
        SeclError: whatever stands in the way of the run; see `secl.runs.runner`.
    """
    if finished(job):
        return
    begun = (job.folder / FILE).exists()
    run = resume(job.folder, job.recipe.to_json()) if begun else start(job.recipe, job.folder)
    with run.store:
        run.proceed(progress)
        run.finish()


def perform_all(jobs: Sequence[Job], watch: Watch | None = None) -> None:
    """Do one run after the other in this process, the runs of a model together; finished ones are left as they are.

    Raises:
        SeclError: of the first run that cannot be done; those before it stay.
    """
    for job in by_model(jobs):
        try:
            perform(job, None if watch is None else _progress(job, watch))
        except SeclError as problem:
            raise type(problem)(f"the run {job.name}: {problem}") from problem


def _progress(job: Job, watch: Watch) -> Progress:
    return lambda done, total, _record: watch(job, done, total)


def weights_of(recipe: RunSettings) -> tuple[str, str, str]:
    """What two runs must have in common to use the same loaded model: its name, its type and the device."""
    return recipe.model, recipe.dtype, recipe.device


def by_model(jobs: Iterable[Job]) -> list[Job]:
    """The jobs with those of the same model next to each other, in the order in which the models appear."""
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault(weights_of(job.recipe), []).append(job)
    return list(itertools.chain.from_iterable(groups.values()))


def sizes(jobs: Iterable[Job]) -> dict[str, int]:
    """How many questions each run asks, by name; every stream is read once.

    Raises:
        SeclError: a stream or a question file that a run could not read either.
    """
    read: dict[tuple[Any, ...], int] = {}
    found = {}
    for job in jobs:
        recipe = job.recipe
        source = (recipe.stream, recipe.questions, recipe.per_domain, recipe.data)
        if source not in read:
            read[source] = len(load_questions(recipe))
        found[job.name] = read[source]
    return found


def packed(folder: Path) -> bytes:
    """A finished run folder as a zip archive."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        for path in sorted(folder.rglob("*")):
            files.write(path, path.relative_to(folder))
    return archive.getvalue()


def unpack(archive: bytes, job: Job) -> None:
    """Put a finished run into its folder, whole or not at all; one that is finished there already stays.

    Raises:
        RunError: the archive holds no finished run of this job, or the folder is in use or holds something else.
        StorageError: the disk is full or refuses.
    """
    if finished(job):
        return
    new, old = (job.folder.with_name(f".{job.folder.name}.{end}") for end in ("new", "old"))
    try:
        for place in (new, old):
            shutil.rmtree(place, ignore_errors=True)
        new.mkdir(parents=True)
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            files.extractall(new)
        if not finished(replace(job, folder=new)):
            raise RunError(f"the worker of {job.name} has sent an unfinished run; has it another version of secl?")
        if (job.folder / FILE).exists():
            with Store(job.folder, writable=True):
                job.folder.rename(old)
                new.rename(job.folder)
            shutil.rmtree(old)
        else:
            new.rename(job.folder)
    except OSError as problem:
        raise StorageError(
            f"cannot write {job.folder}: {problem.strerror or problem}; free space or permissions, then start the "
            f"sweep again."
        ) from problem
