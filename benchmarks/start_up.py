"""How long a process takes to be ready: the library, its shell command, and the model, against bare Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.setting import Say, Setting
from benchmarks.timing import alternate, medians
from secl.backends.local.loading import load

BARE = "python"
ROUNDS = 5
LIGHT = {
    BARE: ["-c", "pass"],
    "import_secl": ["-c", "import secl"],
    "secl_help": ["-c", "from secl.cli import main; main()", "--help"],
}
HEAVY = {
    "import_torch_and_transformers": ["-c", "import torch, transformers"],
    "load_model": ["-c", "import sys; from secl.backends.local.model import LocalModel; LocalModel.load(sys.argv[1])"],
}


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Seconds of every command, the model's conversion being done and on disk."""
    load(setting.model, device="cpu")
    commands = {**LIGHT, **HEAVY, "load_model": [*HEAVY["load_model"], setting.model]}
    each = start(commands, ROUNDS)
    say(", ".join(f"{name.replace('_', ' ')} {took:.2f} s" for name, took in each.items()))
    return {"start_up": each}


def start(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Median wall-clock seconds of processes of this Python with the given arguments."""
    works = {name: partial(_run, arguments) for name, arguments in commands.items()}
    return medians(alternate(rounds, works))


def _run(arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
