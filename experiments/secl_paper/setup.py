"""What a reproduction runs on, and the settings that follow from it for each run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secl.data.benchmarks import find_benchmark
from secl.errors import ParameterError
from secl.methods import method
from secl.validation import check_whole
from secl_paper.layout import Run
from secl_paper.paper import PaperTable, read_paper

STREAM = ("gsm8k", "mmlu", "arc", "truthfulqa")
"""The paper's benchmarks in its order."""

OPEN_FORM = {"truthfulqa": "truthfulqa_gen"}
"""Benchmarks that are also asked as open questions."""

PAPER_MODEL, PAPER_GATE = "llama-3.2-3b", "page-hinkley"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a reproduction runs on.

    Attributes:
        model, data, dtype, device, tau, nli: as in `secl.RunSettings`; None for its default.
        per_domain: questions of each benchmark that does not say how many.
        stream: benchmarks in forward order.
        gate: in place of the paper's gate, for runs that learn and name none.
        against: the paper's model to compare with; None for the same model, or the nearest there is.

    Raises:
        ParameterError: no question per domain, or a model to compare with that the paper does not have.
    """

    model: str = "smollm2"
    per_domain: int = 500
    stream: tuple[str, ...] = STREAM
    data: str | None = None
    dtype: str | None = None
    device: str | None = None
    tau: float | None = None
    nli: str | None = None
    gate: str | None = None
    against: str | None = None

    def __post_init__(self) -> None:
        check_whole("number of questions per domain", self.per_domain, 1)
        models = read_paper().models
        if self.against is not None and self.against not in models:
            raise ParameterError(f"the paper has no model {self.against!r}; its models are {', '.join(models)}.")

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The names in the stream, without numbers of questions."""
        return tuple(name.partition(":")[0] for name in self.stream)

    def column(self, paper: PaperTable) -> str:
        """The model of the paper's column: the one asked for, the same as ours, Llama 3.2-3B, or the table's first."""
        candidates = (self.against or "", self.model, PAPER_MODEL, *paper.numbers)
        return next(name for name in candidates if name in paper.numbers)


def settings_of(run: Run, setup: Setup) -> dict[str, Any]:
    """The settings of a run under a setup, for `secl.runs.sweep.plan`.

    >>> settings_of(Run("burst-20", {"burst": 20}), Setup(stream=("capitals",), per_domain=6))
    {'model': 'smollm2', 'benchmarks': ('capitals:6',), 'gate': 'page-hinkley', 'burst': 20}
    """
    settings: dict[str, Any] = {"model": setup.model, "benchmarks": stream_of(run, setup)}
    common = {key: getattr(setup, key) for key in ("data", "dtype", "device", "tau")}
    settings |= {key: value for key, value in common.items() if value is not None}
    chosen = method(run.changes.get("method", "secl"))
    if chosen.learns:
        settings["gate"] = setup.gate or PAPER_GATE
    if setup.nli is not None and "dinco" in chosen.evidence:
        settings["nli"] = setup.nli
    settings |= run.changes
    if "layers" in run.changes:
        from secl.backends.local.lora_sizes import concrete_layers  # imports torch

        settings["layers"] = concrete_layers(setup.model, run.changes["layers"])
    return settings


def stream_of(run: Run, setup: Setup) -> tuple[str, ...]:
    """The benchmarks of a run, each with its number of questions: the setup's stream, longer or open-ended.

    Every benchmark says how many questions, so that equal runs of different tables are one. A longer stream asks no
    benchmark for more questions than it has.

    >>> stream_of(Run("x", scale=2, open_ended=True), Setup(stream=("capitals:5", "misconceptions"), per_domain=90))
    ('capitals:10', 'misconceptions:98')
    """
    stream = []
    for name, entry in zip(setup.benchmarks, setup.stream, strict=True):
        opened = OPEN_FORM.get(name, name) if run.open_ended else name
        benchmark = name if opened in setup.benchmarks else opened
        count = entry.partition(":")[2] or str(setup.per_domain)
        if run.scale > 1 and count.isdecimal():
            available, _ = find_benchmark(benchmark).open(Path(setup.data) if setup.data else None, seed=0)
            count = str(max(int(count), min(run.scale * int(count), available)))
        stream.append(f"{benchmark}:{count}")
    return tuple(stream)
