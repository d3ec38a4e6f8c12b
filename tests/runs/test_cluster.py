"""A sweep on Ray: the same records as one run after the other, whoever dies; Ray itself is real or a fake."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import torch

from secl.errors import DataError, ParameterError, RunError
from secl.records import Record
from secl.runs import cluster
from secl.runs.cluster import LOCAL_SETTINGS, following, perform_on_ray
from secl.runs.store import Store
from secl.runs.sweep import Job, asked, finished, perform, perform_all, plan
from tests.tiny import tiny_folder

LEARNING: dict[str, Any] = {"burst": 4, "warmup": 3, "threshold": 2.0, "bin_gate": -1, "learning_rate": 0.01}
MODELS = ("x/a", "x/b")


def records_of(job: Job) -> list[Record]:
    with Store(job.folder) as store:
        return list(store.records())


def two_models(out: Path, runs: int = 2) -> list[Job]:
    """Jobs of two models in turns; nothing of them can be loaded."""
    return plan(
        [{"model": model, "stream": ["capitals:2"], "seed": seed} for seed in range(runs) for model in MODELS], out
    )


# Who does what.


def test_a_new_worker_begins_with_the_weights_that_the_fewest_workers_have(tmp_path: Path) -> None:
    jobs = two_models(tmp_path)
    assert following(jobs, []) == jobs[0]
    assert following(jobs, [jobs[2]]) == jobs[1]
    assert following(jobs, [jobs[2], jobs[3]]) == jobs[0]
    assert following(jobs[:1], [jobs[2]]) == jobs[0]


@pytest.mark.parametrize(
    ("free", "threads", "jobs", "workers", "slots", "gpus"),
    [
        ({"CPU": 8.0}, 2, 100, None, 4, 0),
        ({"CPU": 8.0}, 2, 3, None, 3, 0),
        ({"CPU": 1.0}, 4, 9, None, 1, 0),
        ({}, 1, 9, None, 1, 0),
        ({"CPU": 2.0}, 1, 9, 5, 5, 0),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 9, None, 2, 1),
        ({"CPU": 8.0, "GPU": 1.0}, 1, 9, 3, 3, 0.3333),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 9, 3, 3, 0.5),
        ({"CPU": 8.0, "GPU": 1.0}, 1, 9, 6, 6, 0.1666),
    ],
)
def test_the_workers_fit_into_what_is_free(
    free: dict[str, float], threads: int, jobs: int, workers: int | None, slots: int, gpus: float
) -> None:
    assert cluster._slots(free, threads, jobs, workers) == (slots, {"num_cpus": 1, "num_gpus": gpus})


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__("pages of text")
        self.cause = cause


class FakeRay:
    """Ray in this process: the oldest promise is kept first, by `did`, which gives a folder's bytes or raises."""

    def __init__(self, did: Callable[[str], bytes]) -> None:
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.did = did
        self.hired: list[Any] = []
        self.given: list[tuple[int, str]] = []
        self.ended: list[int] = []
        self.most = 0

    def hire(self) -> Any:
        number = len(self.hired)
        self.hired.append(
            SimpleNamespace(
                number=number,
                work=SimpleNamespace(remote=lambda name, settings: self._promise(number, name)),
                asked=SimpleNamespace(remote=lambda: ("asked", number)),
            )
        )
        return self.hired[-1]

    def _promise(self, number: int, name: str) -> tuple[str, str, int]:
        self.given.append((number, name))
        assert len(self.given) < 50, "runs are handed out without end"
        return ("work", name, len(self.given))

    def wait(self, promises: list[Any], num_returns: int = 1, **_: Any) -> tuple[list[Any], list[Any]]:
        self.most = max(self.most, len(promises))
        return promises[:num_returns], promises[num_returns:]

    def get(self, promise: tuple[Any, ...]) -> Any:
        return self.did(promise[1]) if promise[0] == "work" else ("another run", 1, 2)

    def kill(self, actor: Any) -> None:
        self.ended.append(actor.number)

    def run(self, jobs: list[Job], slots: int) -> None:
        cluster._hand_out(self, self.hire, list(jobs), slots, lambda *_: None)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs whose folders came back, in place of the folders."""
    names: list[str] = []
    monkeypatch.setattr(cluster, "unpack", lambda archive, job: names.append(job.name))
    return names


def test_one_worker_for_each_model_does_all_its_runs(tmp_path: Path, settled: list[str]) -> None:
    jobs = two_models(tmp_path, runs=3)
    ray = FakeRay(lambda name: b"")
    ray.run(jobs, slots=2)
    assert sorted(settled) == sorted(job.name for job in jobs)
    assert (len(ray.hired), sorted(ray.ended), ray.most) == (2, [0, 1], 2)
    for number in (0, 1):
        mine = [job.recipe.model for job in jobs if (number, job.name) in ray.given]
        assert mine == [MODELS[number]] * 3


def test_a_model_has_more_workers_where_there_are_more_workers_than_models(tmp_path: Path, settled: list[str]) -> None:
    jobs = two_models(tmp_path, runs=4)
    ray = FakeRay(lambda name: b"")
    ray.run(jobs, slots=4)
    assert sorted(settled) == sorted(job.name for job in jobs)
    assert (len(ray.hired), ray.most) == (4, 4)


def test_the_run_of_a_lost_worker_is_given_to_a_new_one(tmp_path: Path, settled: list[str]) -> None:
    jobs = two_models(tmp_path)
    losses = [jobs[0].name, jobs[0].name]

    def did(name: str) -> bytes:
        if name in losses:
            losses.remove(name)
            raise RayError("the worker died")
        return b""

    ray = FakeRay(did)
    ray.run(jobs, slots=2)
    assert sorted(settled) == sorted(job.name for job in jobs)
    assert [name for _, name in ray.given].count(jobs[0].name) == 3
    assert len({number for number, name in ray.given if name == jobs[0].name}) == 3


def test_a_run_that_loses_three_workers_is_given_up_by_name(tmp_path: Path, settled: list[str]) -> None:
    jobs = two_models(tmp_path)

    def did(name: str) -> bytes:
        if name == jobs[1].name:
            raise RayError("pages\n\nout of memory\n")
        return b""

    ray = FakeRay(did)
    with pytest.raises(RunError, match=f"{jobs[1].name} has lost 3 workers .*: out of memory.$"):
        ray.run(jobs, slots=2)
    assert [name for _, name in ray.given].count(jobs[1].name) == 3
    assert sorted(ray.ended) == list(range(len(ray.hired)))


def test_after_a_mistake_nothing_is_begun_and_what_was_at_work_is_kept(tmp_path: Path, settled: list[str]) -> None:
    jobs = two_models(tmp_path, runs=5)

    def did(name: str) -> bytes:
        if name == jobs[0].name:
            raise RayTaskError(DataError("no such folder."))
        return b""

    ray = FakeRay(did)
    with pytest.raises(DataError, match=r"^no such folder\.$"):
        ray.run(jobs, slots=3)
    assert len(ray.given) == 3
    assert sorted(settled) == sorted(name for _, name in ray.given if name != jobs[0].name)
    assert sorted(ray.ended) == [0, 1, 2]


def test_after_a_mistake_the_run_of_a_lost_worker_is_not_begun_again(tmp_path: Path, settled: list[str]) -> None:
    jobs = two_models(tmp_path)

    def did(name: str) -> bytes:
        raise RayTaskError(DataError("no such folder.")) if name == jobs[0].name else RayError("the worker died")

    ray = FakeRay(did)
    with pytest.raises(DataError):
        ray.run(jobs, slots=2)
    assert len(ray.given) == 2


def test_a_fault_that_is_no_mistake_of_the_user_comes_as_it_is(tmp_path: Path, settled: list[str]) -> None:
    def did(name: str) -> bytes:
        raise RayTaskError(ZeroDivisionError())

    ray = FakeRay(did)
    with pytest.raises(RayTaskError):
        ray.run(two_models(tmp_path), slots=2)
    assert sorted(ray.ended) == [0, 1]


# What is refused before Ray is asked.


def test_without_ray_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ParameterError, match=r'needs the package ray; install it: pip install "secl\[ray\]"$'):
        perform_on_ray(two_models(tmp_path), None)


def test_without_the_client_of_ray_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r'ray://there needs .*: pip install "ray\[client\]"$'):
        perform_on_ray(two_models(tmp_path), "ray://there")


def test_what_a_cluster_says_against_a_connection_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionAbortedError("Initialization failure:\nTraceback\n  ...\nRuntimeError: Version mismatch.\n\n")

    fake: Any = SimpleNamespace(init=init, exceptions=SimpleNamespace(RayError=RayError))
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ParameterError) as refused:
        cluster._connect(fake, f"ray://127.0.0.1:{server.getsockname()[1]}", {})
    assert "(RuntimeError: Version mismatch); check the address" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ray://", "is no address of Ray"),
        ("ray://:10001", "is no address of Ray"),
        ("ray://here:often", "is no address of Ray"),
        ("http://127.0.0.1:10001", "is no address of Ray"),
        ("ray://127.0.0.1:1", r"no connection to Ray at ray://127.0.0.1:1 \(.*Connection refused\); check the address"),
    ],
)
def test_an_address_without_a_ray_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, said: str
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    with pytest.raises(ParameterError, match=said):
        perform_on_ray(two_models(tmp_path), address)


def test_no_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="number of workers must be a whole number of at least 1, not 0"):
        perform_on_ray(two_models(tmp_path), None, workers=0)


# Ray itself.


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    return [tiny_folder(folder / "llama"), tiny_folder(folder / "qwen", "qwen2")]


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers on this machine, for all tests below."""
    pytest.importorskip("ray")
    before = dict(os.environ)
    os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("workers"))  # what a killed worker leaves
    os.environ["OMP_NUM_THREADS"] = "2"  # the workers are to have the driver's threads, and not these
    level = logging.getLogger("ray").level
    with cluster._connected(None, 2) as (package, _):
        yield package
    logging.getLogger("ray").setLevel(level)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def grid(models: list[Path], out: Path, stream: tuple[str, ...] = ("capitals:8", "science:8")) -> list[Job]:
    return plan(
        [
            {"model": str(model), "stream": stream, "seed": seed, **changes}
            for seed in (1, 2)
            for model in models
            for changes in (LEARNING, {"method": "norm_p_true"})
        ],
        out,
    )


