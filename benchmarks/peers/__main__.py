"""Other people's code and this library: the same questions and the same model folder, in turns.

    python -m benchmarks.peers [ENVIRONMENT] [--dinco FOLDER] [--model smollm2] [--questions 16] [--rounds 3]

ENVIRONMENT is a folder outside of the repository, for P(True) and sequence probability by lm-polygraph: a virtual
environment is made there on the first run, and PyTorch and lm-polygraph are installed into it (a gigabyte). FOLDER has
the published script of DINCO, dinco_triviaqa.py; it runs in our own environment. What is not named is left out.
Each round is a process of its own for each side; loading is not timed. The result is written beside the others, see
`python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.__main__ import ROOT, described, sized
from benchmarks.peers import dinco
from benchmarks.peers.turns import in_turns
from benchmarks.setting import Setting
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
    each = {
        name: {way: statistics.median(one[way]["seconds"] for one in rounds_of) for way in rounds_of[0]}
        for name, rounds_of in in_turns(commands, rounds).items()
    }
    return {"seconds": each, "ratio": {way: each["lm_polygraph"][way] / each["library"][way] for way in WAYS}}


def polygraph(setting: Setting, environment: Path, folder: str) -> dict[str, Any]:
    """Time of P(True) and sequence probability by lm-polygraph over ours."""
    python = install(environment.absolute())
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "questions.json"
        file.write_text(json.dumps(rows(setting.choices(setting.questions))), encoding="utf-8")
        commands = {
            "library": [sys.executable, "-m", "benchmarks.peers.ours", folder, str(file)],
            "lm_polygraph": [str(python), str(Path(__file__).with_name("polygraph.py")), folder, str(file)],
        }
        results = compare(commands, setting.rounds)
    return {"ratios": {"polygraph_p_true_vs_ours": results["ratio"]["answered"]}, "peers": results}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environment", type=Path, nargs="?", help="folder for an environment with lm-polygraph")
    parser.add_argument("--dinco", type=Path, metavar="FOLDER", help="folder with DINCO's published dinco_triviaqa.py")
    parser.add_argument("--nli", help="entailment model for DINCO, hub id or folder; random weights by default")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default=None)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results.json")
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "RESULTS.md")
    options = parser.parse_args(arguments)
    if options.environment is None and options.dinco is None:
        parser.error("name an ENVIRONMENT for lm-polygraph, the folder of --dinco, or both.")
    if options.dinco is not None and not (options.dinco / dinco.SCRIPT).is_file():
        parser.error(
            f"{options.dinco} has no {dinco.SCRIPT}; name the folder with the files that DINCO's authors published."
        )
    setting = Setting(options.model, data=options.data, questions=options.questions, rounds=options.rounds)
    folder = converted(setting.model)
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    if options.environment is not None:
        parts["peers"] = lambda: polygraph(setting, options.environment, folder)
    if options.dinco is not None:
        asked = setting.open("short", setting.questions)
        parts["dinco"] = lambda: dinco.measure(options.dinco.absolute(), folder, options.nli, asked, setting.rounds)
    for name, part in parts.items():
        began = time.perf_counter()
        section = part()
        print(json.dumps(section, indent=2))
        how = {"machine": described(setting), "setting": sized(setting), "seconds": time.perf_counter() - began}
        write_page(options.page, keep(options.out, setting.key, Setting().key, {**section, MEASURED: {name: how}}))


def converted(model: str) -> str:
    """The folder of a model, which any library of this kind can load."""
    source = locate(model)
    if isinstance(source, Path) and source.suffix == ".gguf":
        source = convert_gguf(source, choose_dtype("auto", torch.device("cpu")))
    return str(source)


if __name__ == "__main__":
    main()
