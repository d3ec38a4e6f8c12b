"""A model that is spread over several devices answers and learns as on one device, to the last digit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import accelerate
import pytest
import torch

from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.loader import load, wrap
from secl.backends.local.loading.model_parts import choose_device, twin
from secl.errors import ModelError, ParameterError
from tests.backends.local.conftest import STREAM, taught, tiny_local
from tests.tiny import tiny_model, tiny_tokenizer

ROOT = Path(__file__).parents[3]

SPREAD = {
    "model.embed_tokens": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.layers.2": "cpu",
    "model.layers.3": "disk",
    "model.norm": "disk",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}
"""Layers below the adapter and with it, the last norm and the head are on the disk. The last two layers are adapted."""


@pytest.mark.heavy
def test_a_spread_model_keeps_the_fast_path_learns_the_same_and_shares_its_weights(tmp_path: Path, brief: None) -> None:
    spread = tiny_model("llama")
    accelerate.dispatch_model(spread, SPREAD, main_device="cpu", offload_dir=str(tmp_path))
    loaded = wrap("llama", spread, tiny_tokenizer())
    model, other = (tiny_local(replace(loaded, model=twin(spread)), learning_rate=0.01) for _ in range(2))
    whole = tiny_local(wrap("llama", tiny_model("llama"), tiny_tokenizer()), learning_rate=0.01)
    assert isinstance(model.backend.network, SharedNetwork)
    records = taught(model)
    assert records == taught(whole) == taught(other)
    assert records[-1].reply.version == len(STREAM) - 1
    assert model.snapshot() == whole.snapshot()
    assert model.relative_norm == whole.relative_norm > 0
    assert model.environment == whole.environment
    # Between two passes the weights are on the devices of the map, and the adapter is in memory.
    places = {name: parameter.device.type for name, parameter in model.backend.model.named_parameters()}
    assert {place for name, place in places.items() if "layers.1." in name} == {"meta"}
    assert {place for name, place in places.items() if "layers.0." in name or "lora" in name} == {"cpu"}
    hooks = [each.backend.model.model.layers[1].mlp.up_proj._hf_hook for each in (model, other)]
    assert hooks[0] is not hooks[1]
    assert hooks[0].weights_map is hooks[1].weights_map


@pytest.mark.slow
def test_a_model_over_two_devices_never_computes_with_tensors_of_both() -> None:
    """The program pretends a GPU, and compares answers and lessons with those on the CPU."""
    program = [sys.executable, "-m", "tests.backends.local.pretended_gpus"]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr[-2000:]}"


def test_a_device_that_is_not_there_or_does_not_fit_a_map_is_refused(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ParameterError, match=r"device is 'cuda:0'; leave one of them out\.$"):
        load(str(tiny_llama), device="cuda:0", device_map="auto")
    assert load(str(tiny_llama), dtype="fp32", device_map="auto").model.device.type in ("cpu", "cuda")
    (tmp_path / "map.json").write_text(json.dumps({"model": "cpu", "lm_head": "meta"}))
    mapped = load(str(tiny_llama), dtype="fp32", device_map=str(tmp_path / "map.json")).model
    assert mapped.hf_device_map == {"model": "cpu", "lm_head": "meta"}
    (tmp_path / "map.json").write_text(json.dumps({"model": "cpu", "lm_haed": "cpu"}))
    with pytest.raises(
        ParameterError, match=r"names 'lm_haed', which the model does not have; it has model, .*lm_head, "
    ):
        load(str(tiny_llama), dtype="fp32", device_map=str(tmp_path / "map.json"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ModelError, match=r"no cuda:1 device \(its GPUs are cuda:0 to cuda:0\); use --device auto\.$"):
        choose_device("cuda:1")
