"""Devices of a model: one, or several with accelerate.

For a model on several devices, accelerate's hooks move the inputs of each layer to the layer's device. The hooks also
load weights from CPU or disk while a layer needs them. Token ids, logits and final hidden states are on the model's
main device.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import align_module_device
from numpy.typing import NDArray
from torch import Tensor, nn

from secl.backends.local.loading.model_parts import layers_of
from secl.errors import ModelError, ParameterError
from secl.settings.groups import check_device

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AUTO = "auto"


def choose_device(device: str) -> torch.device:
    """Return the device for a name; "auto" prefers CUDA, then MPS, then the CPU.

    Raises:
        ParameterError: unknown name.
        ModelError: no such device on this machine.
    """
    check_device(device)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has = {"cpu": True, "cuda": gpus > 0, "mps": torch.backends.mps.is_available()}
    if device == AUTO:
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if has[name]))
    chosen = torch.device(device)
    if not has[chosen.type] or (chosen.index or 0) >= max(gpus, 1):
        beside = f" (its GPUs are cuda:0 to cuda:{gpus - 1})" if gpus and chosen.type == "cuda" else ""
        raise ModelError(f"this machine has no {device} device{beside}; use --device auto.")
    return chosen


def read_map(source: str) -> str | dict[str, int | str]:
    """Return "auto", or the devices of modules from a JSON file, {"model.embed_tokens": "cuda:0", ...}.

    Raises:
        ParameterError: the file cannot be read, or has another form.
    """
    if source == AUTO:
        return source
    try:
        devices = json.loads(Path(source).read_text(encoding="utf-8"))
    except OSError as problem:
        raise ParameterError(f"the device map {source} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:
        raise ParameterError(f"the device map {source} is not JSON: {problem}.") from problem
    if not isinstance(devices, dict) or not all(type(device) in (int, str) for device in devices.values()):
        raise ParameterError(
            f'the device map {source} is not a table of modules and devices, such as {{"model.layers.0": "cuda:0"}}.'
        )
    return devices


def check_map(devices: Mapping[str, int | str], model: nn.Module) -> None:
    """Raise `ParameterError` for a module that the model lacks; transformers would ignore the entry."""
    modules = dict(model.named_modules())
    for name in devices:
        if name not in modules:
            known = ", ".join(each for each in modules if each.count(".") <= 1 and each)
            raise ParameterError(f"the device map names {name!r}, which the model does not have; it has {known}, ...")


def compute_device(module: nn.Module) -> torch.device:
    """Return the device that computes a module, which may differ from the device that stores the weights.

    For a whole model, return the main device.
    """
    device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
    return next(module.parameters()).device if device is None else torch.device(device)


def sent(numbers: NDArray[np.int64], device: torch.device) -> Tensor:
    """Return whole numbers as a tensor on a device, without waiting for the device."""
    here = torch.from_numpy(numbers)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)


@contextmanager
def weights_at_hand(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within the block, the weights of the modules are on the devices that compute the modules."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(align_module_device(module))
        yield


def described_devices(model: PreTrainedModel) -> str:
    """Return the devices of a model's layers: "cpu", "NVIDIA H100", or "20 x NVIDIA A100, 12 x Tesla T4"."""
    names = [_device_name(compute_device(layer)) for layer in layers_of(model)]
    parts = [(name, len(list(group))) for name, group in itertools.groupby(names)]
    return parts[0][0] if len(parts) == 1 else ", ".join(f"{count} x {name}" for name, count in parts)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def twin(model: PreTrainedModel) -> PreTrainedModel:
    """Copy the modules of a model, and share the weights and buffers on every device.

    The copy has its own hooks, modes and flags such as `requires_grad`.
    """
    shared: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    for weight in model.parameters():
        # Quantised weights hold more than values, and never have gradients.
        plain = type(weight) is nn.Parameter
        shared[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False) if plain else weight
    for module in model.modules():
        parts = [getattr(getattr(module, "_hf_hook", None), "weights_map", None)]
        # bitsandbytes also keeps scales and views of the weights.
        parts += [getattr(module, name, None) for name in ("state", "quant_state")]
        shared |= {id(part): part for part in parts if part is not None}
    return copy.deepcopy(model, shared)
