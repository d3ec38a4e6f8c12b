"""Model and stream of a reproduction, and the settings of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from secl.data.benchmarks import load
from secl.gates import gate_class
from secl.methods import method
from secl.settings.groups import Device, Dtype, Names, Quantize, Settings
from secl.settings.names import OF_METHOD, OF_MODEL, OF_QUESTIONS
from secl_paper.layout import Run

STREAM = ("gsm8k", "mmlu", "arc", "truthfulqa")
"""The paper's benchmarks in its order."""

PAPER_GATE = "page-hinkley"

OPEN_FORM = {"truthfulqa": "truthfulqa_gen", "truthfulqa_in_order": "truthfulqa_gen"}
"""Benchmarks that are also asked as open questions."""

PaperModel = Literal["llama-3.2-3b", "llama-3.1-8b", "gemma-2-2b", "phi-3.5-mini", "qwen2.5-3b"]
"""The models of `paper.json`."""


class Setup(Settings):
    """The common settings of all runs of a reproduction; defaults are the paper's. The tables vary all other settings.

    Raises:
        ParameterError: a value of the wrong type or outside its range.

    >>> Setup(model="gemma-2-2b", benchmarks=["capitals:20", "arc"]).names
    ('capitals', 'arc')
    """

    model: Annotated[str, OF_MODEL] = Field("smollm2", description="Preset (smollm2), hub id, folder or GGUF file.")
    dtype: Annotated[Dtype, OF_MODEL] = Field("auto", description="Precision of the weights: auto, bf16, fp16 or fp32.")
    device: Annotated[Device, OF_MODEL] = Field("auto", description="Device: auto, cpu, cuda, cuda:1, ... or mps.")
    quantize: Annotated[Quantize | None, OF_MODEL] = Field(None, description="Quantize layers to 8bit or 4bit.")
    benchmarks: Annotated[Names, OF_QUESTIONS] = Field(STREAM, description="Benchmarks, for example arc,capitals:50.")
    per_domain: Annotated[int, OF_QUESTIONS] = Field(500, ge=1, description="Questions per benchmark; 500 by default.")
    data: Annotated[str | None, OF_QUESTIONS] = Field(
        None, description="Folder of benchmarks; by default SECL_DATA, or else the hub."
    )
    gate: Annotated[str, OF_METHOD] = Field(PAPER_GATE, description="Gate of runs that learn; by default page-hinkley.")
    tau: Annotated[float | None, OF_METHOD] = Field(
        None, gt=0, description="Temperature of normalised P(True); the model's own by default."
    )
    nli: Annotated[str | None, OF_METHOD] = Field(None, description="NLI model of DINCO; the model itself by default.")
    against: PaperModel | None = Field(None, description="Model of the paper to compare with; by default --model.")

    @property
    def model_name(self) -> str:
        return Path(self.model).name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(benchmark.partition(":")[0] for benchmark in self.benchmarks)


def settings_of(run: Run, setup: Setup) -> dict[str, Any]:
    """Return the settings of a run for `secl.runs.RunSettings.of`. The setup overrides the paper, and the run's changes
    override both.

    Equal runs of different tables have equal settings, so settings equal to a default of gate or preset are left out.

    >>> settings = settings_of(Run("burst 20", {"gate.burst": 20}), Setup(benchmarks=["capitals"], per_domain=6))
    >>> settings["stream.benchmarks"], settings["gate.name"], settings["gate.burst"], settings["paper"]
    (('capitals:6',), 'page-hinkley', 20, True)
    """
    chosen = method(run.changes.get("method", "secl"))
    gate = run.changes.get("gate.name", setup.gate) if chosen.learns else None
    settings: dict[str, Any] = {
        "method": "secl",
        "paper": True,
        "model.name": setup.model,
        "model.dtype": setup.dtype,
        "model.device": setup.device,
        "model.quantize": setup.quantize,
        "stream.data": setup.data,
        "evidence.tau": setup.tau,
        "evidence.nli": setup.nli if "dinco" in chosen.evidence else None,
        "stream.benchmarks": benchmarks_of(run, setup),
        "gate.name": gate,
        **run.changes,
    }
    if gate is not None and settings.get("gate.burst") == getattr(gate_class(gate)(), "burst", None):
        settings["gate.burst"] = None
    if "adapter.layers" in run.changes:
        from secl_paper.lora_sizes import adapter_of  # torch takes seconds to import

        if settings["adapter.layers"] == adapter_of(setup.model).layers:
            settings["adapter.layers"] = None
    return settings


def benchmarks_of(run: Run, setup: Setup) -> tuple[str, ...]:
    """The benchmarks of a run, each with its number of questions: the setup's stream, longer or open-ended.

    A longer stream takes no more questions of a benchmark than it has.

    >>> setup = Setup(benchmarks=["capitals:5", "misconceptions"], per_domain=90)
    >>> benchmarks_of(Run("x", scale=2, open_ended=True), setup)
    ('capitals:10', 'misconceptions:98')
    """
    benchmarks = []
    for name, entry in zip(setup.names, setup.benchmarks, strict=True):
        opened = OPEN_FORM.get(name, name) if run.open_ended else name
        # Keep the benchmark if the stream also has its open-ended form, so that no benchmark comes twice.
        benchmark = name if opened in setup.names else opened
        count = entry.partition(":")[2] or str(setup.per_domain)
        if run.scale > 1 and count.isdecimal():
            available = load(benchmark, data=Path(setup.data) if setup.data else None)
            count = str(max(int(count), min(run.scale * int(count), len(available))))
        benchmarks.append(f"{benchmark}:{count}")
    return tuple(benchmarks)
