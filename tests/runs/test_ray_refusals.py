"""What a sweep on Ray refuses before Ray is started, and what it sets aside for a run."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secl.errors import ParameterError, RunError
from secl.runs.ray_sweep import run_on_ray
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.sweep import Job, plan, run_job
from tests.runs.conftest import stop_after


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    """A job whose model does not exist."""
    return plan([RunSettings.of({"model.name": "x/a", "stream.benchmarks": ["capitals:2"]})], tmp_path)


def test_without_ray_one_sentence_says_what_to_install(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ParameterError, match=r"^a sweep on Ray needs ray; run: pip install .*\[ray\]"):
        run_on_ray(jobs, None)


RAY_ERRORS = SimpleNamespace(RayError=type("RayError", (Exception,), {}))


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "ray://here:often"])
def test_an_address_without_a_cluster_is_refused(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(exceptions=RAY_ERRORS))
    with pytest.raises(ParameterError, match=rf"^there is no Ray at {address} \(.*\); the address .* ray://HOST:PORT"):
        run_on_ray(jobs, address)


def test_a_cluster_that_refuses_is_quoted_in_one_sentence(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionAbortedError("Initialization failure:\nTraceback\n  ...\nRuntimeError: Version mismatch.\n\n")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, exceptions=RAY_ERRORS))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ParameterError, match=rf"^there is no Ray at {address} \(RuntimeError: Version mismatch\);"):
            run_on_ray(jobs, address)


def test_a_folder_that_somebody_is_writing_is_refused_before_any_work(tiny_llama: Path, tmp_path: Path) -> None:
    (job,) = plan([RunSettings.of({"model.name": str(tiny_llama), "stream.benchmarks": ["capitals:5"]})], tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, stop_after(1))
    with Store(job.folder, writable=True), pytest.raises(RunError, match="in use by another process"):
        run_on_ray([job], None)
