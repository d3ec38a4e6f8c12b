"""The trainable weights, and the optimizer steps that move the stated confidence towards a target."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from secl.backends.base import Training
from secl.backends.local.loading.model_parts import Head, modules_of, outside_text_model, weights_at_hand
from secl.backends.local.loading.presets import linear_modules
from secl.backends.local.loading.quantisation import keep_gradients
from secl.errors import ModelError, NotFiniteError
from secl.settings.groups import AdapterSettings

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from peft.tuners.lora import LoraLayer
    from transformers import PreTrainedModel

NUMBERS, STEP = "version and updates", "step"

STEP_COST = 3
"""Cost of an optimizer step in forward passes; the backward pass counts as two."""


class Adapter:
    """LoRA on some layers of a model, switched off outside `with adapter.on()`.

    Args:
        model: a transformers causal language model; its own weights are frozen.
        layers: numbers of the adapted layers.
        modules: names of the adapted linear modules in each layer, for example ("q_proj", "v_proj"); empty if unknown,
            for a model that does not learn.
        settings: settings of LoRA and training; the product of the matrices is scaled by alpha / rank.
        seed: seed of the random A matrices. B starts at zero, so version 0 equals the frozen model.

    Attributes:
        version: number of the update that made the current weights; 0 is the frozen model.
        updates: number of updates so far, including updates before a reset.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        layers: Sequence[int],
        modules: Sequence[str],
        settings: AdapterSettings | None = None,
        *,
        seed: int = 42,
    ) -> None:
        model.requires_grad_(False)
        keep_gradients(model)  # before the first pass, because bitsandbytes chooses its kernels in that pass
        self.model, self.layers, self.modules = model, layers, modules
        self.settings, self.seed = settings or AdapterSettings(), seed
        self.version = self.updates = 0

    # The import of PEFT takes a second, and a model that never learns needs no LoRA matrices. So the next properties
    # import PEFT and make the matrices at their first access.

    @cached_property
    def config(self) -> LoraConfig:
        """PEFT's configuration of the adapter. Raises `ModelError` as `check` does."""
        from peft import LoraConfig

        self.check()
        return LoraConfig(
            r=self.settings.rank,
            lora_alpha=self.settings.lora_alpha,
            target_modules=list(self.modules),
            layers_to_transform=list(self.layers),
            exclude_modules=outside_text_model(self.model, self.modules),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )

    def check(self) -> None:
        """Raise `ModelError` if the model lacks modules of these names, or if the names are unknown."""
        names = [name for name, _ in self.model.named_modules()]
        missing = [each for each in self.modules if not any(f".{name}".endswith(f".{each}") for name in names)]
        if missing or not self.modules:
            lacks = f"modules {' or '.join(missing)}" if missing else "query and value modules of a known name"
            raise ModelError(
                f"{type(self.model).__name__} has no {lacks}; list the modules that learn in adapter.modules (linear "
                f"modules: {', '.join(sorted(linear_modules(self.model)))})."
            )

    @cached_property
    def peft(self) -> PeftModel:
        """The model with LoRA's matrices.

        Raises:
            ModelError: PEFT does not support the class of the adapted modules.
        """
        from peft import get_peft_model

        # PEFT draws the initial weights from the global generator; the fork restores this generator.
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(self.seed)
            try:
                # PEFT makes each matrix on the device where it finds the module's weight. So offloaded weights must be
                # on the devices that compute their modules.
                with warnings.catch_warnings(), weights_at_hand(modules_of(self.model, self.layers, self.modules)):
                    # PEFT warns about a deprecated name in transformers, and about an option that it sets for Conv1D.
                    warnings.filterwarnings("ignore", message=".*(is_gradient_checkpointing|fan_in_fan_out).*")
                    peft = get_peft_model(self.model, self.config)
            except ValueError as problem:
                raise ModelError(f"LoRA does not fit {type(self.model).__name__}: {problem}") from problem
        peft.eval()
        keep_gradients(self.model)
        return peft

    @cached_property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable tensors by name, in a fixed order."""
        parameters = {name: each for name, each in self.peft.named_parameters() if each.requires_grad}
        self._initial = [parameter.detach().clone() for parameter in parameters.values()]
        self._switch(on=False)
        return parameters

    @cached_property
    def _modules(self) -> list[LoraLayer]:
        # PEFT's own switch would visit all modules of the network at every pass, so the LoRA layers are listed once.
        from peft.tuners.lora import LoraLayer

        return [module for module in self.model.modules() if isinstance(module, LoraLayer)]

    def _switch(self, *, on: bool) -> None:
        for module in self._modules:
            module.enable_adapters(on)

    @cached_property
    def optimizer(self) -> torch.optim.AdamW:
        """AdamW, whose moments start at zero after every `reset`."""
        return torch.optim.AdamW(list(self.parameters.values()), lr=self.settings.learning_rate)

    @property
    def size(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters.values())

    @contextmanager
    def on(self) -> Iterator[None]:
        """Within the block the network is the adapted model."""
        if "parameters" not in vars(self):  # before the first update both models are equal
            yield
            return
        self._switch(on=True)
        try:
            yield
        finally:
            self._switch(on=False)
            for parameter in self.parameters.values():
                parameter.requires_grad_(True)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo the block's optimizer steps, bit for bit, if the block ends with an error."""
        weights = [parameter.detach().clone() for parameter in self.parameters.values()]
        moments = copy.deepcopy(self.optimizer.state_dict())
        try:
            yield
        except BaseException:
            with torch.no_grad():
                for parameter, before in zip(self.parameters.values(), weights, strict=True):
                    parameter.copy_(before)
            self.optimizer.load_state_dict(moments)
            raise

    def train(
        self, head: Head, replay: Callable[[], Tensor], cost: float, frozen: Tensor, digits: Tensor, target: float
    ) -> Training:
        """Minimise the squared error between stated confidence and target; the weights become a new version.

        With `beta`, the loss includes KL(frozen || adapted) over the full vocabulary at the confidence token.

        Args:
            replay: computes the adapted model's hidden state (1, d) before the confidence digit.
            cost: number of tokens of a replay.
            frozen: the frozen model's hidden state (1, d) before the confidence digit.
            digits: (10,) token ids of the digits.
            target: in [0, 1].

        Raises:
            NotFiniteError: a loss, a gradient or the confidence is not finite; no weight has changed.
        """
        losses: list[float] = []
        epochs, beta = self.settings.epochs, self.settings.beta
        tokens = cost * (STEP_COST * epochs + 1)  # the last replay reads the new confidence
        with self.all_or_nothing():
            # The layers below the first adapted layer stay frozen, so a replay begins at the first adapted layer.
            for _ in range(epochs):
                hidden = replay()
                loss = (stated_confidence(head.rows(hidden, digits)) - target).square().sum()
                if beta > 0:
                    loss = loss + beta * _divergence(head.logits(frozen, digits), head.logits(hidden, digits))
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                gradients = [each.grad for each in self.parameters.values() if each.grad is not None]
                norm = torch.nn.utils.get_total_norm(gradients)
                losses.append(_finite(cost * STEP_COST * (len(losses) + 1), loss=loss.detach(), gradient=norm))
                self.optimizer.step()
            with torch.no_grad():
                confidence = stated_confidence(head.rows(replay(), digits)).sum()
                after = _finite(tokens, confidence=confidence)
        self.count_update()
        return Training(tuple(losses), after, tokens)

    def count_update(self) -> None:
        """Number the current weights as the next version."""
        self.updates += 1
        self.version = self.updates

    def reset(self) -> None:
        """Return to version 0: initial weights and an empty optimizer."""
        with torch.no_grad():
            for parameter, initial in zip(self.parameters.values(), self._initial, strict=True):
                parameter.copy_(initial)
        vars(self).pop("optimizer", None)
        self.version = 0

    def weights(self) -> bytes:
        """Return the weights, without the optimizer, in the safetensors format with PEFT's names."""
        named = {_peft_name(name): tensor.detach().cpu().contiguous() for name, tensor in self.parameters.items()}
        return bytes(save(named, metadata={"format": "pt"}))

    def load_version(self, weights: bytes, version: int) -> None:
        """Return to the weights of a version, with an empty optimizer; later updates get new numbers.

        Raises:
            ModelError: the weights are damaged, or belong to other layers or another rank.
        """
        tensors = _read(weights)
        self._set({name: tensors.get(_peft_name(name)) for name in self.parameters})
        self.version, self.updates = version, max(version, self.updates)

    @property
    def relative_norm(self) -> float:
        """Norm of the weights' change, divided by the norm of the frozen weights of the adapted modules."""
        if "parameters" not in vars(self):
            return 0.0
        from peft.utils.integrations import dequantize_module_weight

        change = base = 0.0
        for module in self._modules:
            scale = module.scaling["default"]
            delta = scale * module.lora_B["default"].weight.detach().float() @ module.lora_A["default"].weight.float()
            change += delta.square().sum().item()
            with weights_at_hand([module.get_base_layer()]):
                base += dequantize_module_weight(module.get_base_layer()).detach().float().square().sum().item()
        return math.sqrt(change / base)

    def snapshot(self) -> bytes:
        """Return weights, optimizer state and version as safetensors bytes for `restore`."""
        tensors = {NUMBERS: torch.tensor([self.version, self.updates])}
        for name, parameter in self.parameters.items():
            tensors[name] = parameter.detach().cpu().contiguous()
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value.detach().cpu().contiguous()
        return bytes(save(tensors))

    def restore(self, snapshot: bytes) -> None:
        """Return to the state that `snapshot` holds, bit for bit.

        Raises:
            ModelError: the snapshot is damaged, or belongs to other layers or another rank.
        """
        tensors = _read(snapshot)
        self._set(tensors)
        for name, parameter in self.parameters.items():
            if f"{STEP}/{name}" in tensors:  # the step count stays on the CPU
                moments = {key: tensors[f"{key}/{name}"].to(parameter.device) for key in ("exp_avg", "exp_avg_sq")}
                self.optimizer.state[parameter] = {STEP: tensors[f"{STEP}/{name}"], **moments}
        self.version, self.updates = tensors[NUMBERS].tolist()

    @torch.no_grad()
    def _set(self, tensors: Mapping[str, Tensor | None]) -> None:
        """Set the weights, and empty the optimizer."""
        fitting = {name: each for name, each in tensors.items() if each is not None}
        if any(name not in fitting or fitting[name].shape != own.shape for name, own in self.parameters.items()):
            raise ModelError("the adapter snapshot was made with another model, other layers or another rank.")
        self.reset()
        for name, parameter in self.parameters.items():
            parameter.copy_(fitting[name])


