"""A sweep: which runs it is made of, where each lies, and that each is done once, whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from secl.errors import RunError
from secl.records import Record
from secl.runs import runner, sweep
from secl.runs.runner import SUMMARY
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.sweep import (
    Job,
    grouped_by_model,
    is_finished,
    plan,
    progress_of,
    read_files,
    read_sweep,
    run_in_sequence,
    run_job,
    run_name,
    write_files,
)
from secl.setting_groups import nested
from tests.runs.conftest import stop_after

QUESTIONS = 12
STREAM = ["capitals:6", "science:6"]


def settings_of(model: Path, **changes: Any) -> dict[str, Any]:
    """Of a run that learns."""
    learning = {"burst": 4, "warmup": 3, "threshold": 2.0, "bin_gate": "off", "learning_rate": 0.01}
    return {"model": str(model), "benchmarks": STREAM, **learning, **changes}


def records_of(job: Job) -> list[Record]:
    with Store(job.folder) as store:
        return list(store.records())


# What a sweep is made of.


def test_a_sweep_is_every_variant_at_every_point_of_its_grid(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'benchmarks = ["mmlu", "arc"]\nper_domain = 20\n'
        '[grid]\nseed = [42, 43]\norder = ["forward", "reversed"]\n'
        '[[runs]]\nmethod = "baselines"\n[[runs]]\ngate = {name = "page-hinkley", burst = 9}\nper_domain = 30\n'
    )
    common = {"benchmarks": ["mmlu", "arc"], "per_domain": 20}
    points = [{"seed": seed, "order": order} for seed in (42, 43) for order in ("forward", "reversed")]
    assert read_sweep(path) == [
        nested({**common, **point, **variant})
        for variant in ({"method": "baselines"}, {"gate": "page-hinkley", "burst": 9, "per_domain": 30})
        for point in points
    ]


def test_equal_settings_are_one_job(tmp_path: Path) -> None:
    common: dict[str, Any] = {"benchmarks": ["capitals:2"]}
    jobs = plan(
        [common, {**common, "seed": 42}, {**common, "rank": 8}, {**common, "seed": 43}, {**common, "seed": 42}],
        tmp_path,
    )
    assert [job.settings.seed for job in jobs] == [42, 43]
    assert [job.folder for job in jobs] == [tmp_path / job.name for job in jobs]


# What a run is called.


@pytest.mark.parametrize(
    "changes",
    [
        {"sampled": ("capitals",)},
        {"seed": 2**63 - 2},  # no float tells it from its neighbour
        {"method": "baselines"},
        {"modules": ("q_proj",)},
        {"tau": 1.0},
    ],
    ids=str,
)
def test_any_other_setting_changes_the_name_and_shows_in_it(changes: dict[str, Any]) -> None:
    name = run_name(RunSettings.of({"benchmarks": ("capitals",), **changes}))
    others = [
        run_name(RunSettings.of({"benchmarks": ("capitals",)})),
        run_name(RunSettings.of({"benchmarks": ("capitals",), "seed": 2**63 - 1})),
    ]
    assert name[-8:] not in [other[-8:] for other in others]
    assert name[:-8] not in [other[:-8] for other in others]


# Doing the runs.


@pytest.fixture(scope="module")
def done(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A finished job."""
    job = plan([settings_of(tiny_llama)], tmp_path_factory.mktemp("sweep"))[0]
    run_job(job)
    return job


def test_a_job_that_was_interrupted_goes_on_and_has_the_records_of_one_that_was_not(
    done: Job, tiny_llama: Path, tmp_path: Path
) -> None:
    job = plan([settings_of(tiny_llama)], tmp_path)[0]
    assert (progress_of(job), is_finished(job)) == (None, False)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, stop_after(7))
    assert (progress_of(job), is_finished(job)) == ((7, QUESTIONS), False)
    run_job(job)
    assert (progress_of(job), is_finished(job)) == ((QUESTIONS, QUESTIONS), True)
    (job.folder / SUMMARY).write_text("{")  # a summary is made from the records, so it is made again
    assert not is_finished(job)
    run_job(job)
    assert is_finished(job)
    assert records_of(job) == records_of(done)
    assert any(record.update for record in records_of(job))


def test_a_finished_job_is_not_touched_and_loads_no_model(done: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_model", lambda recipe: pytest.fail("a model was loaded"))
    before = read_files(done.folder)
    run_job(done)
    assert read_files(done.folder) == before


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(done: Job, tmp_path: Path) -> None:
    settings = RunSettings.of({"model": done.settings.model.name, "benchmarks": ("capitals:2",), "seed": 7})
    other = Job(done.name, settings, done.folder)
    before = read_files(done.folder)
    for call in (is_finished, run_job):
        with pytest.raises(RunError, match=r"holds a run with other settings \(.*seed: 42 there, 7 here"):
            call(other)
    assert read_files(done.folder) == before
    full = Job("full", other.settings, tmp_path / "full")
    full.folder.mkdir()
    (full.folder / "letter").touch()
    with pytest.raises(RunError, match="not empty"):
        run_job(full)


def test_runs_of_a_model_are_done_together_in_the_order_of_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [
        {"benchmarks": ["capitals:2"], "seed": seed, "model": model} for seed in (1, 2) for model in ("x/b", "x/a")
    ]
    jobs = plan(settings, tmp_path)
    order: list[tuple[str, int]] = []

    def scripted(job: Job, progress: Any) -> None:
        order.append((job.settings.model.name, job.settings.seed))
        progress(1, 2, None)

    monkeypatch.setattr(sweep, "run_job", scripted)
    reports: list[tuple[str, int, int]] = []
    run_in_sequence(jobs, lambda job, done, total: reports.append((job.name, done, total)))
    assert order == [("x/b", 1), ("x/b", 2), ("x/a", 1), ("x/a", 2)]
    assert reports == [(job.name, 1, 2) for job in grouped_by_model(jobs)]


# A finished folder that came from somewhere else.


def test_a_run_from_elsewhere_replaces_an_unfinished_one(done: Job, tmp_path: Path, tiny_llama: Path) -> None:
    job = plan([settings_of(tiny_llama)], tmp_path)[0]
    with pytest.raises(KeyboardInterrupt):
        run_job(job, stop_after(3))
    write_files(job, read_files(done.folder))
    assert is_finished(job)
    assert read_files(job.folder) == read_files(done.folder)
    assert [path.name for path in tmp_path.iterdir()] == [job.name]


def test_an_unfinished_run_from_elsewhere_is_refused(done: Job, tmp_path: Path, tiny_llama: Path) -> None:
    job = plan([settings_of(tiny_llama)], tmp_path / "a")[0]
    with pytest.raises(KeyboardInterrupt):
        run_job(job, stop_after(3))
    other = plan([settings_of(tiny_llama)], tmp_path / "b")[0]
    with pytest.raises(RunError, match="has come back unfinished"):
        write_files(other, read_files(job.folder))
    assert not other.folder.exists()
