"""Where a model lies and computes: on one device, or spread over several by accelerate.

Of a model that is spread, accelerate's hooks move what goes into each layer to where that layer computes, and bring
weights from the CPU or the disk for as long as they are needed. Token ids, logits and the final hidden states are on
one device, the model's home.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import align_module_device
from torch import nn

from secl.backends.local.model_parts import layers_of
from secl.errors import ModelError, ParameterError
from secl.settings import check_device

AUTO = "auto"


@dataclass(frozen=True)
class Placement:
    """Where to load a model.

    Attributes:
        device: its home.
        layers: where its modules lie, as transformers takes it: "auto", or a place for each name; None for all at home.
    """

    device: torch.device
    layers: str | dict[str, int | str] | None = None

    @classmethod
    def of(cls, device: str, device_map: str | None) -> Placement:
        """The placement for the settings of a model.

        Raises:
            ParameterError: an unknown device, both settings, or a file that holds no map.
            ModelError: a device that this machine does not have.
        """
        if device_map is None:
            return cls(choose_device(device))
        if device != AUTO:
            raise ParameterError(
                f"device_map says where each layer computes, and device is {device!r}; leave one of them out."
            )
        if device_map == AUTO:
            return cls(choose_device(AUTO), AUTO)
        places = read_map(Path(device_map).expanduser())
        gpus = sorted({place for place in places.values() if isinstance(place, int)})
        for gpu in gpus:
            choose_device(f"cuda:{gpu}")
        return cls(torch.device("cuda", gpus[0]) if gpus else torch.device("cpu"), places)

    @property
    def elsewhere(self) -> str | None:
        """Where weights lie that are brought to a device for each pass: "cpu" or "disk", None for nowhere."""
        places = set(self.layers.values()) if isinstance(self.layers, dict) else set()
        away = places & ({"disk"} if self.device.type == "cpu" else {"disk", "cpu"})
        return min(map(str, away), default=None)


def read_map(path: Path) -> dict[str, int | str]:
    """The places of modules from a JSON file: {"model.embed_tokens": "cuda:0", "model.layers.0": "disk", ...}.

    Returns:
        by the names of the modules, the number of a GPU, "cpu" or "disk".

    Raises:
        ParameterError: it cannot be read, or is no such table.
    """
    try:
        places = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ParameterError(f"the device map {path} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:
        raise ParameterError(f"the device map {path} is not JSON: {problem}.") from problem
    if not isinstance(places, dict) or not places:
        raise ParameterError(
            f'the device map {path} is not a table of modules and places, such as {{"model.layers.0": "cuda:0", ...}}.'
        )
    return {name: _place(path, name, place) for name, place in places.items()}


def _place(path: Path, name: str, place: object) -> int | str:
    if place in ("cpu", "disk"):
        return str(place)
    number = re.fullmatch(r"(?:cuda:)?(\d+)", str(place))
    if number is None:
        raise ParameterError(
            f"the device map {path} puts {name} on {place!r}; a place is cpu, disk, or a GPU such as cuda:0."
        )
    return int(number[1])


def choose_device(device: str) -> torch.device:
    """The device for a name; "auto" prefers CUDA, then MPS, then the CPU.

    Raises:
        ParameterError: an unknown name.
        ModelError: a device that this machine does not have.
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


def check_tied(model: Any) -> None:
    """Check that weights which are the same, such as those of embeddings and head, lie in one place.

    Raises:
        ParameterError: the map of a loaded model puts them in two.
    """
    places = getattr(model, "hf_device_map", {})
    for name, same in getattr(model, "all_tied_weights_keys", {}).items():
        one, other = (
            next((places[key] for key in places if f"{each}.".startswith(f"{key}.")), None) for each in (name, same)
        )
        if one != other:
            raise ParameterError(
                f"the device map puts {name} on {one} and {same} on {other}, but they are the same weights; put both "
                "in one place."
            )


def compute_device(module: nn.Module) -> torch.device:
    """Where a module computes, wherever its weights lie; of a whole model its home."""
    place = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
    return next(module.parameters()).device if place is None else torch.device(place)


@contextmanager
def weights_at_hand(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within the block the weights of the modules are where they compute, also if they lie elsewhere."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(align_module_device(module))
        yield


def described_devices(model: Any) -> str:
    """What the layers of a model compute on: "cpu", "NVIDIA H100", or "20 x NVIDIA A100, 12 x Tesla T4"."""
    names = [_device_name(compute_device(layer)) for layer in layers_of(model)]
    parts = [(name, len(list(group))) for name, group in itertools.groupby(names)]
    return parts[0][0] if len(parts) == 1 else ", ".join(f"{count} x {name}" for name, count in parts)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def twin(model: Any) -> Any:
    """Modules of their own over the same weights, wherever those lie."""
    shared = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        shared.append(getattr(getattr(module, "_hf_hook", None), "weights_map", None))
        # What bitsandbytes keeps beside its weights: scales, and views of the weights.
        shared += [getattr(module, name, None) for name in ("state", "quant_state")]
    return copy.deepcopy(model, {id(part): part for part in shared})
