"""Numbers from the configuration of a model alone: its layers, and the size of its adapter."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from secl.backends.local.adapter import Adapter
from secl.backends.local.loading.conversion import convert_gguf
from secl.backends.local.loading.guard import as_model_error, quiet
from secl.backends.local.loading.loader import choose_dtype, locate, text_class
from secl.backends.local.loading.model_parts import choose_device, text_config
from secl.backends.local.loading.presets import Preset, parse_layers, preset_of, rule_for
from secl.settings.groups import AdapterSettings

LAYERS = {
    "smollm2": 30,
    "llama-3.2-3b": 28,
    "llama-3.1-8b": 32,
    "gemma-2-2b": 26,
    "phi-3.5-mini": 32,
    "qwen2.5-3b": 36,
}
"""Number of layers of the models with presets, so that comparing settings loads no model."""


def lora_sizes(name: str, settings: AdapterSettings) -> dict[str, float]:
    """Return the sizes of a model and its adapter by column name, without loading weights (Table lora_params).

    Raises:
        ModelError: the model's configuration cannot be read.
        ParameterError: the model lacks some of the layers.
    """
    model, known = _without_weights(name), _preset(name)
    chosen = parse_layers(settings.layers or known.layers, text_config(model.config).num_hidden_layers)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with torch.device("meta"):
        adapter = Adapter(model, chosen, settings.modules or known.modules, settings)
    return {
        "model_parameters": parameters,
        "adapted_layers": len(chosen),
        "adapter_parameters": adapter.size,
        "adapter_share": adapter.size / parameters,
    }


def layers_beyond_preset(name: str, layers: str) -> str | None:
    """Return the layers as `parse_layers` reads them; None for the model's own layers, so that equal runs have equal
    settings.

    >>> layers_beyond_preset("llama-3.2-3b", "middle:4"), layers_beyond_preset("llama-3.2-3b", "last:4")
    ('middle:4', None)
    """
    count = LAYERS.get(name) or text_config(_config(name)).num_hidden_layers
    return None if parse_layers(layers, count) == parse_layers(_preset(name).layers, count) else layers


@lru_cache(maxsize=8)
def _preset(name: str) -> Preset:
    return preset_of(name) or rule_for(_without_weights(name))


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
