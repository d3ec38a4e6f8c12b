"""Peaks of memory over the size of the model's weights: converting a GGUF file, loading, and a run.

    python -m benchmarks.memory WHAT SETTING

WHAT is one of WORKS, and SETTING is a `benchmarks.setting.Setting` as JSON. It prints one JSON object. The benchmarks
run each as a process of its own, so that nothing else is in its memory.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.setting import Say, Setting
from benchmarks.timing import peak
from secl.backends.local.conversion import convert_gguf
from secl.backends.local.loading import choose_dtype, locate
from secl.cli.machine import DEFAULTS
from secl.runs.runner import build_calibrator


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """The peaks of a run, of loading, and of converting where the model is a GGUF file."""
    file = _gguf_file(setting)
    if file is not None:
        convert_gguf(file, _precision(setting))
    found = {what: fill_apart(what, setting) for what in WORKS if what != "convert" or file is not None}
    for what, figures in found.items():
        say(f"{what}: peak memory {figures['peak_vs_weights']:.2f} times the weights")
    return {"memory": {**found.pop("run"), **found}}


def fill_apart(what: str, setting: Setting) -> dict[str, float]:
    """The figures of `fill`, from a process of its own, with torch as `secl` starts it."""
    asked = [sys.executable, "-m", "benchmarks.memory", what, json.dumps(dataclasses.asdict(setting))]
    done = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True, env={**DEFAULTS, **os.environ})
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def fill(what: str, setting: Setting) -> dict[str, float]:
    """Bytes after the imports and at the peak of one of WORKS, and the peak over the weights."""
    imports = peak()
    size = WORKS[what](setting)
    most = peak()
    return {
        "weights_bytes": size,
        "imports_bytes": imports,
        "peak_bytes": most,
        "peak_vs_weights": most / size,
        "peak_without_imports_vs_weights": (most - imports) / size,
    }


def _run(setting: Setting) -> int:
    """An always-on run of one round of questions; returns the bytes of the model's weights."""
    recipe = setting.recipe(3, gate="always")
    model = setting.library()
    for _ in build_calibrator(recipe, model).run(setting.choices(setting.questions)):
        pass
    return _size(model.backend.model)


def _load(setting: Setting) -> int:
    """Load the model, whose conversion is done and on disk, and let one pass read all its weights."""
    model = setting.loaded().model
    with torch.no_grad():
        model(torch.zeros((1, 1), dtype=torch.int64))
    return _size(model)


def _convert(setting: Setting) -> int:
    """Convert the model's GGUF file into a folder that is dropped."""
    file = _gguf_file(setting)
    if file is None:
        raise ValueError(f"the model {setting.model} is no GGUF file.")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SECL_CACHE"] = cache
        folder = convert_gguf(file, _precision(setting))
        return sum(weights.stat().st_size for weights in folder.glob("*.safetensors"))


WORKS: dict[str, Callable[[Setting], int]] = {"run": _run, "load": _load, "convert": _convert}
"""What can be measured; each returns the bytes of the weights."""


def _gguf_file(setting: Setting) -> Path | None:
    source = locate(setting.model)
    return source if isinstance(source, Path) and source.suffix == ".gguf" else None


def _precision(setting: Setting) -> torch.dtype:
    return choose_dtype(setting.dtype, torch.device("cpu"))


def _size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


if __name__ == "__main__":
    print(json.dumps(fill(sys.argv[1], Setting(**json.loads(sys.argv[2])))))
