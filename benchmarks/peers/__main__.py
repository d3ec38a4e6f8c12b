"""P(True) and sequence probability by lm-polygraph and by this library: the same questions and model folder, in turns.

    python -m benchmarks.peers ENVIRONMENT [--model smollm2] [--questions 16] [--rounds 3]

ENVIRONMENT is a folder outside of the repository: a virtual environment is made there on the first run, and PyTorch and
lm-polygraph are installed into it (a gigabyte). Each round is a process of its own for each side; loading is not timed.
The result is written beside the others, see `python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.__main__ import ROOT, described, sized
from benchmarks.setting import Setting
from benchmarks.timing import seconds
from benchmarks.writing import MEASURED, keep, write_page
from secl.backends.local.conversion import convert_gguf
from secl.backends.local.loading import choose_dtype, locate
from secl.prompts.templates import answer_prompt
from secl.question import Question

PACKAGES = ("torch==2.13.0", "lm-polygraph==0.7.0")
"""Installed one after the other, PyTorch first."""

WAYS = ("answered", "scored", "sequence_probability")
"""What both sides do. The peer's `answered` gives P(True) of its answer, ours of all options."""


def install(environment: Path) -> Path:
    """The Python of an environment with the peer in it.

    Raises:
        CalledProcessError: a package cannot be installed; pip has said why.
    """
    python = environment / "bin" / "python"
    done = environment / "installed"
    if not done.is_file():
        venv.create(environment, with_pip=True)
        for package in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
        done.touch()
    return python


def rows(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """The questions as both sides read them."""
    return [{"text": q.text, "prompt": answer_prompt(q).turns[0], "options": q.options} for q in questions]


def compare(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Any]:
    """Medians of the seconds that the commands print, and the peer's over ours."""
    outputs: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in list(commands)[:: -1 if number % 2 else 1]:
            process = subprocess.run(commands[name], check=True, capture_output=True, text=True, cwd=ROOT)
            outputs[name].append(json.loads(process.stdout.splitlines()[-1]))
    each = {
        name: {way: statistics.median(one[way]["seconds"] for one in rounds_of) for way in rounds_of[0]}
        for name, rounds_of in outputs.items()
    }
    return {"seconds": each, "ratio": {way: each["lm_polygraph"][way] / each["library"][way] for way in WAYS}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environment", type=Path)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default=None)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results.json")
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "RESULTS.md")
    options = parser.parse_args(arguments)
    setting = Setting(options.model, data=options.data, questions=options.questions, rounds=options.rounds)
    python = install(options.environment.absolute())
    folder = converted(setting.model)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "questions.json"
        file.write_text(json.dumps(rows(setting.choices(setting.questions))), encoding="utf-8")
        script = Path(__file__).with_name("polygraph.py")
        commands = {
            "library": [sys.executable, "-m", "benchmarks.peers.ours", folder, str(file)],
            "lm_polygraph": [str(python), str(script), folder, str(file)],
        }
        took = seconds(lambda: results.update(compare(commands, setting.rounds)))
    print(json.dumps(results, indent=2))
    measured = {"machine": described(setting), "setting": sized(setting), "seconds": took}
    ratios = {"polygraph_p_true_vs_ours": results["ratio"]["answered"]}
    section = {"ratios": ratios, "peers": results, MEASURED: {"peers": measured}}
    write_page(options.page, keep(options.out, setting.key, Setting().key, section))


def converted(model: str) -> str:
    """The folder of a model, which any library of this kind can load."""
    source = locate(model)
    if isinstance(source, Path) and source.suffix == ".gguf":
        source = convert_gguf(source, choose_dtype("auto", torch.device("cpu")))
    return str(source)


if __name__ == "__main__":
    main()
