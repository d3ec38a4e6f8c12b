"""A state folder that moves to another processor is verified there: rounding is no contradiction, a change is one."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl.runs.folder import FILE
from secl.runs.store import Store
from secl.server.online.factory import open_service, serving_settings
from secl.testing import toy_stream
from tests.server.waiting import close

pytestmark = pytest.mark.slow

OLDER = {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
"""Makes PyTorch and NumPy compute as on a processor without AVX-512."""


def elsewhere(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process that computes as another processor would, on two threads."""
    return subprocess.run(
        [sys.executable, "-c", "from secl.cli import main; main()", *map(str, arguments)],
        env={**os.environ, **OLDER, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def state(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with answers of multiple choice and free texts, and their posteriors."""
    folder = tmp_path_factory.mktemp("moved") / "state"
    settings = serving_settings(model=str(tiny_llama), method="posterior", dtype="fp32")
    service = open_service(folder, settings)
    service.start()
    for question in toy_stream(24):
        service.ask(question, 60)
    return close(service)


def verified(folder: Path) -> tuple[int, dict[str, Any]]:
    ended = elsewhere("verify", "--state", folder, "--last", 12, "--json")
    assert ended.stderr == ""
    return ended.returncode, json.loads(ended.stdout)


def test_what_was_answered_here_is_verified_elsewhere(state: Path) -> None:
    code, found = verified(state)
    assert code == 0, found
    assert found["findings"] == []


@pytest.mark.parametrize("cell", ["probabilities[1]", "reliability"])
def test_one_number_that_was_changed_is_found_elsewhere(state: Path, tmp_path: Path, cell: str) -> None:
    folder = tmp_path / "state"
    shutil.copytree(state, folder)
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        path = f"$.posterior.{cell}"
        db.execute(
            "UPDATE records SET body = json_set(body, ?, json_extract(body, ?) + 1e-3) WHERE position = 17",
            (path, path),
        )
    code, found = verified(folder)
    assert code == 1
    assert {(each["check"], each["position"]) for each in found["findings"]} == {("posterior", 17)}


def test_a_run_goes_on_elsewhere(tiny_llama: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = elsewhere("run", "--model", tiny_llama, "--method", "posterior", "--benchmarks", "capitals:9", "--out", run)
    assert made.returncode == 0, made.stderr
    with closing(sqlite3.connect(run / FILE)) as db, db:
        db.execute("DELETE FROM records WHERE position > 4")
        db.execute("DELETE FROM decisions WHERE position > 4")
        (value,) = db.execute("SELECT value FROM manifest WHERE key = 'environment'").fetchone()
        environment = json.dumps({**json.loads(value), "processor": "AVX512"})
        db.execute("UPDATE manifest SET value = ? WHERE key = 'environment'", (environment,))
    ended = elsewhere("run", "--resume", run)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("was begun elsewhere (processor: AVX512 there, ") == 1
    with Store(run) as store:
        assert len(store) == 9
