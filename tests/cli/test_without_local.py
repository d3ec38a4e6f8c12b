"""Without the extra `local`: what needs no model in this process works, and the rest says what to install."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from secl.errors import needs
from secl.runs.store import Store
from tests.backends.endpoint.fake import FakeServer, running

pytestmark = pytest.mark.heavy

WITHOUT = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = {"torch", "transformers", "accelerate", "peft", "gguf"}
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from secl.cli import main

ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["secl", *arguments]
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            ended.append((end.code or 0, said.getvalue()))
print(json.dumps(ended))
"""
"""Commands one after the other where the packages of the extra cannot be found: their exit codes and errors."""


def secl(*commands: tuple[object, ...]) -> list[tuple[int, str]]:
    """Exit code and error of each command, all of them in one process without the extra."""
    command = [sys.executable, "-c", WITHOUT, json.dumps([list(map(str, each)) for each in commands])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout)]


def test_a_run_can_be_reported_compared_labelled_and_exported(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    commands: list[tuple[object, ...]] = [
        ("report", folder),
        ("compare", folder, folder, "--estimator", "stated:secl"),
        ("threshold", folder, "--risk", 0.5),
        ("export", folder, "--format", "csv"),
        ("label", folder),
        ("methods",),
        ("benchmarks",),
        ("run", "--help"),
    ]
    for command, (code, said) in zip(commands, secl(*commands), strict=True):
        assert code == 0, (command, said)
    assert (folder / "report.html").is_file()


def test_a_server_elsewhere_can_answer(tmp_path: Path) -> None:
    with running(FakeServer()) as server:
        endpoint = ("--engine", "openai", "--endpoint", server.url)
        ((code, said),) = secl(("run", *endpoint, "--benchmarks", "capitals:3", "--out", tmp_path / "run"))
    assert code == 0, said
    with Store(tmp_path / "run") as store:
        assert len(list(store.records())) == 3


def test_commands_that_need_a_model_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands: list[tuple[object, ...]] = [
        ("ask", "Who wrote Hamlet?"),
        ("run", "--benchmarks", "capitals:2", "--out", "out"),
        ("check", "--benchmarks", "capitals:2"),
        ("models",),
        ("serve", "state", "--port", 0),
    ]
    sentence = f"secl: {needs('a model in this process', 'torch', 'local')}\n"
    for command, ended in zip(commands, secl(*commands), strict=True):
        assert ended == (2, sentence), command
