"""LoRA's matrices in a model, by PEFT: drawn, switched on and off, and measured."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from peft.utils.integrations import dequantize_module_weight
from torch import nn

from secl.backends.local.loading.model_parts import decoder_of, layers_of
from secl.backends.local.loading.placement import weights_at_hand
from secl.backends.local.loading.quantisation import keep_gradients
from secl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Lora:
    """Low-rank matrices beside some linear modules of a model, off except inside `with lora.on()`.

    Args:
        model, layers, modules, rank, alpha, seed: as for `secl.backends.local.adapter.Adapter`.

    Attributes:
        config: in PEFT's terms.
        peft: the model with the matrices in it.
        parameters: the matrices by name, in a fixed order.
        initial: what they were at first.

    Raises:
        ModelError: PEFT cannot adapt modules of that kind.
    """

    def __init__(
        self, model: PreTrainedModel, layers: Sequence[int], modules: Sequence[str], rank: int, alpha: int, seed: int
    ) -> None:
        self.config = LoraConfig(
            r=rank,
            lora_alpha=alpha,
            target_modules=list(modules),
            layers_to_transform=list(layers),
            exclude_modules=_elsewhere(model, modules),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        # PEFT draws the initial weights from the global generator; the fork leaves the caller's stream alone.
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            try:
                # Its weights go where those of the adapted modules are.
                with warnings.catch_warnings(), weights_at_hand(_adapted(model, layers, modules)):
                    # PEFT asks transformers for a deprecated name, and announces what it does for Conv1D modules.
                    warnings.filterwarnings("ignore", message=".*(is_gradient_checkpointing|fan_in_fan_out).*")
                    self.peft = get_peft_model(model, self.config)
            except ValueError as problem:
                raise ModelError(f"LoRA does not fit {type(model).__name__}: {problem}") from problem
        self.peft.eval()
        keep_gradients(model)
        self.parameters: dict[str, nn.Parameter] = {
            name: parameter for name, parameter in self.peft.named_parameters() if parameter.requires_grad
        }
        self.initial = [parameter.detach().clone() for parameter in self.parameters.values()]
        # Kept, because PEFT's own switch walks through all modules of the network, for every pass.
        self._modules = [module for module in model.modules() if isinstance(module, LoraLayer)]
        self._switch(on=False)

    def _switch(self, *, on: bool) -> None:
        for module in self._modules:
            module.enable_adapters(on)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside the block the network is the adapted model."""
        self._switch(on=True)
        try:
            yield
        finally:
            self._switch(on=False)
            for parameter in self.parameters.values():
                parameter.requires_grad_(True)

    @property
    def relative_norm(self) -> float:
        """Norm of the change over norm of the weights that it changes."""
        change = base = 0.0
        for module in self._modules:
            scale = module.scaling["default"]
            delta = scale * module.lora_B["default"].weight.detach().float() @ module.lora_A["default"].weight.float()
            change += delta.square().sum().item()
            with weights_at_hand([module.get_base_layer()]):
                base += dequantize_module_weight(module.get_base_layer()).detach().float().square().sum().item()
        return math.sqrt(change / base)


def _elsewhere(model: PreTrainedModel, modules: Sequence[str]) -> str | None:
    """A pattern for all that is not in the text model of a multimodal one, where modules of these names are, too."""
    text = decoder_of(model)
    prefix = next(name for name, module in model.named_modules() if module is text)
    inside = re.compile(rf"{re.escape(prefix)}\." if prefix else "")
    others = [name for name, _ in model.named_modules() if name.endswith(tuple(modules)) and not inside.match(name)]
    return rf"(?!{inside.pattern}).*" if others else None


def _adapted(model: PreTrainedModel, layers: Sequence[int], modules: Sequence[str]) -> list[nn.Module]:
    """The linear modules that LoRA goes onto."""
    chosen = [layer for number, layer in enumerate(layers_of(model)) if number in layers]
    return [module for layer in chosen for name, module in layer.named_modules() if name.endswith(tuple(modules))]
