"""Numbers from the configuration of a model alone: its layers, and the size of its adapter."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from secl.backends.local.adapter import Adapter
from secl.backends.local.loading.conversion import convert_gguf, is_gguf
from secl.backends.local.loading.guard import NO_CODE, as_model_error, quiet
from secl.backends.local.loading.loader import choose_dtype, locate, text_class
from secl.backends.local.loading.model_parts import choose_device, text_config
from secl.backends.local.loading.presets import Preset, parse_layers, preset_of, rule_for
from secl.settings.groups import AdapterSettings


def lora_sizes(name: str, settings: AdapterSettings) -> dict[str, float]:
    """Return the sizes of a model and its adapter by column name, without loading weights (Table lora_params).

    Raises:
        ModelError: the model's configuration cannot be read.
        ParameterError: the model lacks some of the layers.
    """
    model, known = _without_weights(name), adapter_of(name)
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


@lru_cache(maxsize=8)
def adapter_of(name: str) -> Preset:
    """Return the adapted layers and modules of a model: by its preset, or else by inspection of the network."""
    return preset_of(name) or rule_for(_without_weights(name))


@lru_cache(maxsize=8)
def _config(name: str) -> Any:
    source = locate(name)
    if is_gguf(source):
        source = convert_gguf(Path(source), choose_dtype("auto", choose_device("auto")))
    with as_model_error(name), quiet():
        return AutoConfig.from_pretrained(str(source), **NO_CODE)


def _without_weights(name: str) -> Any:
    """Return the network on the meta device, with shapes and without memory."""
    config = _config(name)
    with torch.device("meta"), quiet():
        return text_class(name, config).from_config(config, **NO_CODE)
