"""The peak memory of a run over the size of the model's weights.

    python -m benchmarks.memory SETTING

SETTING is a `benchmarks.setting.Setting` as JSON. It prints one JSON object. The benchmarks run it as a process of its
own, so that nothing else is in its memory.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

from benchmarks.setting import Say, Setting
from benchmarks.timing import peak
from secl.runs.runner import build_calibrator


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """The figures of `fill`, from a process of its own."""
    asked = [sys.executable, "-m", "benchmarks.memory", json.dumps(dataclasses.asdict(setting))]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    say(f"peak memory {found['peak_vs_weights']:.1f} times the weights")
    return {"memory": found}


def fill(setting: Setting) -> dict[str, float]:
    """Bytes after the imports and at the peak of an always-on run of one round of questions."""
    imports = peak()
    recipe = setting.recipe(3, gate="always")
    model = setting.library()
    for _ in build_calibrator(recipe, model).run(setting.choices(setting.questions)):
        pass
    weights = {id(p): p.numel() * p.element_size() for p in model.backend.model.parameters()}
    most, size = peak(), sum(weights.values())
    return {
        "weights_bytes": size,
        "imports_bytes": imports,
        "peak_bytes": most,
        "peak_vs_weights": most / size,
        "peak_without_imports_vs_weights": (most - imports) / size,
    }


if __name__ == "__main__":
    print(json.dumps(fill(Setting(**json.loads(sys.argv[1])))))
