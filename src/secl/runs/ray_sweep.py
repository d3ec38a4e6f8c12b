"""A sweep on Ray: every run is a task, which Ray restarts if its worker dies.

Settings determine the records of a run, so a restarted run has the same records. A worker uses a temporary folder of
its machine and returns the files of the run, so the machines need no shared disk. Only this process writes into the
sweep's folder, and it writes only complete runs.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from urllib.parse import urlsplit

from secl.errors import ParameterError, RunError, SeclError, check_whole, needs
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.sweep import (
    Job,
    OnProgress,
    groups,
    is_finished,
    progress_of,
    raise_first,
    read_files,
    run_job,
    write_files,
)
from secl.settings.groups import masked

RETRIES = 2
"""Maximum number of restarts of a run whose worker dies."""

LOCAL_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen on the loopback address only; read when Ray is imported
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # otherwise Ray writes a token into the home directory
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_oom_retries": str(RETRIES),  # otherwise unlimited
}
"""Environment variables for a Ray cluster on this machine. Variables that the user has set take precedence."""


def run_remotely(name: str, settings: dict[str, object], threads: int) -> dict[str, bytes]:
    """Finish a run as a Ray task, with settings as plain JSON, and return its files."""
    # PyTorch reads both variables when this worker's first run imports PyTorch.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with tempfile.TemporaryDirectory() as parent:
        job = Job(name, RunSettings.of(settings), Path(parent) / name)
        run_job(job)
        return read_files(job.folder)


def run_on_ray(
    jobs: Sequence[Job], address: str | None, *, workers: int | None = None, on_progress: OnProgress | None = None
) -> None:
    """Finish all runs on a Ray cluster. Interrupted runs start again from the first question.

    Args:
        address: "ray://HOST:PORT" of a Ray Client server. None uses the Ray of this process and leaves it
            running. If Ray does not run in this process, the call starts a cluster on this machine, and stops this
            cluster at its end. The cluster listens on the loopback address only, unless Ray was imported before.
        workers: number of parallel runs on a cluster that this call starts; None for 2.
        on_progress: called after each finished run.

    Raises:
        ParameterError: Ray is not installed, does not start, or cannot be reached at the address.
        RunError: a run's folder holds a run with other settings or other files, or is in use, or the connection to Ray
            is lost.
        SeclError: the first error of a failed run, raised after the other runs have ended.
    """
    workers = 2 if workers is None else workers
    check_whole("number of workers", workers, 1)
    waiting = [job for group in groups(jobs) for job in group if not is_finished(job)]
    for job in waiting:
        if progress_of(job) is not None:
            Store(job.folder, writable=True).close()  # raises a RunError if another process writes to the run
    if not waiting:
        return
    with _connect(address, workers) as ray:
        try:
            failures = _run_tasks(ray, waiting, None if address else workers, on_progress or (lambda *_: None))
        except ConnectionError as problem:
            raise RunError("the connection to Ray is lost; start the sweep again to go on.") from problem
    raise_first(failures)


def _run_tasks(ray: ModuleType, waiting: Sequence[Job], here: int | None, on_progress: OnProgress) -> list[SeclError]:
    """Finish the runs, and return the errors of failed runs.

    `here` is the number of parallel runs on this machine; None for a cluster with an address.
    """
    # Runs use as many threads as this process, because the last digits of records depend on the number.
    threads = int(importlib.import_module("torch").get_num_threads())
    room = max(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
    gpus = ray.cluster_resources().get("GPU", 0)
    cpus = 1 if here else max(1, min(threads, room))
    # All parallel runs on this machine share its GPUs. Ray counts shares in ten-thousandths.
    share = int(10_000 / math.ceil((here or 1) / gpus)) / 10_000 if gpus else 0.0
    task = ray.remote(max_retries=RETRIES, num_cpus=cpus, num_gpus=share)(run_remotely)
    running = {task.remote(job.name, job.settings.to_json(), threads): job for job in waiting}
    failures: list[SeclError] = []
    with _catch_interrupts() as interrupted:
        try:
            while running:
                if interrupted:
                    raise KeyboardInterrupt
                ended, _ = ray.wait(list(running), timeout=0.5)
                for result in ended:
                    failures += _collect(ray, result, running.pop(result), on_progress)
        finally:
            for result in running:
                with suppress(ConnectionError, ray.exceptions.RayError):
                    ray.cancel(result, force=True)
    return failures


@contextmanager
def _catch_interrupts() -> Iterator[list[int]]:
    """Yield a list that gets an entry for each Ctrl-C.

    The list is necessary because Python drops a KeyboardInterrupt that occurs inside a destructor of Ray.
    """
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def handler(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if callable(before):
            before(number, frame)

    with suppress(ValueError):  # only the main thread may set a signal handler
        signal.signal(signal.SIGINT, handler)
    try:
        yield seen
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


def _collect(ray: ModuleType, result: object, job: Job, on_progress: OnProgress) -> list[SeclError]:
    """Write the files of a finished task, or return its error."""
    try:
        files = ray.get(result)
    except ray.exceptions.RayTaskError as problem:
        if not isinstance(problem.cause, SeclError):
            raise
        return [type(problem.cause)(f"the run {job.name}: {problem.cause}")]
    except ray.exceptions.RayError as problem:
        attempts = f"Ray gave up after {RETRIES + 1} attempts ({_last_line(problem)})"
        return [RunError(f"the run {job.name}: {attempts}; is there enough memory for the run?")]
    write_files(job, files)
    on_progress(job, *(progress_of(job) or (0, 0)))
    return []


@contextmanager
def _connect(address: str | None, workers: int) -> Iterator[ModuleType]:
    """Connect to the cluster at an address, or start a cluster for the time of the block, and yield Ray's module."""
    options: dict[str, object] = {"address": address}
    if address is None:
        options = {"address": "local", "num_cpus": workers, "include_dashboard": False}
        os.environ.update({**LOCAL_ENVIRONMENT, **os.environ})
    try:
        ray = importlib.import_module("ray")
    except ImportError as problem:
        raise ParameterError(needs("a sweep on Ray", "ray", "ray")) from problem
    if address is None and ray.is_initialized():
        yield ray
        return
    try:
        if address is not None:
            url = urlsplit(address)  # fail early, because Ray would try to connect for half a minute
            socket.create_connection((url.hostname or "", url.port or 10001), timeout=10).close()
        ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, ImportError, ray.exceptions.RayError) as problem:
        # Causes: no server, another version of Ray or Python, a missing token, or too long a path of temporary files.
        reason = _last_line(problem)
        raise ParameterError(
            f"secl cannot start Ray on this machine ({reason}); leave --on ray out to run without Ray."
            if address is None
            else f"secl cannot connect to Ray at {masked(address)} ({reason}); give the address of a "
            "Ray Client server, as ray://HOST:PORT."
        ) from problem
    try:
        yield ray
    finally:
        ray.shutdown()


def _last_line(problem: Exception) -> str:
    """Return the last line of an error message, because messages of Ray are long."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[-1].rstrip(".")