def assert_same(jobs: list[Job], wanted: list[Job]) -> None:
    assert len({job.folder for job in jobs}) == len(wanted)
    for job, other in zip(jobs, wanted, strict=True):
        assert finished(job)
        assert records_of(job) == records_of(other)
        with Store(job.folder) as store, Store(other.folder) as reference:
            now, then = store.manifest, reference.manifest
        assert {**now, "created": None} == {**then, "created": None}
        files = [sorted(path.name for path in folder.rglob("*")) for folder in (job.folder, other.folder)]
        assert files[0] == files[1]
    folders = [sorted(path.name for path in found[0].folder.parent.iterdir()) for found in (jobs, wanted)]
    assert folders[0] == folders[1]


@pytest.mark.slow
def test_two_workers_give_the_records_of_one_run_after_the_other(ray: Any, models: list[Path], tmp_path: Path) -> None:
    here, there = grid(models, tmp_path / "here"), grid(models, tmp_path / "there")
    perform_all(here)
    assert any(record.update for record in records_of(here[0]))
    with Store(here[0].folder) as store:
        assert store.manifest["environment"]["threads"] == 1
    with pytest.raises(KeyboardInterrupt):
        perform(there[0], _interrupt)  # an unfinished run of our own is replaced
    perform(there[1])  # a finished one is not
    kept = (there[1].folder / "run.sqlite").stat().st_ino
    seen: list[tuple[str, int, int]] = []
    perform_on_ray(there, None, watch=lambda job, done, total: seen.append((job.name, done, total)))
    assert_same(there, here)
    assert (there[1].folder / "run.sqlite").stat().st_ino == kept
    assert {(name, 16, 16) for name in (job.name for job in there) if name != there[1].name} <= set(seen)
    assert there[1].name not in {name for name, _, _ in seen}
    assert all(0 <= done <= total == 16 for _, done, total in seen)


