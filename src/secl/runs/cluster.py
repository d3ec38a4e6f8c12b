"""A sweep on Ray: processes that keep a model each, whole runs handed out to them, finished run folders sent back.

A run is a pure function of its recipe, so the run of a lost worker is simply done again by another. The driver (the
process that calls `perform_on_ray`) alone writes into the folders of the sweep, and a folder appears there finished or
not at all; workers may be on machines that share no disk with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import secrets
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from secl.errors import ParameterError, RunError, SeclError
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.sweep import Job, Watch, asked, by_model, finished, packed, perform, unpack, weights_of
from secl.validation import check_whole

WORKERS = 2
"""Of a cluster that is started here, unless told otherwise."""

LOSSES = 3
"""Workers that a run may lose; then it is taken for the run's own fault, such as a lack of memory."""

PAUSE = 0.5
"""Seconds between two looks at what the workers have done."""

LOCAL_SETTINGS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen on the loopback address only
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else Ray leaves one in the home directory, for everyone to read
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # what Ray would print into the progress bar
}
"""Environment of a Ray cluster that is started here; what the user has set stands."""


class Resident:
    """What lives in a worker: it keeps its model loaded and does one run at a time.

    Args:
        threads: of PyTorch, since the last digits of records depend on them.
        place: folder for unfinished runs; None for the machine's own.
    """

    def __init__(self, threads: int, place: str | None) -> None:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # read when PyTorch is first imported, by the first run
        self._place = place
        self._asked = ("", 0, 0)

    def work(self, name: str, settings: dict[str, Any]) -> bytes:
        """Do a run from its first question to its summary, and give its folder as bytes.

        Raises:
            SeclError: what stands in the way of the run on this machine.
        """
        with tempfile.TemporaryDirectory(dir=self._place) as place:
            job = Job(name, RunSettings.from_json(settings), Path(place) / name)
            perform(job, lambda done, total, _record: self._note(name, done, total))
            return packed(job.folder)

    def _note(self, name: str, done: int, total: int) -> None:
        self._asked = (name, done, total)

    def asked(self) -> tuple[str, int, int]:
        """The run at work, its questions done, and its questions in all; callable during `work`."""
        return self._asked


@dataclass(frozen=True)
class Worker:
    """A worker at work: Ray's handle of it, its job, and the promise of the job's folder."""

    actor: Any
    job: Job
    result: Any


def perform_on_ray(
    jobs: Sequence[Job], address: str | None, *, workers: int | None = None, watch: Watch | None = None
) -> None:
    """Do the runs that are not finished on a Ray cluster.

    A model's first worker comes before another model's second. Unfinished runs in the folders of jobs are done afresh
    and replaced.

    Args:
        jobs: of `secl.runs.sweep.plan`.
        address: "ray://HOST:PORT" of a cluster's client server. None takes the Ray that this process has started or
            connected to, and leaves it running; without one it starts a cluster on this machine, which listens on the
            loopback address only and ends with this call.
        workers: processes at work at a time; None for 2 without an address, else for as many as the cluster has free
            GPUs, or free cores for their threads.
        watch: called about twice a second for every run.

    Raises:
        ParameterError: Ray is not installed, or there is none at the address.
        RunError: a folder holds something else or is in use, a run has lost three workers, or Ray itself is lost.
        SeclError: of the first run that cannot be done, as in its worker; no other is begun, and those at work end.
    """
    if workers is not None:
        check_whole("number of workers", workers, 1)
    waiting = [job for job in by_model(jobs) if not finished(job)]
    if not waiting:
        return
    for begun in filter(asked, waiting):
        Store(begun.folder, writable=True).close()  # nobody else may be writing what will be replaced
    workers = workers or (WORKERS if address is None else None)
    with _connected(address, workers) as (ray, place):
        threads = _threads()
        slots, resources = _slots(ray.available_resources(), threads, len(waiting), workers)
        remote = ray.remote(max_concurrency=2, **resources)(Resident)  # `asked` is answered beside `work`
        try:
            _hand_out(ray, lambda: remote.remote(threads, place), waiting, slots, watch or (lambda *_: None))
        except ConnectionError as problem:
            raise RunError("the connection to Ray is lost; start the sweep again to go on.") from problem


def _hand_out(ray: Any, hire: Callable[[], Any], waiting: list[Job], slots: int, watch: Watch) -> None:
    """Keep `slots` workers busy until nothing is waiting and nobody is at work."""
    staff: list[Worker] = []
    losses: Counter[str] = Counter()
    problem: SeclError | None = None
    try:
        while waiting or staff:
            while waiting and len(staff) < slots:
                job = following(waiting, [worker.job for worker in staff])
                waiting.remove(job)
                staff.append(_give(hire(), job))
            ready, _ = ray.wait([worker.result for worker in staff], timeout=PAUSE)
            for worker in [worker for worker in staff if worker.result in ready]:
                lost = False
                try:
                    lost = not _collect(ray, worker, losses)
                except SeclError as found:
                    problem = problem or found
                if problem is not None:
                    waiting.clear()  # nothing more is begun, but what the others have done is not thrown away
                elif lost:
                    waiting.insert(0, worker.job)
                else:
                    watch(worker.job, *(asked(worker.job) or (0, 0)))
                staff.remove(worker)
                staff += _next_of(ray, worker, [] if lost else waiting)
            _look(ray, staff, watch)
    finally:
        for worker in staff:
            _end(ray, worker)
    if problem is not None:
        raise problem


def following(waiting: Sequence[Job], at_work: Sequence[Job]) -> Job:
    """Which job a new worker begins with: one for the weights that the fewest workers have."""
    workers = Counter(weights_of(job.recipe) for job in at_work)
    return min(waiting, key=lambda job: workers[weights_of(job.recipe)])


