"""Without the extra `local`: what needs no model in this process works, and the rest says what to install."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from secl.runs.store import Store
from tests.backends.openai.fake import FakeServer, running

pytestmark = pytest.mark.heavy

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = {"torch", "transformers", "accelerate", "peft", "gguf"}
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from secl.cli import main
main()
"""
"""The command line where the packages of the extra cannot be found."""


def secl(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_run_can_be_reported_compared_labelled_and_exported(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for arguments in (
        ("report", folder),
        ("compare", folder, folder, "--estimator", "stated:secl"),
        ("threshold", folder, "--risk", 0.5),
        ("export", folder, "--format", "csv"),
        ("label", folder, "--count", 1),
        ("methods",),
        ("benchmarks",),
        ("run", "--help"),
    ):
        done = secl(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert (folder / "report.html").is_file()


def test_a_server_elsewhere_can_answer(tmp_path: Path) -> None:
    with running(FakeServer()) as server:
        endpoint = ("--engine", "openai", "--endpoint", server.url)
        done = secl("run", *endpoint, "--benchmarks", "capitals:3", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "run") as store:
        assert len(list(store.records())) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "Who wrote Hamlet?"),
        ("run", "--benchmarks", "capitals:2", "--out", "out"),
        ("check", "--benchmarks", "capitals:2"),
        ("models",),
        ("serve", "--state", "state", "--port", 0),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_needs_a_model_says_what_to_install(
    arguments: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = secl(*arguments)
    assert done.returncode == 2
    assert done.stderr == 'secl: a model in this process needs torch; install it with: pip install "secl[local]".\n'