def _read(stored: bytes) -> dict[str, Tensor]:
    try:
        return dict(load(stored))
    except SafetensorError as problem:
        raise ModelError(f"the adapter snapshot is damaged: {problem}.") from problem


def _peft_name(name: str) -> str:
    return name.replace(".default.", ".")


def stated_confidence(logits: Tensor) -> Tensor:
    """Return the mean of 0.05, 0.15, ..., 0.95, weighted by softmax(logits of the digits); (..., 10) becomes (...)."""
    centres = (torch.arange(10, device=logits.device) + 0.5) / 10
    return (logits.softmax(-1) * centres).sum(-1)


def _finite(tokens: float, **values: Tensor) -> float:
    """Fetch all values from the device in one transfer, and return the first value.

    Raises:
        NotFiniteError: a value is not finite. The error carries `tokens`, the cost of the update until now.
    """
    numbers: list[float] = torch.stack([*values.values()]).tolist()
    for what, number in zip(values, numbers, strict=True):
        if not math.isfinite(number):
            raise NotFiniteError(f"the {what} of a lesson is {number}; the weights stay unchanged.", tokens)
    return numbers[0]


def _divergence(frozen: Tensor, adapted: Tensor) -> Tensor:
    return torch.nn.functional.kl_div(
        adapted.log_softmax(-1), frozen.log_softmax(-1), log_target=True, reduction="batchmean"
    )
