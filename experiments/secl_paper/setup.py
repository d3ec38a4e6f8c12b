"""What a reproduction runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from secl.settings import FLAT, GateName, ModelSettings, Names
from secl.settings_base import Settings

if TYPE_CHECKING:
    from secl_paper.paper import PaperTable

STREAM = ("gsm8k", "mmlu", "arc", "truthfulqa")
"""The paper's benchmarks in its order."""

PAPER_MODEL, PAPER_GATE = "llama-3.2-3b", "page-hinkley"

PaperModel = Literal["llama-3.2-3b", "llama-3.1-8b", "gemma-2-2b", "phi-3.5-mini", "qwen2.5-3b"]
"""The models of `paper.json`."""


class Setup(Settings):
    """What a reproduction runs on: the flags of `secl reproduce`, which hold for all runs.

    Raises:
        ParameterError: a value of the wrong type or outside its range.
    """

    model: Annotated[ModelSettings, FLAT] = ModelSettings()
    benchmarks: Names = Field(STREAM, description="Benchmarks in forward order, with a number or without.")
    per_domain: int = Field(500, ge=1, description="Questions of each benchmark that has no number.")
    data: str | None = Field(None, description="Folder with official benchmark files; SECL_DATA, else the hub.")
    tau: float | None = Field(None, gt=0, description="Temperature of normalised P(True); the model's own by default.")
    nli: str | None = Field(None, description="NLI model of DINCO, a hub id or folder; the model itself by default.")
    gate: GateName | None = Field(None, description="Gate of SECL where a table names none; page-hinkley by default.")
    against: PaperModel | None = Field(
        None, description="The paper's model to compare with; the same by default, else llama-3.2-3b."
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The benchmarks without their numbers of questions."""
        return tuple(benchmark.partition(":")[0] for benchmark in self.benchmarks)

    def column(self, paper: PaperTable) -> str:
        """The model of the paper's column: the one asked for, the same as ours, Llama 3.2-3B, or the table's first."""
        candidates: tuple[str, ...] = (self.against or "", self.model.name, PAPER_MODEL, *paper.numbers)
        return next(name for name in candidates if name in paper.numbers)
