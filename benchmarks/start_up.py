"""How long a process takes to be ready, or to answer one question: the library, its shell command, and the model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.setting import Say, Setting
from benchmarks.timing import alternate, medians
from secl.backends.local.loading import load
from secl.cli.machine import DEFAULTS

BARE = "python"
ROUNDS = 5
MAIN = "from secl.cli import main; main()"
LIGHT = {
    BARE: ["-c", "pass"],
    "import_secl": ["-c", "import secl"],
    "secl_help": ["-c", MAIN, "--help"],
}
IMPORTS = "import_torch_and_transformers"
QUESTION = "Who wrote Hamlet?"


def heavy(model: str) -> dict[str, list[str]]:
    """The processes that import PyTorch; "ask_imports" imports what "ask" does, and loads no model."""
    asked = ["ask", QUESTION, "--model", model]
    imported = (
        "from secl.cli import main; import secl.runs.loading; from secl.garbage import uncollected\n"
        "with uncollected(): from secl.backends.local.model import LocalModel"
    )
    loaded = "import sys, secl; secl.Calibrator.load(sys.argv[1])"
    return {
        IMPORTS: ["-c", "import torch, transformers"],
        "ask_imports": ["-c", imported],
        "load_model": ["-c", loaded, model],
        "ask": ["-c", MAIN, *asked],
    }


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Seconds of every command, the model's conversion being done and on disk; the heavy ones also over `IMPORTS`."""
    load(setting.model, device="cpu")
    commands = heavy(setting.model)
    each = start({**LIGHT, **commands}, ROUNDS)
    say(", ".join(f"{name.replace('_', ' ')} {took:.2f} s" for name, took in each.items()))
    ratios = {f"{name}_vs_imports": each[name] / each[IMPORTS] for name in commands if name != IMPORTS}
    return {"start_up": {**each, **ratios}}


def start(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Median wall-clock seconds of processes of this Python with the given arguments."""
    works = {name: partial(_run, arguments) for name, arguments in commands.items()}
    return medians(alternate(rounds, works))


def _run(arguments: Sequence[str]) -> None:
    """One process, with torch as `secl` starts it."""
    environment = {**DEFAULTS, **os.environ}
    subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
