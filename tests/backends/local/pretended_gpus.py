"""Pretended GPUs: their tensors compute on the CPU, and operations reject tensors of two devices.

Run as a program, because the device type is registered for the whole process:

    python -m tests.backends.local.pretended_gpus

The program ends with an error if a spread model computes with tensors of two devices, leaves the fast path, or answers
or learns differently from a model on the CPU.
"""

from __future__ import annotations

from typing import Any

import accelerate
import pytest
import torch
from accelerate import hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.loader import wrap
from secl.backends.local.loading.model_parts import twin
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.data.benchmarks import quiz
from secl.flow import further
from secl.gates import Always
from secl.prompts import templates
from secl.question import Question
from secl.records import Record
from secl.settings.groups import AdapterSettings, LoopSettings
from tests.tiny import tiny_model, tiny_tokenizer

aten = torch.ops.aten

LAYERS = [f"model.layers.{number}" for number in range(4)]
NAMES = ["model.embed_tokens", "model.rotary_emb", *LAYERS, "model.norm", "lm_head"]

# With gradients, PyTorch allows only one device of a device type that is made in Python.
PLACES = dict(zip(NAMES, ["cpu", "cpu", "cpu", "gpu:0", "cpu", "gpu:0", "gpu:0", "gpu:0"], strict=True))

STREAM = [*quiz("capitals", 2, 1), Question("Who wrote Hamlet?", id="short"), Question("How many?", form="number")]


class OnGpu(torch.Tensor):
    """A tensor that claims to be on another device."""

    hidden: Any

    @staticmethod
    def __new__(cls, inner: torch.Tensor, device: Any) -> OnGpu:
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=device
        )
        made.hidden = inner
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return compute(func, args, kwargs or {})

    def tolist(self) -> Any:
        return self.hidden.tolist()


class Pretending(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the block, new tensors can be on pretended GPUs."""

    def __torch_dispatch__(self, operation: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(operation, args, kwargs or {})


def compute(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Check the devices of an operation's tensors, and compute the operation on the CPU."""
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    places = {each.device for each in tensors if each.ndim or each.device.type == "gpu"}
    if operation in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
        places -= {torch.device("cpu")}  # GPUs take indices from the CPU
    if len(places) > 1 and operation not in (aten._to_copy.default, aten.copy_.default):
        raise RuntimeError(f"{operation} meets tensors on {sorted(map(str, places))}")
    wanted = kwargs.get("device")
    place = torch.device(wanted or (tensors[0].device if tensors else "cpu"))
    there = {**kwargs, **({} if wanted is None else {"device": torch.device("cpu")})}
    args_there, there = tree_map(lambda each: each.hidden if isinstance(each, OnGpu) else each, (args, there))
    result = operation(*args_there, **there)
    if operation._schema.name.endswith("_"):
        return args[0]
    if place.type != "gpu":
        return result
    return tree_map(lambda each: OnGpu(each, place) if isinstance(each, torch.Tensor) else each, result)


def register() -> None:
    """Register the device type "gpu" with the operations that PyTorch needs below Python."""
    _setup_privateuseone_for_python_backend("gpu")

    def empty_strided(size: Any, stride: Any, dtype: Any = None, device: Any = None, **_how: Any) -> OnGpu:
        return OnGpu(torch.empty_strided(size, stride, dtype=dtype, device="cpu"), device)

    def copy_from(source: Any, target: Any, _blocking: bool = False) -> Any:
        source, inner = (each.hidden if isinstance(each, OnGpu) else each for each in (source, target))
        inner.copy_(source)
        return target

    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("empty_strided", lambda *args, **how: empty_strided(*args[:2], **how), "PrivateUse1")  # type: ignore[no-untyped-call]
    library.impl("_copy_from", copy_from, "PrivateUse1")  # type: ignore[no-untyped-call]
    register.library = library  # type: ignore[attr-defined]  # it must not be collected

    from_list = torch.tensor

    def tensor(data: Any, *, device: Any = None, **how: Any) -> torch.Tensor:
        return from_list(data, **how) if device is None else from_list(data, **how).to(device)

    torch.tensor = tensor  # type: ignore[assignment]


def place_tensor(module: Any, name: str, device: Any, value: Any = None, **_how: Any) -> None:
    """Put a weight on a device as accelerate does; accelerate's own function would keep the class of the old tensor."""
    *path, name = name.split(".")
    module = module.get_submodule(".".join(path))
    kind = module._parameters if name in module._parameters else module._buffers
    old = kind[name] if value is None else value
    away = torch.device(device).type == "meta"
    new = torch.empty(old.shape, dtype=old.dtype, device="meta") if away else old.detach().to(device)
    kind[name] = torch.nn.Parameter(new, requires_grad=False) if kind is module._parameters else new


def records(*, spread: bool) -> tuple[list[Record], float]:
    """Return records of a stream with an adapter that is not zero, and the final norm of its change."""
    model = tiny_model("llama")
    if spread:
        skipped = model._skip_keys_device_placement
        accelerate.dispatch_model(model, PLACES, main_device="cpu", skip_keys=skipped)
    settings = AdapterSettings(layers="last:2", learning_rate=0.01)
    local = LocalModel(wrap("llama", twin(model), tiny_tokenizer()), settings)
    assert isinstance(local.backend.network, SharedNetwork)
    with torch.no_grad():
        for parameter in local.adapter.parameters.values():
            parameter.add_(0.05)
    local.adapter.count_update()
    loop = LoopSettings(bin_gate=None)
    calibrator = Calibrator(local, method="secl", gate=Always(), loop=loop, evidence=["candidates", "samples", "dinco"])
    found = list(calibrator.run(STREAM))
    snapshot = local.learner.snapshot()
    local.learner.restore(snapshot)
    assert local.learner.snapshot() == snapshot
    return found, local.learner.relative_norm


def main() -> None:
    """Compare records and adapters of a spread model with those of a model on the CPU."""
    for limits in (templates.MAX_ANSWER_TOKENS, further.MAX_LIST_TOKENS):
        limits.update(dict.fromkeys(limits, 12))
    register()  # before the first gradients, because PyTorch then counts the devices
    hooks.set_module_tensor_to_device = place_tensor
    wanted, norm = records(spread=False)
    with Pretending():  # type: ignore[no-untyped-call]
        found, spread_norm = records(spread=True)
    assert spread_norm == pytest.approx(norm, rel=1e-3)
    for one, other in zip(found, wanted, strict=True):
        assert one.reply.version == other.reply.version > 0
        assert one.reply.text == other.reply.text
        assert one.reply.stated == pytest.approx(other.reply.stated, abs=1e-4)
        assert (one.update is None) == (other.update is None)
        if one.update is not None and other.update is not None:
            assert one.update.losses == pytest.approx(other.update.losses, abs=1e-4)
    assert any(record.update for record in found)


if __name__ == "__main__":
    main()
