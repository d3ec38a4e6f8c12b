"""A model that is spread over several places answers and learns as one that is in one place, to the last digit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from secl.backends.local.fast.select_network import PlainNetwork
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading import ModelCache
from secl.backends.local.model import LocalModel
from secl.backends.local.placement import Placement
from secl.errors import ModelError, ParameterError
from secl.settings import AdapterSettings
from tests.backends.local.conftest import STREAM, taught
from tests.tiny import FAMILIES, tiny_folder

pytestmark = pytest.mark.heavy

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


@pytest.fixture
def spread(tmp_path: Path) -> str:
    return write_map(tmp_path / "places.json", SPREAD)


def write_map(path: Path, places: dict[str, Any]) -> str:
    path.write_text(json.dumps(places))
    return str(path)


def loaded(folder: Path, device_map: str | None, **settings: Any) -> LocalModel:
    adapter = AdapterSettings(layers="last:2", learning_rate=0.01)
    return LocalModel.load(str(folder), dtype="fp32", device_map=device_map, adapter=adapter, **settings)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_spread_model_keeps_the_fast_path_and_learns_the_same(family: str, tmp_path: Path, brief: None) -> None:
    folder = tiny_folder(tmp_path / family, family)
    own_head = {"lm_head": "cpu"} if family == "gemma2" else {}  # its head is the embeddings
    model = loaded(folder, write_map(tmp_path / "places.json", SPREAD | own_head))
    whole = loaded(folder, None)
    assert isinstance(model.backend.network, SharedNetwork)
    records = taught(model)
    assert records == taught(whole)
    assert records[-1].reply.version == len(STREAM) - 1
    assert model.snapshot() == whole.snapshot()
    assert model.relative_norm == whole.relative_norm > 0
    assert model.environment == whole.environment
    assert model.fingerprint == whole.fingerprint
    # Between two passes the weights are where the map says, and the adapter is in memory.
    places = {name: parameter.device.type for name, parameter in model.backend.model.named_parameters()}
    assert {place for name, place in places.items() if "layers.1." in name} == {"meta"}
    assert {place for name, place in places.items() if "layers.0." in name or "lora" in name} == {"cpu"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["several", "two", "offloaded"])
def test_a_model_over_several_gpus_never_computes_with_tensors_of_two(kind: str) -> None:
    """The GPUs are pretended; the program compares answers and lessons with those on the processor."""
    program = [sys.executable, "-m", "tests.backends.local.pretended_gpus", kind, "llama", "phi3", "qwen2"]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr[-2000:]}"


def test_where_the_fast_path_does_not_fit_a_spread_model_takes_the_plain_one_and_says_so(
    tmp_path: Path, brief: None
) -> None:
    folder = tiny_folder(tmp_path / "gpt2", "gpt2")
    blocks = {f"transformer.h.{number}": "disk" if number % 2 else "cpu" for number in range(4)}
    ends = dict.fromkeys(("transformer.wte", "transformer.wpe", "transformer.ln_f", "lm_head"), "cpu")
    places = write_map(tmp_path / "places.json", ends | blocks)
    with pytest.warns(RuntimeWarning, match="GPT2LMHeadModel runs on the slow plain path"):
        model = loaded(folder, places)
    assert isinstance(model.backend.network, PlainNetwork)
    with pytest.warns(RuntimeWarning, match="slow plain path"):
        whole = loaded(folder, None)
    assert taught(model) == taught(whole)


def test_models_over_the_same_weights_share_them_where_they_lie(tiny_llama: Path, spread: str, brief: None) -> None:
    cache = ModelCache()
    one, other = (loaded(tiny_llama, spread, cache=cache) for _ in range(2))
    records = taught(one)
    assert taught(other) == records
    embeddings = [model.backend.model.get_input_embeddings().weight for model in (one, other)]
    assert embeddings[0] is embeddings[1]
    hooks = [model.backend.model.model.layers[1].mlp.up_proj._hf_hook for model in (one, other)]
    assert hooks[0] is not hooks[1]
    assert hooks[0].weights_map is hooks[1].weights_map


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"the device map .*places\.json cannot be read: No such file or directory\.$"),
        ("{", r"the device map .*places\.json is not JSON: Expecting property name.*\.$"),
        ("[]", r"is not a table of modules and places, such as"),
        ('{"model": "mps"}', r"puts model on 'mps'; a place is cpu, disk, or a GPU such as cuda:0\.$"),
        ('{"model": -1}', r"puts model on -1; a place is"),
        ('{"model": true}', r"puts model on True; a place is"),
    ],
)
def test_a_file_that_is_no_device_map_is_refused(content: str | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "places.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ParameterError, match=sentence):
        Placement.of("auto", str(path))


def test_a_map_needs_the_gpus_that_it_names_and_no_other_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "places.json"
    path.write_text('{"model.layers.0": "cuda:1", "model.layers.1": 0, "model.norm": "cpu"}')
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ModelError, match=r"no cuda:1 device \(its GPUs are cuda:0 to cuda:0\); use --device auto\.$"):
        Placement.of("auto", str(path))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    place = Placement.of("auto", str(path))
    assert (place.device, place.elsewhere) == (torch.device("cuda:0"), "cpu")
    assert place.layers == {"model.layers.0": 1, "model.layers.1": 0, "model.norm": "cpu"}
    with pytest.raises(ParameterError, match=r"device is 'cuda:0'; leave one of them out\.$"):
        Placement.of("cuda:0", str(path))


def test_weights_that_two_modules_share_have_one_place(tmp_path: Path, spread: str) -> None:
    with pytest.raises(ParameterError, match=r"puts lm_head.weight on disk and model.embed_tokens.weight on cpu, but"):
        loaded(tiny_folder(tmp_path / "gemma", "gemma2"), spread)
