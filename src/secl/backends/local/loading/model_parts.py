"""The parts of a causal language model (decoder, layers, final norm, head) and their devices.

For a model on several devices, accelerate's hooks move the inputs of each layer to the layer's device. The hooks also
load weights from CPU or disk while a layer needs them. Token ids, logits and final hidden states are on the model's
main device.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import align_module_device
from numpy.typing import NDArray
from torch import Tensor, nn

from secl.errors import ModelError
from secl.settings.groups import Device

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

FINAL_NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f", "norm_f")


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return the text model's part of a configuration."""
    return config.get_text_config(decoder=True)


def decoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the text model without its head, or the model itself if it has no separate decoder."""
    decoder = model.get_decoder()
    # Llama 4's `get_decoder` returns the model itself.
    return getattr(model, "model", model) if decoder is model else decoder


@dataclass(frozen=True)
class LinearHead:
    """The output embedding of a model.

    The logits of the tokens that secl reads (letters, digits, True) are computed in float32, because bf16 would round
    them coarsely. Other logits matter only for normaliser and entropies, where rounding errors average out.

    Attributes:
        softcap: soft bound of the logits (Gemma 2), or None.
        scale: factor of the logits before the soft bound (Granite, Cohere).
    """

    module: nn.Linear
    softcap: float | None
    scale: float = 1.0

    @classmethod
    def of(cls, model: PreTrainedModel) -> LinearHead:
        """Return the head of a transformers causal language model; raise `ModelError` if it has no head."""
        module = model.get_output_embeddings()
        if module is None:
            raise ModelError(f"{type(model).__name__} has no output embedding.")
        config = text_config(model.config)
        scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
        return cls(module, getattr(config, "final_logit_softcapping", None), scale)

    def rows(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """Return the logits (N, R) of the tokens `ids` (R,) in float32, on the device of the hidden states (N, d)."""
        module = self.module
        with align_module_device(module):  # the weights may be on disk
            ids = ids.to(module.weight.device)
            logits = hidden.to(ids.device).float() @ module.weight[ids].float().T
            if getattr(module, "bias", None) is not None:
                logits = logits + module.bias[ids].float()
        return self._finished(logits).to(hidden.device)

    def logits(self, hidden: Tensor, exact: Tensor) -> Tensor:
        """Return the logits (N, V) of the full vocabulary in float32; the logits of the ids `exact` are as in
        `rows`."""
        logits = self._finished(self._wide(hidden)).to(hidden.device)
        logits[:, exact] = self.rows(hidden, exact)
        return logits

    def written(self, hidden: Tensor) -> Tensor:
        """Return the logits (N, V), rounded as the model itself rounds them when it writes."""
        return self._finished(self.module(hidden).float()).to(hidden.device)

    def _wide(self, hidden: Tensor) -> Tensor:
        """Return the products of hidden states and output embedding in float32; CUDA does not round them to 16 bits."""
        module = self.module
        plain = type(module) is nn.Linear and getattr(module, "bias", None) is None and hidden.dtype.itemsize == 2
        # ROCm's devices are named cuda as well, but do not support `out_dtype`.
        if hidden.device.type != "cuda" or torch.version.hip is not None or not plain or torch.is_grad_enabled():
            rounded: Tensor = module(hidden).float()
            return rounded
        with align_module_device(module):
            weight = module.weight
            wide: Tensor = torch.mm(hidden.to(weight.device, weight.dtype), weight.T, out_dtype=torch.float32)
            return wide

    def _finished(self, logits: Tensor) -> Tensor:
        if self.scale != 1:
            logits = logits * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


@dataclass(frozen=True)
class AsLogits:
    """Head for passes that return logits in place of hidden states."""

    def rows(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return hidden[:, ids].float()

    def logits(self, hidden: Tensor, exact: Tensor) -> Tensor:  # noqa: ARG002
        return hidden.float()

    def written(self, hidden: Tensor) -> Tensor:
        return hidden.float()


Head = LinearHead | AsLogits


@dataclass(frozen=True)
class Layout:
    """The decoder of a causal language model, its layers in order, and the norm after the last layer."""

    decoder: nn.Module
    layers: nn.ModuleList
    norm: nn.Module

    @classmethod
    def find(cls, model: PreTrainedModel) -> Layout:
        """Inspect a transformers causal language model; raise `ModelError` if layers or final norm are missing."""
        decoder = decoder_of(model)
        lists = [m for m in decoder.children() if isinstance(m, nn.ModuleList)]
        norms = [getattr(decoder, name) for name in FINAL_NORMS if hasattr(decoder, name)]
        if not lists or not norms:
            raise ModelError(f"secl does not know the layout of {type(model).__name__}.")
        return cls(decoder, max(lists, key=len), norms[0])


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the decoder layers of a model; `[model]` if the layout of the model is unknown."""
    try:
        return list(Layout.find(model).layers)
    except ModelError:
        return [model]


def outside_text_model(model: PreTrainedModel, names: Sequence[str]) -> str | None:
    """Return a regex of the names of modules outside the text model; None if `names` occur only inside."""
    text = decoder_of(model)
    prefix = next(name for name, module in model.named_modules() if module is text)
    inside = re.compile(rf"{re.escape(prefix)}\." if prefix else "")
    others = [name for name, _ in model.named_modules() if name.endswith(tuple(names)) and not inside.match(name)]
    return rf"(?!{inside.pattern}).*" if others else None


def modules_of(model: PreTrainedModel, layers: Sequence[int], names: Sequence[str]) -> list[nn.Module]:
    """Return the modules with these names in these layers."""
    chosen = [layer for number, layer in enumerate(layers_of(model)) if number in layers]
    return [module for layer in chosen for name, module in layer.named_modules() if name.endswith(tuple(names))]


def choose_device(device: Device) -> torch.device:
    """Return the device for a name; "auto" prefers CUDA, then MPS, then the CPU.

    Raises ModelError: this machine has no such device.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has = {"cpu": True, "cuda": gpus > 0, "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if has[name]))
    chosen = torch.device(device)
    if not has[chosen.type] or (chosen.index or 0) >= max(gpus, 1):
        names = ", ".join(f"cuda:{number}" for number in range(gpus))
        beside = f" (its GPUs: {names})" if gpus and chosen.type == "cuda" else ""
        raise ModelError(f"this machine has no {device} device{beside}; use --device auto.")
    return chosen


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
    devices = map(compute_device, layers_of(model))
    names = [torch.cuda.get_device_name(device) if device.type == "cuda" else device.type for device in devices]
    parts = [(name, len(list(group))) for name, group in itertools.groupby(names)]
    return parts[0][0] if len(parts) == 1 else ", ".join(f"{count} x {name}" for name, count in parts)


def twin(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of a model's modules that shares the weights and buffers of the model.

    The copy has its own hooks, modes and flags such as `requires_grad`.
    """
    shared: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    for weight in model.parameters():
        # A new `nn.Parameter` would lose the scales of a quantised weight, so the copy shares the weight itself, which
        # never has gradients.
        plain = type(weight) is nn.Parameter
        shared[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False) if plain else weight
    for module in model.modules():
        parts = [getattr(getattr(module, "_hf_hook", None), "weights_map", None)]
        # bitsandbytes also keeps scales and views of the weights in the modules.
        parts += [getattr(module, name, None) for name in ("state", "quant_state")]
        shared |= {id(part): part for part in parts if part is not None}
    return copy.deepcopy(model, shared)
