"""What a run is made of: every setting that changes its records, with the defaults of the paper."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from secl.calibrator import Accumulate, EvidenceOn, Loss, check_settings
from secl.errors import DataError, ParameterError
from secl.gates import GATES, Gate
from secl.methods import method
from secl.model import Device, Dtype, PTrueKind, check_training
from secl.settings import Formula, Mean, Order, SignalName
from secl.validation import check_finite, check_whole

OFF = -1
"""`bin_gate` value for no bin gate at all."""

GATE_PARAMETERS = ("burst", "warmup", "threshold", "opening", "ema", "epsilon", "mean", "slack")
"""Fields of a recipe that belong to its gate; None takes the gate's own value."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All settings of a run; together with the model's and the stream's content they determine its records.

    A None takes the model's or the method's own value. Fields are the flags of `secl run` and the keys of a recipe
    file (`read_toml`); `from_json` refuses any other key.

    Attributes:
        model, dtype, device: what to load (see `secl.backends.local.loading.load`).
        stream: benchmarks in order; questions: a JSONL or CSV file in their place.
        per_domain: questions of each benchmark; order: forward, reversed or shuffled.
        data: folder with the benchmarks' official files.
        method: name in `secl.methods.METHODS`.
        gate: name in `secl.gates.GATES`; burst, warmup, threshold: of the gate; opening, slack: of EntropyShift;
            ema, epsilon, mean: of PageHinkley.
        judge: "burst" or "always"; signal: what is learned from; tau, formula, p_true: of normalised P(True); nli: hub
            id or folder of the NLI model of DINCO, None for the answering model itself.
        alpha, delta, bin_gate (-1: off), loss, accumulate: of the calibrator.
        rank, lora_alpha, layers, modules, learning_rate, epochs, beta: of the adapter and its training.
        seed: of option shuffling, stream shuffling, adapter, sampled answers and sampled distractors.
    """

    model: str = "smollm2"
    dtype: Dtype = "auto"
    device: Device = "auto"
    stream: tuple[str, ...] = ()
    questions: str | None = None
    per_domain: int | None = None
    order: Order = "forward"
    data: str | None = None
    method: str = "secl"
    gate: str | None = None
    burst: int | None = None
    warmup: int | None = None
    threshold: float | None = None
    opening: bool | None = None
    ema: float | None = None
    epsilon: float | None = None
    mean: Mean | None = None
    slack: float | None = None
    evidence_on: EvidenceOn | None = None
    signal: SignalName = "norm_p_true"
    tau: float | None = None
    formula: Formula = "log"
    p_true: PTrueKind = "vocabulary"
    nli: str | None = None
    alpha: float = 0.5
    delta: float = 0.15
    bin_gate: int = 1
    loss: Loss = "directional"
    accumulate: Accumulate = "stream"
    rank: int = 8
    lora_alpha: float = 16.0
    layers: str | None = None
    modules: tuple[str, ...] = ()
    learning_rate: float = 5e-5
    epochs: int = 3
    beta: float = 0.0
    seed: int = 42

    def __post_init__(self) -> None:
        for field in ("stream", "modules"):
            value = getattr(self, field)
            object.__setattr__(self, field, tuple(value) if isinstance(value, list) else value)
        self._check_types()
        if bool(self.stream) == bool(self.questions):
            raise ParameterError("a run needs either a stream of benchmarks or a file of questions, not both or none.")
        if self.per_domain is not None:
            check_whole("number of questions per domain", self.per_domain, 1)
        if self.tau is not None:
            check_finite("temperature tau", self.tau, self.tau > 0, "be above 0")
        if self.nli is not None and "dinco" not in (self.signal, *method(self.method).evidence):
            raise ParameterError(
                f"the method {self.method!r} asks no NLI model; leave nli out or take the method dinco."
            )
        check_settings(**self.loop())
        check_training(**self.training())
        self.build_gate()

    def loop(self) -> dict[str, Any]:
        """The settings of the calibrator, beside its gate and signal."""
        return {
            "evidence_on": self.evidence_on or method(self.method).evidence_on,
            "alpha": self.alpha,
            "delta": self.delta,
            "bin_gate": None if self.bin_gate == OFF else self.bin_gate,
            "loss": self.loss,
            "accumulate": self.accumulate,
        }

    def training(self) -> dict[str, Any]:
        """The settings of the adapter and its training, beside the layers and modules that a model decides."""
        return {
            "rank": self.rank,
            "alpha": self.lora_alpha,
            "learning_rate": self.learning_rate,
            "epochs": self.epochs,
            "beta": self.beta,
            "seed": self.seed,
        }

    def _check_types(self) -> None:
        """A recipe file may hold anything; a wrong value is named here and not deep inside."""
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not _fits(value, kind):
                raise ParameterError(f"{name} is {value!r}; it must be {_described(kind)}.")

    def build_gate(self) -> Gate:
        """The gate that this recipe names, with the recipe's changes to its parameters.

        Raises:
            ParameterError: an unknown gate, or a parameter that the gate does not have or does not accept.
        """
        name = self.gate or method(self.method).gate
        if name not in GATES:
            raise ParameterError(f"there is no gate {name!r}; the gates are {', '.join(GATES)}.")
        if self.gate is not None and method(self.method).gate == "never":
            raise ParameterError(f"the method {self.method!r} has no use for a gate; leave the gate {name!r} out.")
        changes = {key: getattr(self, key) for key in GATE_PARAMETERS if getattr(self, key) is not None}
        known = inspect.signature(GATES[name]).parameters
        for key in changes:
            if key not in known:
                raise ParameterError(f"the gate {name!r} has no {key}; leave it out or choose another gate.")
        return GATES[name](**changes)

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values."""
        fields: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return fields

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunSettings:
        """The recipe that `to_json` wrote.

        Raises:
            ParameterError: an unknown key or an unusable value.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in known:
                raise ParameterError(f"the recipe has the unknown key {key!r}; the keys are {', '.join(known)}.")
        return cls(**values)

    def differences(self, other: RunSettings) -> list[str]:
        """Settings that differ, as "tau: 0.7 there, 1.0 here".

        Where the data lie makes no difference, nor does the name of the device: a run's environment has the real one.
        """
        return [
            f"{field.name}: {getattr(self, field.name)} there, {getattr(other, field.name)} here"
            for field in dataclasses.fields(self)
            if field.name not in ("data", "device") and getattr(self, field.name) != getattr(other, field.name)
        ]


def anchored(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with absolute paths, so that a run can be resumed from any working directory.

    A `model` is taken for a path where there is one of that name, unless it is a preset.
    """
    paths = {key: settings[key] for key in ("questions", "data") if settings.get(key)}
    nli = settings.get("nli")
    if isinstance(nli, str) and os.path.isdir(os.path.expanduser(nli)):
        paths["nli"] = os.path.expanduser(nli)
    model = settings.get("model")
    if isinstance(model, str) and os.path.exists(os.path.expanduser(model)):
        from secl.backends.local.presets import PRESETS  # imports torch

        if model not in PRESETS:
            paths["model"] = os.path.expanduser(model)
    return {**settings, **{key: os.path.abspath(path) for key, path in paths.items() if isinstance(path, str)}}


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a recipe file, not yet checked.

    Raises:
        DataError: the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise DataError(f"the recipe {path} cannot be read: {problem.strerror}.") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise DataError(f"the recipe {path} is not valid TOML: {problem}.") from problem


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has an annotated type: a plain one, a union, a literal, or a tuple of names."""
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _described(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_described(part) for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if get_origin(kind) is tuple:
        return "a list of names"
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "a text")