def _interrupt(done: int, total: int, record: Record | None) -> None:
    if done == 3:
        raise KeyboardInterrupt


def worker_of(job: Job) -> psutil.Process | None:
    """The process that has the job's run open; only processes that this one has started are looked at."""
    for process in psutil.Process().children(recursive=True):
        if process.name().startswith("ray::Resident") and any(job.name in file.path for file in process.open_files()):
            return process
    return None


@pytest.mark.slow
def test_when_a_worker_is_killed_in_the_middle_nothing_is_lost_or_doubled(
    ray: Any, models: list[Path], tmp_path: Path
) -> None:
    stream = ("capitals:40", "science:40")
    here, there = (grid(models[:1], tmp_path / name, stream) for name in ("here", "there"))
    perform_all(here)
    killed: list[tuple[str, int]] = []
    after: set[tuple[str, int]] = set()

    def watch(job: Job, done: int, total: int) -> None:
        worker = worker_of(job) if 0 < done < total - 10 else None
        if worker is None:
            return
        if killed:
            after.add((job.name, worker.pid))
        else:
            os.kill(worker.pid, signal.SIGKILL)
            killed.append((job.name, worker.pid))

    perform_on_ray(there, None, workers=2, watch=watch)
    ((name, lost),) = killed
    assert [pid != lost for other, pid in after if other == name] == [True]  # another process did it again
    assert_same(there, here)


