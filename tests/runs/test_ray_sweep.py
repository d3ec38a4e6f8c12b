"""A sweep on Ray has the records of runs one by one, even if workers die, or is refused before Ray starts."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import torch

from secl.errors import ParameterError, RunError, SeclError
from secl.runs import RunSettings, Store
from secl.runs.folder import FILE
from secl.runs.ray_sweep import LOCAL_ENVIRONMENT, run_on_ray
from secl.runs.sweep import Job, is_finished, plan, read_files, run_here, run_job
from tests.answers import stored
from tests.runs.conftest import LEARNING, stop_after
from tests.server.waiting import until
from tests.tiny import tiny_folder

NEEDS_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    return [tiny_folder(folder / "llama"), tiny_folder(folder / "qwen", "qwen2")]


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Two workers on this machine, for all tests that need no cluster of their own."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="secl-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        # Manifests name the threads: the workers must take those of this process and not those of their environment.
        threads = str(torch.get_num_threads() + 1)
        os.environ.update({**LOCAL_ENVIRONMENT, "RAY_TMPDIR": folder, "TMPDIR": folder, "OMP_NUM_THREADS": threads})
        import ray

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        yield ray
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)


def grid(models: list[Path], out: Path) -> list[Job]:
    """A run that learns and one that does not, for each model."""
    stream = ["capitals:8", "science:8"]
    return plan(
        [
            RunSettings.of({"model.name": str(model), "stream.benchmarks": stream, **changes})
            for model in models
            for changes in (LEARNING, {"method": "norm_p_true"})
        ],
        out,
    )


@pytest.fixture(scope="module")
def references(models: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    """The runs of the grid, done one after the other in this process."""
    jobs = grid(models, tmp_path_factory.mktemp("references"))
    run_here(jobs)
    assert any(record.update for record in stored(jobs[0].folder))
    return jobs


def assert_same(jobs: list[Job], references: list[Job]) -> None:
    """The same records, manifests and files, and nothing else in the folder of the sweep."""
    for job, reference in zip(jobs, references, strict=True):
        assert is_finished(job)
        assert stored(job.folder) == stored(reference.folder)
        with Store(job.folder) as store, Store(reference.folder) as other:
            assert {**store.manifest, "created": None} == {**other.manifest, "created": None}
        assert read_files(job.folder).keys() == read_files(reference.folder).keys()
    assert sorted(path.name for path in jobs[0].folder.parent.iterdir()) == sorted(job.name for job in jobs)


@pytest.mark.slow
def test_two_workers_give_the_same_records(ray: Any, models: list[Path], references: list[Job], tmp_path: Path) -> None:
    jobs = grid(models, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_job(jobs[0], stop_after(3))  # an unfinished run is replaced
    run_job(jobs[1])  # a finished one is not
    inode = (jobs[1].folder / "run.sqlite").stat().st_ino
    reports: set[tuple[str, int, int]] = set()
    run_on_ray(jobs, None, on_progress=lambda job, answered, total: reports.add((job.name, answered, total)))
    assert_same(jobs, references)
    assert (jobs[1].folder / "run.sqlite").stat().st_ino == inode
    assert reports == {(job.name, 16, 16) for job in (jobs[0], *jobs[2:])}
    assert ray.is_initialized()


def kill_worker_of(name: str, killed: list[int]) -> None:
    """Kill the worker of a run once, in the middle; only among the processes below this one."""
    while not killed:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, SeclError):
                files = [Path(file.path) for file in process.open_files() if name in file.path]
                run = next((file.parent for file in files if file.name == FILE), None)
                if process.name().startswith("ray::run_") and run is not None:
                    with Store(run) as store:
                        middle = 5 < len(store) < 60
                    if middle:
                        killed.append(process.pid)
                        os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_worker_loses_or_doubles_nothing(ray: Any, models: list[Path], tmp_path: Path) -> None:
    settings = [
        RunSettings.of({"model.name": str(models[0]), "stream.benchmarks": ["capitals:40", "science:40"], **LEARNING}),
        RunSettings.of({"model.name": str(models[0]), "stream.benchmarks": ["capitals:8"], "method": "norm_p_true"}),
    ]
    here, there = (plan(settings, tmp_path / name) for name in ("here", "there"))
    run_here(here)
    killed: list[int] = []
    threading.Thread(target=kill_worker_of, args=(there[0].name, killed), daemon=True).start()
    run_on_ray(there, None)
    assert len(killed) == 1
    assert_same(there, here)


def listening(process: psutil.Process) -> set[str]:
    """Addresses on which a process and its children wait for connections."""
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for member in (process, *process.children(recursive=True))
        for connection in member.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


@contextmanager
def shell_sweep(grid: Path, out: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """`secl sweep` on Ray in a session of its own, as a terminal would start it, when a worker is there."""
    secl = (sys.executable, "-c", "from secl.cli import main; main()")
    process = subprocess.Popen(
        (*secl, "sweep", str(grid), "--out", str(out), "--on", "ray"),
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    family = psutil.Process(process.pid)
    try:
        until(lambda: any(member.name().startswith("ray::run_") for member in family.children(recursive=True)))
        yield process, family
    finally:
        process.kill()


def without_progress(error: str) -> str:
    """Return standard error without lines of progress."""
    lines = error.splitlines(keepends=True)
    return "".join(line for line in lines if not re.fullmatch(r"\d+( of \d+)? questions, .*\n", line))


@NEEDS_RAY
@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_the_same_command_goes_on(models: list[Path], tmp_path: Path) -> None:
    path, out = tmp_path / "sweep.toml", tmp_path / "out"
    # Reasoned answers come first: they take so long that the run cannot end before it is stopped.
    path.write_text(f'model.name = "{models[0]}"\nstream.benchmarks = ["arithmetic:5", "capitals:8"]')
    with shell_sweep(path, out) as (stopped, family):
        os.killpg(stopped.pid, signal.SIGINT)
        members = family.children(recursive=True)
        error = without_progress(stopped.communicate(timeout=60)[1])
    assert stopped.returncode == 2, error
    assert error.startswith("secl: stopped with 0 of 1 runs finished; the same command continues")
    assert error.count("\n") == 1
    assert psutil.wait_procs(members, timeout=30)[1] == []
    with shell_sweep(path, out) as (resumed, family):
        assert listening(family) == {"127.0.0.1"}
        printed, error = resumed.communicate(timeout=300)
    assert (resumed.returncode, without_progress(error)) == (0, "")
    assert "run folders: " in printed


def test_what_ray_cannot_run_is_refused(tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionAbortedError("Initialization failure:\nTraceback\n  ...\nRuntimeError: Version mismatch.\n\n")

    errors = SimpleNamespace(RayError=type("RayError", (Exception,), {}))
    jobs = plan([RunSettings.of({"model.name": str(tiny_llama), "stream.benchmarks": ["capitals:5"]})], tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"ray://127.0.0.1:{server.getsockname()[1]}"
        for ray, address, said in (
            (None, None, r"a sweep on Ray needs ray; run: pip install .*\[ray\]"),
            (init, here, rf"secl cannot connect to Ray at {here} \(RuntimeError: Version mismatch\);"),
            *(
                (init, address, rf"secl cannot connect to Ray at {address} \(.*\); give the .* ray://HOST:PORT")
                for address in ("ray://127.0.0.1:1", "ray://here:often")
            ),
        ):
            there = None if ray is None else SimpleNamespace(init=init, exceptions=errors)
            monkeypatch.setitem(sys.modules, "ray", there)
            with pytest.raises(ParameterError, match=f"^{said}"):
                run_on_ray(jobs, address)
    with pytest.raises(KeyboardInterrupt):
        run_job(jobs[0], stop_after(1))
    with Store(jobs[0].folder, writable=True), pytest.raises(RunError, match="in use by another process"):
        run_on_ray(jobs, None)
