"""A sweep: which runs it is made of, where each lies, and that each is done once, whatever happens in between."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from secl import Record, RunSettings, Store
from secl.errors import RunError
from secl.runs import runner
from secl.runs.runner import SUMMARY
from secl.runs.sweep import (
    Job,
    is_finished,
    plan,
    progress_of,
    read_files,
    read_sweep,
    run_job,
    write_files,
    write_index,
)
from tests.runs.conftest import LEARNING, stop_after

QUESTIONS = 12
STREAM = ["capitals:6", "science:6"]


def job_of(model: Path, out: Path) -> Job:
    """One that learns."""
    return plan([RunSettings.of({"model.name": str(model), "stream.benchmarks": STREAM, **LEARNING})], out)[0]


def records_of(job: Job) -> list[Record]:
    with Store(job.folder) as store:
        return list(store.records())


# What a sweep is made of.


def test_a_sweep_is_every_variant_at_every_point_of_its_grid(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'stream = {benchmarks = ["mmlu", "arc"], per_domain = 20}\n'
        '[grid]\nseed = [42, 43]\nstream.order = ["forward", "reversed"]\n'
        '[[runs]]\nmethod = "baselines"\n'
        '[[runs]]\nmethod = "secl"\ngate = {name = "page-hinkley", burst = 9}\nstream.per_domain = 30\n'
    )
    common = {"stream.benchmarks": ["mmlu", "arc"], "stream.per_domain": 20}
    points = [{"seed": seed, "stream.order": order} for seed in (42, 43) for order in ("forward", "reversed")]
    assert read_sweep(path) == [
        RunSettings.of({**common, **point, **variant})
        for variant in (
            {"method": "baselines"},
            {"method": "secl", "gate.name": "page-hinkley", "gate.burst": 9, "stream.per_domain": 30},
        )
        for point in points
    ]


QUIZ = {"stream.benchmarks": ["capitals:12"], "paper": True}


def test_equal_settings_are_one_job_and_a_run_is_found_again_when_the_grid_grows(tmp_path: Path) -> None:
    def planned(*changes: dict[str, Any]) -> list[Job]:
        return plan([RunSettings.of({**QUIZ, **each}) for each in changes], tmp_path)

    jobs = planned({}, {"seed": 42}, {"adapter.rank": 8}, {"seed": 43}, {"seed": 42})
    assert [job.settings.seed for job in jobs] == [42, 43]
    assert [job.folder for job in jobs] == [tmp_path / job.name for job in jobs]
    first, second = planned(*({"evidence.tau": 0.4, "seed": seed} for seed in (1, 2)))
    Store.create(first.folder, {"settings": first.settings.to_json(), "total": 12}).close()
    jobs = planned(*({"evidence.tau": tau, "seed": seed} for tau in (0.4, 0.5) for seed in (1, 2)))
    assert (jobs[0].folder, progress_of(jobs[0])) == (first.folder, (0, 12))
    assert (jobs[1].folder, progress_of(jobs[1])) == (second.folder, None)


def test_a_folder_is_named_after_its_settings_and_the_index_tells_them(tmp_path: Path) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"method": "baselines", "model.name": "x/Other 1B"},
        {"adapter.modules": ["q_proj"], "stream.data": "d"},
    )
    jobs = plan([RunSettings.of({**QUIZ, **each}) for each in changes], tmp_path)
    names = [re.fullmatch(r"(.*)-[0-9a-f]{8}", job.name)[1] for job in jobs]  # type: ignore[index]
    assert names == ["smollm2-posterior", "Other-1B-baselines", "smollm2-posterior"]
    assert len({job.name for job in jobs}) == 3
    assert jobs[2].apart == "model.name smollm2, method posterior, adapter.modules q_proj"
    write_index(jobs[:2], tmp_path)
    write_index(jobs[2:], tmp_path)  # a later, larger sweep
    assert json.loads((tmp_path / "runs.json").read_text()) == {job.name: job.apart for job in jobs}


# Doing the runs.


@pytest.fixture(scope="module")
def done(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A finished job."""
    job = job_of(tiny_llama, tmp_path_factory.mktemp("sweep"))
    run_job(job)
    return job


def test_an_interrupted_job_goes_on_to_the_same_records(done: Job, tiny_llama: Path, tmp_path: Path) -> None:
    job = job_of(tiny_llama, tmp_path)
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


def test_a_finished_job_or_another_s_folder_is_not_touched(
    done: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "load_model", lambda recipe: pytest.fail("a model was loaded"))
    before = read_files(done.folder)
    run_job(done)
    assert read_files(done.folder) == before
    settings = RunSettings.of({"model.name": done.settings.model.name, "stream.benchmarks": ("capitals:2",), "seed": 7})
    other = Job(done.name, settings, done.folder)
    for call in (is_finished, run_job):
        with pytest.raises(RunError, match=r"holds a run with other settings \(.*seed: 42 there, 7 here"):
            call(other)
    assert read_files(done.folder) == before
    full = Job("full", other.settings, tmp_path / "full")
    full.folder.mkdir()
    (full.folder / "letter").touch()
    with pytest.raises(RunError, match="not empty"):
        run_job(full)


# A finished folder that came from somewhere else.


def test_a_finished_run_from_elsewhere_replaces_an_unfinished_one(done: Job, tmp_path: Path, tiny_llama: Path) -> None:
    job, other = job_of(tiny_llama, tmp_path / "a"), job_of(tiny_llama, tmp_path / "b")
    with pytest.raises(KeyboardInterrupt):
        run_job(job, stop_after(3))
    with pytest.raises(RunError, match="has come back unfinished"):
        write_files(other, read_files(job.folder))
    assert not other.folder.exists()
    write_files(job, read_files(done.folder))
    assert is_finished(job)
    assert read_files(job.folder) == read_files(done.folder)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [job.name]
