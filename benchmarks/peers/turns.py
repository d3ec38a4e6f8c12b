"""Processes that take turns; the last line that each prints is a JSON object with what it measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.__main__ import ROOT


def in_turns(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """What each command says, once a round; every other round goes backwards, so that drift hits all alike.

    Raises:
        SystemExit: a command failed; the message ends with what it said.
    """
    outputs: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in list(commands)[:: -1 if number % 2 else 1]:
            process = subprocess.run(commands[name], check=False, capture_output=True, text=True, cwd=ROOT)
            if process.returncode:
                raise SystemExit(f"{name} failed: {' '.join(commands[name])}\n{process.stderr[-3000:]}")
            outputs[name].append(json.loads(process.stdout.splitlines()[-1]))
    return outputs
