"""Every setting, declared once: its name, type, range, default and meaning.

The groups below are what flags, recipe files, sweep grids and a run's manifest are made of, and what the components
take: `LoopSettings` goes to the calibrator, `AdapterSettings` to the model, and so on. Defaults are the paper's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from secl.errors import ParameterError

Dtype = Literal["auto", "bf16", "fp16", "fp32"]
"""Precision of the network's body."""

Device = Literal["auto", "cpu", "cuda", "mps"]
"""Where the network computes."""

PTrueKind = Literal["vocabulary", "pair"]
"""P("True") over the full vocabulary, or against "False" alone."""

EvidenceOn = Literal["burst", "always"]
Loss = Literal["directional", "mse"]
Accumulate = Literal["stream", "burst", "question"]
Order = Literal["forward", "reversed", "shuffled"]
Formula = Literal["log", "exp"]
Mean = Literal["ema", "cumulative"]
SignalName = Literal["norm_p_true", "p_true", "self_consistency", "dinco"]
GateName = Literal["entropy-shift", "page-hinkley", "always", "never"]

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Settings(BaseModel):
    """Base of all groups: immutable, without unknown keys, and with errors of one sentence.

    Raises:
        ParameterError: an unknown key, a value of the wrong type, or one outside its range; the message names the key,
            the value and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as problem:
            raise ParameterError(describe(problem)) from None


class ModelSettings(Settings):
    """Which model to load, and how."""

    name: str = Field("smollm2", description="Preset, hub id, folder or GGUF file.")
    dtype: Dtype = Field("auto", description="Precision of the network's body.")
    device: Device = Field("auto", description="Where the network computes.")


class StreamSettings(Settings):
    """Which questions to ask, and in which order."""

    benchmarks: tuple[str, ...] = Field((), description="Benchmarks in order, for example mmlu,arc or capitals:50.")
    questions: str | None = Field(None, description="Your own questions (JSONL or CSV) instead of benchmarks.")
    per_domain: int | None = Field(None, ge=1, description="Questions of each benchmark; all by default.")
    order: Order = Field("forward", description="Order of the domains.")
    data: str | None = Field(None, description="Folder with official benchmark files; SECL_DATA, else the hub.")


class GateSettings(Settings):
    """When to learn. None takes the method's gate, and the gate's own value of a parameter (`secl.gates`)."""

    name: GateName | None = Field(None, description="Change detector that opens bursts.")
    burst: int | None = Field(None, ge=1, description="Questions in a burst.")
    warmup: int | None = Field(None, ge=1, description="Questions before the gate can fire.")
    threshold: float | None = Field(None, gt=0, description="Statistic above which the gate fires.")
    opening: bool | None = Field(None, description="entropy-shift: whether the stream's start opens a burst.")
    slack: float | None = Field(None, ge=0, description="entropy-shift: ignored shift, in standard deviations.")
    ema: float | None = Field(None, gt=0, le=1, description="page-hinkley: weight of the newest entropy in the mean.")
    epsilon: float | None = Field(None, ge=0, description="page-hinkley: ignored rise, in nats.")
    mean: Mean | None = Field(None, description="page-hinkley: reference mean.")


class EvidenceSettings(Settings):
    """What the frozen model is asked about an answer, and how that becomes the training signal."""

    signal: SignalName = Field("norm_p_true", description="Training signal.")
    tau: float | None = Field(None, gt=0, description="Temperature of normalised P(True); None: the model's.")
    formula: Formula = Field("log", description="log: softmax(log P / tau); exp: softmax(P / tau).")
    p_true: PTrueKind = Field("vocabulary", description="P(True), or True / (True + False).")
    nli: str | None = Field(None, description="NLI model for DINCO: hub id or folder; None: the model itself.")


class LoopSettings(Settings):
    """The learning rule (Eq. target) and where evidence is gathered."""

    evidence_on: EvidenceOn | None = Field(None, description="Gather evidence in bursts only, or always.")
    alpha: float = Field(0.5, gt=0, le=1, description="Fraction of the way from stated confidence to signal.")
    delta: float = Field(0.15, gt=0, le=1, description="Largest move per update.")
    bin_gate: int | None = Field(1, ge=0, le=9, description="No update if the bins differ by at most this; off.")
    loss: Loss = Field("directional", description="directional: towards Eq. target; mse: towards the signal.")
    accumulate: Accumulate = Field("stream", description="How long updates add up.")


class AdapterSettings(Settings):
    """LoRA and its training."""

    rank: int = Field(8, ge=1, description="LoRA rank.")
    lora_alpha: float = Field(16.0, gt=0, description="LoRA scaling.")
    layers: str | None = Field(None, description="Adapted layers: last:4, all, 12-15; None: the model's preset.")
    modules: tuple[str, ...] = Field((), description="Adapted linear modules; empty: the model's preset.")
    learning_rate: float = Field(5e-5, gt=0, description="AdamW learning rate.")
    epochs: int = Field(3, ge=1, description="Optimizer steps per question.")
    beta: float = Field(0.0, ge=0, description="Weight of the KL term.")


def describe(problem: ValidationError) -> str:
    """The first error of a validation as one sentence that names the key, the value and what is allowed.

    >>> try:
    ...     LoopSettings(alpha=2)
    ... except ParameterError as problem:
    ...     print(problem)
    alpha is 2; it must be less than or equal to 1.
    """
    error = problem.errors(include_url=False)[0]
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"there is no setting {key!r}."
    return f"{key} is {error['input']!r}; it {error['msg'].removeprefix('Input ').replace('should', 'must', 1)}."
