"""How far a kept adapter version moves the weights, read off its safetensors bytes without PyTorch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from secl.errors import RunError

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_A, _B = ".lora_A.", ".lora_B."


def change_norm(weights: bytes, config: Mapping[str, Any]) -> float:
    """Frobenius norm of all that an adapter adds to the weights: of s B A over its modules together, 0 or more.

    Args:
        weights: a version in the safetensors format with PEFT's names.
        config: of the adapter, as PEFT writes it; gives the scaling s.

    Raises:
        RunError: the bytes are damaged, or hold no LoRA matrices.
    """
    try:
        tensors = read_tensors(weights)
        pairs = [(a, tensors[name.replace(_A, _B)]) for name, a in tensors.items() if _A in name]
        total = 0.0
        for a, b in pairs:
            rank = a.shape[0]
            scale = config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)
            # ||BA||^2 = <B'B, AA'>: two small squares in place of a matrix of the layer's size.
            total += scale**2 * float(np.sum((b.T @ b) * (a @ a.T)))
    except (ValueError, KeyError, TypeError) as problem:
        raise RunError(f"a kept adapter version is damaged: {problem}.") from problem
    if not pairs:
        raise RunError("a kept adapter version is damaged: it holds no LoRA matrices.")
    return math.sqrt(max(0.0, total))


def read_tensors(stored: bytes) -> dict[str, npt.NDArray[np.float64]]:
    """The tensors in safetensors bytes in double precision: an 8-byte length, a JSON header, and the numbers.

    Raises:
        ValueError, KeyError, TypeError: these are no such bytes.
    """
    start = 8 + int.from_bytes(stored[:8], "little")
    header = json.loads(stored[8:start])
    found = {}
    for name, described in header.items():
        if name != "__metadata__":
            begin, end = described["data_offsets"]
            values = np.frombuffer(stored[start + begin : start + end], _TYPES[described["dtype"]])
            found[name] = values.reshape(described["shape"]).astype(np.float64)
    return found
