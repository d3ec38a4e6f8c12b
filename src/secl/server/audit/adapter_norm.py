"""How far a stored adapter version moves the weights, computed from its safetensors bytes without PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from secl.errors import RunError

_A, _B = ".lora_A.", ".lora_B."


def adapter_norm(weights: bytes, config: Mapping[str, Any]) -> float:
    """Frobenius norm of everything that an adapter adds to the weights: of s B A over its modules together, 0 or more.

    Args:
        weights: a version in the safetensors format with PEFT's names.
        config: the adapter's configuration, as PEFT writes it; gives the scaling s.

    Raises:
        RunError: the bytes are damaged, or hold no LoRA matrices.
    """
    try:
        tensors = {name: tensor.astype(np.float64) for name, tensor in load(weights).items()}
        pairs = [(a, tensors[name.replace(_A, _B)]) for name, a in tensors.items() if _A in name]
        total = 0.0
        for a, b in pairs:
            rank = a.shape[0]
            scale = config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)
            # ||BA||^2 = <B'B, AA'>: two small squares instead of a matrix of the layer's size.
            total += scale**2 * float(np.sum((b.T @ b) * (a @ a.T)))
    except (SafetensorError, ValueError, KeyError, TypeError) as problem:
        raise RunError(f"a kept adapter version is damaged: {problem}.") from problem
    if not pairs:
        raise RunError("a kept adapter version is damaged: it holds no LoRA matrices.")
    return math.sqrt(max(0.0, total))
