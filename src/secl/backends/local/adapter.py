"""The weights that learn and their optimizer: all that learning changes. They can be saved and restored bit for bit."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from secl.backends.local.loading.quantisation import keep_gradients
from secl.errors import ModelError, ParameterError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from secl.backends.local.lora import Lora

NUMBERS, STEP = "version and updates", "step"


def parse_layers(text: str, count: int) -> tuple[int, ...]:
    """Layer numbers from a description, for a network of `count` layers.

    Args:
        text: "all", "last:8", "first:4", "middle:4", "12-15", or "3,5,7".
        count: how many layers the network has.

    Raises:
        ParameterError: not one of these forms, or outside the network.

    >>> parse_layers("last:4", 28), parse_layers("middle:4", 28)
    ((24, 25, 26, 27), (12, 13, 14, 15))
    """
    chosen: list[int]
    if text == "all":
        chosen = list(range(count))
    elif match := re.fullmatch(r"(first|middle|last):(\d+)", text):
        size = int(match[2])
        start = {"first": 0, "middle": (count - size) // 2, "last": count - size}[match[1]]
        chosen = list(range(start, start + size)) if 0 < size <= count else []
    elif match := re.fullmatch(r"(\d+)-(\d+)", text):
        chosen = list(range(int(match[1]), int(match[2]) + 1))
    elif re.fullmatch(r"\d+(,\d+)*", text):
        chosen = sorted({int(part) for part in text.split(",")})
    else:
        raise ParameterError(
            f"layers {text!r} is not understood; write all, last:4, first:4, middle:4, 12-15 or 3,5,7."
        )
    if not chosen or chosen[-1] >= count:
        raise ParameterError(f"layers {text!r} do not fit a model of {count} layers (0 to {count - 1}).")
    return tuple(chosen)


class Adapter:
    """LoRA on some layers of a model, off except inside `with adapter.on()`.

    Args:
        model: a transformers causal language model; its own weights are frozen.
        layers: numbers of the layers to adapt.
        modules: names of the linear modules to adapt inside each, for example ("q_proj", "v_proj").
        rank: LoRA rank.
        alpha: LoRA alpha; the matrices' product counts alpha / rank times.
        learning_rate: AdamW learning rate.
        seed: of the random initial A matrices (B starts at zero: version 0 is the untouched model).

    Attributes:
        version: number of the update that made the current weights; 0 is the untouched model.
        updates: updates made so far, also those that a reset has dropped; the next one gets the next number.

    Raises:
        ModelError: the model has no such modules.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        layers: Sequence[int],
        modules: Sequence[str],
        *,
        rank: int = 8,
        alpha: int = 16,
        learning_rate: float = 5e-5,
        seed: int = 42,
    ) -> None:
        if not any(name.endswith(tuple(modules)) for name, _ in model.named_modules()):
            raise ModelError(f"LoRA does not fit {type(model).__name__}: it has no modules {' or '.join(modules)}.")
        model.requires_grad_(False)
        keep_gradients(model)  # before anything is read
        self._settings = (model, layers, modules, rank, alpha, seed)
        self.learning_rate = learning_rate
        self.version = self.updates = 0

    @cached_property
    def lora(self) -> Lora:
        """The weights in the model, where they are put when they are first needed.

        Raises:
            ModelError: PEFT cannot adapt modules of that kind.
        """
        # PEFT takes a second to import, and a model that never learns does without.
        from secl.backends.local.lora import Lora

        return Lora(*self._settings)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable tensors by name, in a fixed order."""
        return self.lora.parameters

    @cached_property
    def optimizer(self) -> torch.optim.AdamW:
        """AdamW on the weights, with what it has gathered since the last reset."""
        return self._new_optimizer()

    def _new_optimizer(self) -> torch.optim.AdamW:
        return torch.optim.AdamW(list(self.parameters.values()), lr=self.learning_rate)

    @property
    def size(self) -> int:
        """Number of trainable values."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside the block the network is the adapted model; outside it is the frozen one."""
        if "lora" not in vars(self):  # nothing has been learned: it is the adapted model as it stands
            yield
            return
        with self.lora.on():
            yield

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Steps of the optimizer in the block are taken back, bit for bit, if it ends with an error."""
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

    def count_update(self) -> None:
        """Give the weights that an update has just made their version number."""
        self.updates += 1
        self.version = self.updates

    def reset(self) -> None:
        """Back to the untouched model: initial weights, empty optimizer, version 0."""
        with torch.no_grad():
            for parameter, initial in zip(self.parameters.values(), self.lora.initial, strict=True):
                parameter.copy_(initial)
        self.optimizer = self._new_optimizer()
        self.version = 0

    def weights(self) -> bytes:
        """The weights alone in the safetensors format with PEFT's names: what a version is."""
        named = {_peft_name(name): tensor.detach().cpu().contiguous() for name, tensor in self.parameters.items()}
        return bytes(save(named, metadata={"format": "pt"}))

    def load_version(self, weights: bytes, version: int) -> None:
        """Go back to the weights of a version, with an empty optimizer; numbers that were given are not given again.

        Raises:
            ModelError: the weights are damaged, or belong to other layers or another rank.
        """
        tensors = _read(weights)
        named = {name: tensors.get(_peft_name(name)) for name in self.parameters}
        self._check_fit(named)
        self.reset()
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(named[name])  # type: ignore[arg-type]
        self.version, self.updates = version, max(version, self.updates)

    @property
    def relative_norm(self) -> float:
        """How far the adapted weights are from the frozen ones: norm of the change over norm of what was changed."""
        return self.lora.relative_norm

    def snapshot(self) -> bytes:
        """Weights, optimizer state and version as safetensors bytes; `restore` brings back exactly this."""
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
        self._check_fit(tensors)
        self.reset()
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[name])
                if f"{STEP}/{name}" in tensors:  # it stays on the processor
                    moments = {key: tensors[f"{key}/{name}"].to(parameter.device) for key in ("exp_avg", "exp_avg_sq")}
                    self.optimizer.state[parameter] = {STEP: tensors[f"{STEP}/{name}"], **moments}
        self.version, self.updates = tensors[NUMBERS].tolist()

    def _check_fit(self, tensors: Mapping[str, Tensor | None]) -> None:
        for name, parameter in self.parameters.items():
            tensor = tensors.get(name)
            if tensor is None or tensor.shape != parameter.shape:
                raise ModelError("the adapter snapshot belongs to a model with other adapted layers or another rank.")


def _read(stored: bytes) -> dict[str, Tensor]:
    try:
        return dict(load(stored))
    except SafetensorError as problem:
        raise ModelError(f"the adapter snapshot is damaged: {problem}.") from problem


def _peft_name(name: str) -> str:
    return name.replace(".default.", ".")


def plain_config(config: Mapping[str, object]) -> dict[str, object]:
    """A PEFT configuration (`LoraConfig.to_dict()`) as JSON values: sets become sorted lists."""
    values: dict[str, object] = json.loads(json.dumps(config, default=sorted))
    return values
