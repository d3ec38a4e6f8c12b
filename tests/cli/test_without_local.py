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


def test_what_needs_no_model_works_and_the_rest_says_what_to_install(run: Path, tmp_path: Path) -> None:
    folder, benchmark = shutil.copytree(run, tmp_path / "run"), ("--benchmarks", "capitals:2", "--out")
    with running(FakeServer()) as server:
        works: list[tuple[object, ...]] = [
            ("report", folder),
            ("compare", folder, folder, "--estimator", "stated:secl"),
            ("threshold", folder, "--risk", 0.5),
            ("export", folder, "--format", "csv"),
            ("label", folder),
            ("methods",),
            ("benchmarks",),
            ("run", "--help"),
            ("run", "--engine", "openai", "--endpoint", server.url, *benchmark, tmp_path / "elsewhere"),
        ]
        needs_a_model: list[tuple[object, ...]] = [
            ("ask", "Who wrote Hamlet?"),
            ("run", *benchmark, tmp_path / "out"),
            ("check", *benchmark[:2]),
            ("models",),
            ("serve", tmp_path / "state", "--port", 0),
        ]
        ended = secl(*works, *needs_a_model)
    for command, (code, said) in zip(works, ended, strict=False):
        assert code == 0, (command, said)
    assert (folder / "report.html").is_file()
    with Store(tmp_path / "elsewhere") as store:
        assert len(store) == 2
    sentence = f"secl: {needs('a model in this process', 'torch', 'local')}\n"
    assert ended[len(works) :] == [(2, sentence)] * len(needs_a_model)