@pytest.mark.slow
def test_a_mistake_comes_back_from_a_worker_as_its_one_sentence(ray: Any, models: list[Path], tmp_path: Path) -> None:
    jobs = plan([{"model": str(models[0]), "stream": ["mmlu"], "data": str(tmp_path / "nowhere")}], tmp_path)
    with pytest.raises(DataError, match=r"^the data folder .*nowhere does not exist; check --data or SECL_DATA\.$"):
        perform_on_ray(jobs, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_somebody_is_writing_is_refused_before_any_work(
    ray: Any, models: list[Path], tmp_path: Path
) -> None:
    jobs = grid(models, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        perform(jobs[-1], _interrupt)
    with Store(jobs[-1].folder, writable=True), pytest.raises(RunError, match="in use by another process"):
        perform_on_ray(jobs, None)
    assert [asked(job) is not None for job in jobs] == [False] * (len(jobs) - 1) + [True]


def listening(processes: list[psutil.Process]) -> set[str]:
    """Addresses on which processes wait for connections."""
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in processes
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


@pytest.mark.slow
def test_a_cluster_that_is_started_here_listens_on_the_loopback_address_only(ray: Any) -> None:
    assert listening([psutil.Process(), *psutil.Process().children(recursive=True)]) == {"127.0.0.1"}


@pytest.mark.slow
def test_a_cluster_that_was_there_before_is_left_running(ray: Any) -> None:
    perform_on_ray([], None)
    assert ray.is_initialized()


@pytest.mark.slow
def test_a_cluster_at_an_address_gives_the_same_records_and_is_left_running(models: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    here, there = (grid(models[:1], tmp_path / name) for name in ("here", "there"))
    perform_all(here)
    recipe = tmp_path / "sweep.toml"
    recipe.write_text(
        f'model = "{models[0]}"\nstream = ["capitals:8", "science:8"]\n[grid]\nseed = [1, 2]\n[[runs]]\n'
        + "\n".join(f"{key} = {value}" for key, value in LEARNING.items())
        + '\n[[runs]]\nmethod = "norm_p_true"\n'
    )
    with head() as (address, environment):
        secl = (sys.executable, "-c", "from secl.cli import main; main()")
        command = (*secl, "sweep", str(recipe), "--out", str(tmp_path / "there"), "--on", address)
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))).close()
    assert_same(there, here)


@contextmanager
def head() -> Iterator[tuple[str, dict[str, str]]]:
    """The head of a cluster of its own with a client server, on the loopback address; gives its address, and the
    environment that may connect to it."""
    environment = {**os.environ, **LOCAL_SETTINGS, "RAY_AUTH_MODE": "token", "OMP_NUM_THREADS": "1"}
    environment["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # with it, the server that Ray forks for a client sometimes dies
    port, client = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="secl-ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        command = ["start", "--head", "--block", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
        command += [f"--port={port}", f"--ray-client-server-port={client}", "--num-cpus=2", f"--temp-dir={place}"]
        process = subprocess.Popen(
            [Path(sys.executable).with_name("ray"), *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(client)
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            assert listening(family) <= {"127.0.0.1", "::1"}
            yield f"ray://127.0.0.1:{client}", environment
        finally:
            process.terminate()
            process.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(120):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.5)
    pytest.fail("the client server of Ray has not come up")
