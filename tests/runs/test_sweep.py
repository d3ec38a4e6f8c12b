"""A sweep: which runs it is made of, where each lies, and that each is done once, whatever happens in between."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from secl.errors import RunError
from secl.records import Record
from secl.runs import runner
from secl.runs.runner import SUMMARY
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.sweep import (
    Job,
    is_finished,
    plan,
    progress_of,
    read_files,
    read_sweep,
    run_job,
    write_files,
)
from secl.settings.tree import nested
from tests.runs.conftest import stop_after

QUESTIONS = 12
STREAM = ["capitals:6", "science:6"]


def settings_of(model: Path, **changes: Any) -> RunSettings:
    """Of a run that learns."""
    learning = {"burst": 4, "warmup": 3, "threshold": 2.0, "bin_gate": "off", "learning_rate": 0.01}
    return RunSettings.of({"model": str(model), "benchmarks": STREAM, **learning, **changes})


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
        RunSettings.of(nested({**common, **point, **variant}))
        for variant in ({"method": "baselines"}, {"gate": "page-hinkley", "burst": 9, "per_domain": 30})
        for point in points
    ]


def test_equal_settings_are_one_job(tmp_path: Path) -> None:
    common: dict[str, Any] = {"benchmarks": ["capitals:2"]}
    same: tuple[dict[str, Any], ...] = ({}, {"seed": 42}, {"rank": 8}, {"seed": 43}, {"seed": 42})
    jobs = plan([RunSettings.of({**common, **changes}) for changes in same], tmp_path)
    assert [job.settings.seed for job in jobs] == [42, 43]
    assert [job.folder for job in jobs] == [tmp_path / job.name for job in jobs]


# What a run is called, and how it is found again.


QUIZ = {"benchmarks": ["capitals:12"], "p_true": "token", "p_true_prompt": "paper"}  # what all runs below share


def names_of(*changes: dict[str, Any], out: Path) -> list[str]:
    """The names of runs over the quiz."""
    return [job.name for job in plan([RunSettings.of({**QUIZ, **each}) for each in changes], out)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{"beta": 0.0}, {"beta": 0.01}, {"beta": 0.1}], ["beta=0.0", "beta=0.01", "beta=0.1"]),
        ([{}, {}, {"seed": 7}, {"bin_gate": "off"}], ["smollm2-secl", "seed=7", "bin_gate=off"]),
        ([{}, {"method": "baselines", "model": "x/Other-1B"}], ["smollm2-secl", "Other-1B-baselines"]),
        ([{"method": "secl-paper"}, {}], ["secl-paper", "secl"]),  # not all that the method implies
        ([{"gate": "always"}, {"gate": "/home/me/mine.py:MyGate"}], ["gate=always", "gate=MyGate"]),
        ([{"modules": ["q_proj"]}, {"modules": ["q_proj", "v_proj"]}], ["modules=q_proj", "modules=q_proj+v_proj"]),
        ([{"seed": 2**63 - 2}, {"seed": 2**63 - 1}], [f"seed={2**63 - 2}", f"seed={2**63 - 1}"]),
    ],
    ids=str,
)
def test_a_name_says_what_a_run_has_unlike_the_others_and_nothing_that_they_share(
    changes: list[dict[str, Any]], expected: list[str], tmp_path: Path
) -> None:
    names = names_of(*changes, out=tmp_path)
    assert [re.fullmatch(r"(.*)-[0-9a-f]{8}", name)[1] for name in names] == expected  # type: ignore[index]
    assert len({name[-8:] for name in names}) == len(names)
    assert names_of(*changes, out=tmp_path) == names


def test_a_name_is_short_however_much_is_unlike(tmp_path: Path) -> None:
    much = {"method": "baselines", "benchmarks": ["capitals:5", "science:7", "arithmetic:9"], "order": "reversed"}
    names = names_of({}, {**much, "seed": 1, "tau": 0.3}, {**much, "seed": 1, "tau": 0.4}, out=tmp_path)
    assert len(set(names)) == 3
    assert max(map(len, names)) < 60


def test_a_run_that_is_there_is_found_again_when_the_grid_grows(tmp_path: Path) -> None:
    first, second = plan([RunSettings.of({**QUIZ, "tau": 0.4, "seed": seed}) for seed in (1, 2)], tmp_path)
    Store.create(first.folder, {"settings": first.settings.to_json(), "total": 12}).close()
    grown = [RunSettings.of({**QUIZ, "tau": tau, "seed": seed}) for tau in (0.4, 0.5) for seed in (1, 2)]
    jobs = plan(grown, tmp_path)
    assert (jobs[0], progress_of(jobs[0])) == (first, (0, 12))
    assert jobs[1].name != second.name  # it had not begun
    assert [job.name[-8:] for job in jobs[:2]] == [first.name[-8:], second.name[-8:]]
    assert progress_of(jobs[1]) is None
    renamed = first.folder.rename(tmp_path / f"mine-{first.name[-8:]}")
    assert plan(grown, tmp_path)[0].folder == renamed


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
