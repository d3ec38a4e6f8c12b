"""Model and questions of the benchmarks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from examples.secl_by_hand import ByHand
from secl import load_stream
from secl.backends.local.loading.loader import Loaded, load
from secl.backends.local.loading.presets import parse_layers
from secl.backends.local.model import LocalModel
from secl.data.benchmarks import quiz
from secl.question import Form, Question
from secl.runs import RunSettings
from secl.runs.loading import model_cache
from secl.settings.groups import Device, Dtype, ModelSettings

OFFICIAL = ("mmlu", "arc", "truthfulqa")
BUILT_IN = ("science", "capitals", "misconceptions")
Say = Callable[[str], None]
"""Reports progress."""


@dataclass(frozen=True)
class Setting:
    """Model, data and sizes of a measurement.

    Attributes:
        data: folder with the benchmarks' official files; None for the built-in quiz.
        questions: number of questions of a timed round.
        rounds: number of rounds, in which the compared programs take turns.
        stream_questions: number of questions of a stream, over its three domains.
        growth_questions: number of questions of the stream that measures growth of time and memory.
    """

    model: str = "smollm2"
    dtype: Dtype = "auto"
    device: Device = "cpu"
    data: str | None = None
    questions: int = 32
    rounds: int = 3
    stream_questions: int = 600
    growth_questions: int = 10_000

    @property
    def key(self) -> str:
        """Name under which the results are stored."""
        name = Path(self.model).name if Path(self.model).exists() else self.model
        name = name if self.dtype == "auto" else f"{name} in {self.dtype}"
        return name if self.device == "cpu" else f"{name} on {self.device}"

    def domains(self, count: int) -> tuple[str, ...]:
        """Return the three multiple-choice domains with `count` questions in total, or all questions of the quiz."""
        each = -(-count // 3)
        if self.data is not None:
            return tuple(f"{name}:{each}" for name in OFFICIAL)
        return tuple(f"{name}:{min(each, len(quiz(name)))}" for name in BUILT_IN)

    def recipe(self, count: int, settings: Mapping[str, object]) -> RunSettings:
        """Return the settings of a run with `count` questions of the three domains."""
        model = {"model.name": self.model, "model.dtype": self.dtype, "model.device": self.device}
        stream = {"stream.data": self.data, "stream.benchmarks": self.domains(count)}
        return RunSettings.of({**model, **stream, **settings})

    def choices(self, count: int) -> list[Question]:
        """Return multiple-choice questions, alternating between the three domains."""
        asked = self._stream(*self.domains(count))
        each = -(-len(asked) // 3)
        return [question for place in range(each) for question in asked[place::each]][:count]

    def open(self, form: Form, count: int) -> list[Question]:
        """Return open questions of a form; without data files, quiz questions without their options."""
        if form == "number":
            return self._stream(f"gsm8k:{count}" if self.data else f"arithmetic:{count}")
        if form == "sentence" and self.data:
            return self._stream(f"truthfulqa_gen:{count}")
        asked = self._stream(f"misconceptions:{count}" if form == "sentence" else f"capitals:{count}")
        return [replace(question, options=(), reference=None, form=form) for question in asked]

    def _stream(self, *names: str) -> list[Question]:
        return load_stream(names, None, data=Path(self.data) if self.data else None)

    def loaded(self) -> Loaded:
        """Return new modules of the model; their weights are shared with earlier ones."""
        return model_cache().load(ModelSettings(name=self.model, dtype=self.dtype, device=self.device))

    def library(self, **settings: Any) -> LocalModel:
        """Return the model with an untouched adapter; `settings` as for `LocalModel`."""
        return LocalModel(self.loaded(), **settings)

    def by_hand(self) -> ByHand:
        """Return the method by hand, with its own copy of the weights and the library's adapter layers."""
        own = load(ModelSettings(name=self.model, dtype=self.dtype, device=self.device))
        layers = parse_layers(own.preset.layers, own.model.config.num_hidden_layers)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*")  # PEFT requires this
            return ByHand(own.model, own.tokenizer, layers, own.preset.modules)
