"""The settings of each run under a setup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from secl.data.benchmarks import find_benchmark
from secl.methods import PAPER, method
from secl_paper.layout import Run
from secl_paper.setup import PAPER_GATE, Setup

OPEN_FORM = {"truthfulqa": "truthfulqa_gen"}
"""Benchmarks that are also asked as open questions."""


def settings_of(run: Run, setup: Setup) -> dict[str, Any]:
    """The settings of a run under a setup, as `secl.RunSettings.of` takes them: the paper's to the letter, all methods.

    >>> settings = settings_of(Run("burst 20", {"burst": 20}), Setup(benchmarks=("capitals",), per_domain=6))
    >>> settings["benchmarks"], settings["gate"], settings["burst"], settings["restart"], settings["p_true_prompt"]
    (('capitals:6',), 'page-hinkley', 20, 'all', 'paper')
    """
    chosen = method(run.changes.get("method", "secl"))
    gate = run.changes.get("gate", setup.gate or PAPER_GATE) if chosen.learns else None
    of_the_gate = () if gate == PAPER_GATE else ("restart",)
    settings: dict[str, Any] = {
        **{name: value for name, value in PAPER.items() if name not in of_the_gate},
        "model": setup.model.model_dump(),
        "benchmarks": benchmarks_of(run, setup),
        "data": setup.data,
        "tau": setup.tau,
        "gate": gate,
        "nli": setup.nli if "dinco" in chosen.evidence else None,
        **run.changes,
    }
    if "layers" in run.changes:
        from secl.backends.local.lora_sizes import concrete_layers  # imports torch

        settings["layers"] = concrete_layers(setup.model.name, run.changes["layers"])
    return settings


def benchmarks_of(run: Run, setup: Setup) -> tuple[str, ...]:
    """The benchmarks of a run, each with its number of questions: the setup's stream, longer or open-ended.

    Every benchmark has a number, so that equal runs of different tables are one. A longer stream takes no more
    questions of a benchmark than it has.

    >>> setup = Setup(benchmarks=("capitals:5", "misconceptions"), per_domain=90)
    >>> benchmarks_of(Run("x", scale=2, open_ended=True), setup)
    ('capitals:10', 'misconceptions:98')
    """
    benchmarks = []
    for name, entry in zip(setup.names, setup.benchmarks, strict=True):
        opened = OPEN_FORM.get(name, name) if run.open_ended else name
        benchmark = name if opened in setup.names else opened
        count = entry.partition(":")[2] or str(setup.per_domain)
        if run.scale > 1 and count.isdecimal():
            available, _ = find_benchmark(benchmark).open(Path(setup.data) if setup.data else None, seed=0)
            count = str(max(int(count), min(run.scale * int(count), available)))
        benchmarks.append(f"{benchmark}:{count}")
    return tuple(benchmarks)
