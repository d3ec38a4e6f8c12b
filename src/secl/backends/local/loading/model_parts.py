"""The parts of a causal language model: decoder, layers, final norm and head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from accelerate.utils import align_module_device
from torch import Tensor, nn

from secl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

FINAL_NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f", "norm_f")


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return the text model's part of a configuration."""
    return config.get_text_config(decoder=True)


def decoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the text model without its head, or the model itself if transformers does not know its parts."""
    decoder = model.get_decoder()
    return getattr(model, "model", model) if decoder is model else decoder  # Llama 4 names the decoder `model`


@dataclass(frozen=True)
class LinearHead:
    """The output embedding of a model, which computes the logits of interest in float32.

    A bf16 head would round these logits coarsely. The other logits matter only for normaliser and entropies, where
    rounding errors average out.

    Attributes:
        softcap: soft bound of the logits (Gemma 2), or None.
        scale: factor of the logits before the soft bound (Granite, Cohere).
    """

    module: nn.Linear
    softcap: float | None
    scale: float = 1.0

    @classmethod
    def of(cls, model: PreTrainedModel) -> LinearHead:
        """Return the head of a transformers causal language model; raise `ModelError` without one."""
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
        """Return the logits (N, V) of the full vocabulary in float32; the logits of `exact` agree with `rows`."""
        logits = self._finished(self._wide(hidden)).to(hidden.device)
        logits[:, exact] = self.rows(hidden, exact)
        return logits

    def written(self, hidden: Tensor) -> Tensor:
        """Return the logits (N, V) with the model's own rounding when it writes."""
        return self._finished(self.module(hidden).float()).to(hidden.device)

    def _wide(self, hidden: Tensor) -> Tensor:
        """Return the products with the whole vocabulary in float32; a GPU need not round 16-bit products."""
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
    """The head of a network whose passes return logits already."""

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
            raise ModelError(f"the layout of {type(model).__name__} is not known.")
        return cls(decoder, max(lists, key=len), norms[0])


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the decoder layers of a model; the model itself if its layout is unknown."""
    try:
        return list(Layout.find(model).layers)
    except ModelError:
        return [model]
