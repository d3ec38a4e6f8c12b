"""Linear layers of a model's body in 8 or 4 bits, by bitsandbytes.

Head and embeddings keep their precision, so that probabilities stay exact. The adapter learns in float32.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import BitsAndBytesConfig, PreTrainedConfig, PreTrainedModel

from secl.backends.local.loading.conversion import is_gguf
from secl.errors import ParameterError, needs
from secl.settings.groups import Quantize

LIBRARY = "bitsandbytes"


def check_quantisable(quantize: Quantize, home: torch.device, source: Path | str) -> None:
    """Raise `ParameterError` if bitsandbytes is missing, the device is not supported, or the source is a GGUF file."""
    if importlib.util.find_spec(LIBRARY) is None:
        raise ParameterError(needs(f"--quantize {quantize}", LIBRARY, "quantize"))
    if is_gguf(source):
        file = Path(source).name
        raise ParameterError(
            f"{file} is quantised already; leave --quantize out, or name the folder or hub id of the original."
        )
    if home.type == "mps":
        raise ParameterError(f"{LIBRARY} does not compute on mps; leave --quantize out, or take --device cpu.")


def quantisation(
    quantize: Quantize | None, precision: torch.dtype, config: PreTrainedConfig
) -> dict[str, BitsAndBytesConfig]:
    """Return transformers' arguments that quantise linear layers during loading; {} if `quantize` is None.

    "8bit" is LLM.int8(); "4bit" is NF4 with quantised scales, as in QLoRA, and products in `precision`.

    Raises:
        ParameterError: the model is quantised already.
    """
    if quantize is None:
        return {}
    if getattr(config, "quantization_config", None) is not None:
        raise ParameterError(f"{config.name_or_path} is quantised already; leave --quantize out.")
    if quantize == "8bit":
        return {"quantization_config": BitsAndBytesConfig(load_in_8bit=True)}
    nf4 = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=precision,
    )
    return {"quantization_config": nf4}


def keep_gradients(model: PreTrainedModel) -> None:
    """Let gradients flow through quantised layers of a model in evaluation mode.

    In evaluation mode bitsandbytes uses CPU kernels without a backward pass, so its layers stay in training mode. The
    mode has no other effect on these layers.
    """
    for module in model.modules():
        if type(module).__module__.startswith(f"{LIBRARY}."):
            module.training = True


def described_weights(model: PreTrainedModel) -> str | None:
    """Return method and library of a quantised model; None for other models."""
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is None:
        return None
    config = quantizer.quantization_config
    if isinstance(config, BitsAndBytesConfig):
        return f"{config.quantization_method()}, {LIBRARY} {version(LIBRARY)}"
    return str(config.quant_method.value)
