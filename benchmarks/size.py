"""What the commands take that read a whole run: seconds, and the most memory of a process, at growing sizes.

    python -m benchmarks.size QUESTIONS

prints one JSON object. The run is made by a scripted model; its posteriors are fitted along the stream as always. Each
command is a process of its own, from start to end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import peak
from secl.cli import main
from secl.question import Question
from secl.runs.runner import Run, build_calibrator
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.testing import ScriptedModel, toy_stream, unit

DOMAINS = 4

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report",),
    "export": ("export",),
    "export_csv": ("export", "--format", "csv"),
    "threshold": ("threshold", "--risk", "0.1"),
    "compare": ("compare", "--estimator", "stated:posterior"),
}
"""Arguments of each command, to which the folder of the run is added."""


def measure_commands(count: int) -> dict[str, dict[str, float]]:
    """Seconds and peak bytes of every command on a run of so many questions."""
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        make(count, run)
        return {name: _alone(run, name) for name in COMMANDS}


def make(count: int, folder: Path) -> None:
    """A finished run of the method posterior over toy questions."""
    settings = RunSettings.of({"model": "scripted", "benchmarks": ("capitals",), "method": "posterior"})
    model: Any = ScriptedModel(entropy=_entropy)
    manifest = {"settings": settings.to_json(), "tau": model.tau, "model": model.fingerprint, "total": count}
    with Store.create(folder, {**manifest, "environment": {}}) as store:
        Run(store, build_calibrator(settings, model), model, toy_stream(count, DOMAINS), []).proceed()


def _entropy(question: Question) -> float:
    return 1.0 + unit(f"h/{question.id}") / 5


def _alone(run: Path, name: str) -> dict[str, float]:
    """A command as a process of its own, which tells its peak itself."""
    began = time.perf_counter()
    asked = [sys.executable, "-m", "benchmarks.size", name, str(run)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    return {"seconds": time.perf_counter() - began, "peak_bytes": int(done.stderr.splitlines()[-1])}


def _command(name: str, run: str) -> None:
    """Do a command in this process, and write the peak to standard error."""
    command, *options = COMMANDS[name]
    folders = [run, run] if command == "compare" else [run]
    sys.argv = ["secl", command, *folders, *options]
    try:
        main()
    finally:
        print(peak(), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1] in COMMANDS:
        _command(*sys.argv[1:])
    else:
        print(json.dumps(measure_commands(int(sys.argv[1]))))
