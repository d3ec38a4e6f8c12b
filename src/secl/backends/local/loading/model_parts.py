"""The parts of a causal language model: its decoder, layers and final norm, and the head that gives logits."""

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
    """Return the part of a configuration that is about the text model."""
    return config.get_text_config(decoder=True)


def decoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the text model without its head; the model itself where transformers does not know its parts."""
    decoder = model.get_decoder()
    return getattr(model, "model", model) if decoder is model else decoder  # Llama 4 has another name for it


@dataclass(frozen=True)
class LinearHead:
    """The output embedding of a model: final hidden states to logits, the rows of interest computed in float32.

    A bf16 head puts the probabilities of interest on a coarse grid; the rest of the vocabulary only matters for the
    normaliser and for entropies, where its rounding averages out.

    Attributes:
        softcap: the bound of a soft cap on the logits (Gemma 2), or None.
        scale: factor of the logits before that (Granite, Cohere).
    """

    module: nn.Linear
    softcap: float | None
    scale: float = 1.0

    @classmethod
    def of(cls, model: PreTrainedModel) -> LinearHead:
        """Return the head of a transformers causal language model; raises `ModelError` where it has none."""
        module = model.get_output_embeddings()
        if module is None:
            raise ModelError(f"{type(model).__name__} has no output embedding.")
        config = text_config(model.config)
        scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
        return cls(module, getattr(config, "final_logit_softcapping", None), scale)

    def rows(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """Logits (N, R) of the vocabulary rows `ids` (R,) in float32, on the device of the hidden states (N, d)."""
        module = self.module
        with align_module_device(module):  # its weights may lie on the disk
            ids = ids.to(module.weight.device)
            logits = hidden.to(ids.device).float() @ module.weight[ids].float().T
            if getattr(module, "bias", None) is not None:
                logits = logits + module.bias[ids].float()
        return self._finished(logits).to(hidden.device)

    def logits(self, hidden: Tensor, exact: Tensor) -> Tensor:
        """Logits (N, V) of the full vocabulary in float32; the rows `exact` agree with `rows`."""
        logits = self._finished(self._wide(hidden)).to(hidden.device)
        logits[:, exact] = self.rows(hidden, exact)
        return logits

    def written(self, hidden: Tensor) -> Tensor:
        """Logits (N, V) as the model itself rounds them when it writes."""
        return self._finished(self.module(hidden).float()).to(hidden.device)

    def _wide(self, hidden: Tensor) -> Tensor:
        """Products with the whole vocabulary in float32: on a GPU those of 16 bits need not be rounded back."""
        module = self.module
        plain = type(module) is nn.Linear and getattr(module, "bias", None) is None and hidden.dtype.itemsize == 2
        # ROCm calls its devices cuda as well, and refuses such products.
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
    """The decoder of a causal language model, its layers in order, and the norm after the last one."""

    decoder: nn.Module
    layers: nn.ModuleList
    norm: nn.Module

    @classmethod
    def find(cls, model: PreTrainedModel) -> Layout:
        """Inspect a transformers causal language model; raises `ModelError` where layers or final norm are missing."""
        decoder = decoder_of(model)
        lists = [m for m in decoder.children() if isinstance(m, nn.ModuleList)]
        norms = [getattr(decoder, name) for name in FINAL_NORMS if hasattr(decoder, name)]
        if not lists or not norms:
            raise ModelError(f"the layout of {type(model).__name__} is not known.")
        return cls(decoder, max(lists, key=len), norms[0])


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the decoder layers of a model; of one whose layout is not known, the model itself."""
    try:
        return list(Layout.find(model).layers)
    except ModelError:
        return [model]
