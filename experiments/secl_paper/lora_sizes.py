"""What can be said of a model from its configuration alone: how many layers it has, how large its adapter is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from secl.backends.local.adapter import Adapter, parse_layers
from secl.backends.local.loading.conversion import convert_gguf
from secl.backends.local.loading.guard import as_model_error, quiet
from secl.backends.local.loading.loader import choose_dtype, locate, text_class
from secl.backends.local.loading.model_parts import text_config
from secl.backends.local.loading.placement import choose_device
from secl.backends.local.loading.presets import PRESETS, SHAPES, Preset, preset_of, rule_for
from secl.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Sizes:
    """A model and its adapter in numbers.

    Attributes:
        model_parameters: of the model itself; shared embeddings count once.
        adapted_layers: that carry the adapter.
        adapter_parameters: trainable ones.
    """

    model_parameters: int
    adapted_layers: int
    adapter_parameters: int


def lora_sizes(name: str, *, layers: str | None = None, modules: tuple[str, ...] = (), rank: int = 8) -> Sizes:
    """The sizes of a model with its adapter, without its weights (Table lora_params).

    Raises:
        ModelError: its configuration cannot be read.
        ParameterError: layers that it does not have.
    """
    model = _without_weights(name)
    known = _preset(name)
    chosen = parse_layers(layers or known.layers, text_config(model.config).num_hidden_layers)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with torch.device("meta"):
        adapter = Adapter(model, chosen, modules or known.modules, rank=rank)
    return Sizes(parameters, len(chosen), adapter.size)


def concrete_layers(name: str, layers: str) -> str | None:
    """Layers as a recipe can have them: "middle:4" as numbers, and None where they are the model's own.

    Args:
        name: of the model.
        layers: what `parse_layers` reads, or "middle:N" for the N layers around the middle (12-15 of 28).

    Raises:
        ModelError: the model's configuration cannot be read.
        ParameterError: not understood, or layers that the model does not have.

    >>> concrete_layers("llama-3.2-3b", "middle:4"), concrete_layers("llama-3.2-3b", "last:4")
    ('12-15', None)
    """
    own = _preset(name)
    count = int(SHAPES[name][1] if name in SHAPES else text_config(_config(name)).num_hidden_layers)
    if match := re.fullmatch(r"middle:(\d+)", layers):
        size = int(match[1])
        if not 0 < size <= count:
            raise ParameterError(f"layers {layers!r} do not fit a model of {count} layers (0 to {count - 1}).")
        first = (count - size) // 2
        layers = f"{first}-{first + size - 1}"
    return None if parse_layers(layers, count) == parse_layers(own.layers, count) else layers


@lru_cache(maxsize=8)
def _preset(name: str) -> Preset:
    if name in PRESETS:
        return PRESETS[name]
    return preset_of(_config(name)) or rule_for(_without_weights(name))


@lru_cache(maxsize=8)
def _config(name: str) -> Any:
    source = locate(name)
    if isinstance(source, Path) and source.suffix == ".gguf":
        source = convert_gguf(source, choose_dtype("auto", choose_device("auto")))
    with as_model_error(name), quiet():
        return AutoConfig.from_pretrained(str(source))


def _without_weights(name: str) -> Any:
    """The network on the meta device, which has shapes and no memory."""
    config = _config(name)
    with torch.device("meta"), quiet():
        return text_class(name, config).from_config(config)