def _give(actor: Any, job: Job) -> Worker:
    return Worker(actor, job, actor.work.remote(job.name, job.recipe.to_json()))


def _next_of(ray: Any, worker: Worker, waiting: list[Job]) -> list[Worker]:
    """The worker with its next job; none, and its process ends, where no job is left for its weights."""
    weights = weights_of(worker.job.recipe)
    for job in waiting:
        if weights_of(job.recipe) == weights:
            waiting.remove(job)
            return [_give(worker.actor, job)]
    _end(ray, worker)
    return []


def _end(ray: Any, worker: Worker) -> None:
    with suppress(ConnectionError, ray.exceptions.RayError):
        ray.kill(worker.actor)


def _collect(ray: Any, worker: Worker, losses: Counter[str]) -> bool:
    """Whether a worker's finished folder is in its place now; False if the worker is lost."""
    try:
        unpack(ray.get(worker.result), worker.job)
    except ray.exceptions.RayTaskError as problem:
        if isinstance(problem.cause, SeclError):
            raise problem.cause from None
        raise
    except ray.exceptions.RayError as problem:
        losses[worker.job.name] += 1
        if losses[worker.job.name] >= LOSSES:
            raise RunError(
                f"the run {worker.job.name} has lost {LOSSES} workers and is given up; of the last, Ray says: "
                f"{last_line(problem)}."
            ) from problem
        return False
    return True


def _look(ray: Any, staff: Sequence[Worker], watch: Watch) -> None:
    """Tell how far every worker is; one that is still starting, or is lost, has nothing to say."""
    questions = {worker.actor.asked.remote(): worker.job for worker in staff}
    answered, _ = ray.wait(list(questions), num_returns=len(questions), timeout=PAUSE) if questions else ([], [])
    for question in answered:
        with suppress(ray.exceptions.RayError):
            name, done, total = ray.get(question)
            if name == questions[question].name:
                watch(questions[question], done, total)


def _slots(free: dict[str, float], threads: int, jobs: int, workers: int | None) -> tuple[int, dict[str, float]]:
    """How many workers there are, and what Ray sets aside for each."""
    gpus = int(free.get("GPU", 0))
    slots = min(jobs, workers or gpus or max(1, int(free.get("CPU", 1)) // threads))
    # Workers that share a GPU get equal parts of it, in ten-thousandths, as Ray counts.
    part = math.floor(10_000 / math.ceil(slots / gpus)) / 10_000 if gpus else 0
    return slots, {"num_cpus": 1, "num_gpus": part}


def _threads() -> int:
    """Of PyTorch in this process: those that the runs would have here."""
    engine: Any = importlib.import_module("secl.backends.local.model")
    return int(engine.torch.get_num_threads())


@contextmanager
def _connected(address: str | None, workers: int | None) -> Iterator[tuple[Any, str | None]]:
    """Ray, and the folder for unfinished runs; what is started or connected here ends with it, and nothing else."""
    ray = _ray(address)
    if address is None and ray.is_initialized():
        yield ray, None
        return
    # Ray puts sockets there, whose paths may have 107 bytes: the machine's own temporary folder may be too deep.
    with tempfile.TemporaryDirectory(prefix="secl-ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        try:
            if address is None:
                # Ray read the setting when it was imported, which may have been before it was made here.
                constants: Any = importlib.import_module("ray._private.ray_constants")
                constants.ENABLE_RAY_CLUSTER = os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] != "0"
                here = {"_node_ip_address": "127.0.0.1", "_temp_dir": place, "include_dashboard": False}
                logging.getLogger("ray").setLevel(logging.ERROR)  # it would announce the token
                ray.init(address="local", num_cpus=workers, **here, **quiet)
                yield ray, place
            else:
                _connect(ray, address, quiet)
                yield ray, None
        finally:
            ray.shutdown()


def _ray(address: str | None) -> Any:
    """The package, with what its connection needs."""
    if address is None:
        for name, value in LOCAL_SETTINGS.items():
            os.environ.setdefault(name, value)
    try:
        ray = importlib.import_module("ray")
    except ImportError as problem:
        raise ParameterError('a sweep on Ray needs the package ray; install it: pip install "secl[ray]"') from problem
    if address is not None and importlib.util.find_spec("grpc") is None:
        raise ParameterError(f'connecting to {address} needs the client of Ray; install it: pip install "ray[client]"')
    return ray


def _connect(ray: Any, address: str, quiet: dict[str, Any]) -> None:
    """Connect to a cluster, or say in one sentence why not."""
    try:
        parts = urlsplit(address)
        place = (parts.hostname or "", parts.port or 10001)  # the port of Ray's client servers, unless it is named
    except ValueError as problem:
        raise ParameterError(f"{address} is no address of Ray ({problem}); give it as ray://HOST:PORT.") from problem
    if parts.scheme != "ray" or not parts.hostname:
        raise ParameterError(f"{address} is no address of Ray; give it as ray://HOST:PORT.")
    try:
        socket.create_connection(place, timeout=10).close()  # Ray itself would try for half a minute
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ray.exceptions.RayError) as problem:
        # Another version of Ray or Python, a token that is missing, a server that does not start.
        raise ParameterError(
            f"there is no connection to Ray at {address} ({last_line(problem)}); check the address and its client "
            f"server, then try again."
        ) from problem


def last_line(problem: Exception) -> str:
    """What Ray says at the end of its pages.

    >>> last_line(ConnectionError("Traceback:\\n  File ...\\nRuntimeError: no server.\\n\\n"))
    'RuntimeError: no server'
    """
    lines = str(problem).strip().splitlines()
    return lines[-1].rstrip(".") if lines else type(problem).__name__
