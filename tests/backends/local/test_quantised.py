"""Weights in 8 and 4 bits: which layers are quantised, and that lessons work."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from peft.utils.integrations import dequantize_module_weight
from torch import nn

from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.loader import load, wrap
from secl.backends.local.model import LocalModel
from secl.errors import ParameterError
from secl.settings.groups import AdapterSettings, ModelSettings, Quantize
from tests.backends.local.conftest import taught
from tests.tiny import tiny_model, tiny_tokenizer

pytestmark = pytest.mark.heavy

ADAPTER = AdapterSettings(layers="last:2", learning_rate=0.01)


@pytest.fixture
def bits() -> None:
    pytest.importorskip("bitsandbytes", reason="the extra secl[quantize] is not installed")


def quantised(folder: Path, quantize: Quantize) -> LocalModel:
    return LocalModel(load(ModelSettings(name=str(folder), dtype="fp32", quantize=quantize)), adapter=ADAPTER)


def test_the_linear_layers_of_the_body_are_quantised_and_nothing_else(
    tiny_llama: Path, bits: None, brief: None
) -> None:
    model = quantised(tiny_llama, "4bit")
    weights = dict(model.backend.model.named_parameters())
    in_few_bits = {name for name, weight in weights.items() if not weight.is_floating_point()}
    assert in_few_bits == {
        name for name in weights if "_proj" in name and "lora" not in name and name.endswith("weight")
    }
    assert {weight.dtype for name, weight in weights.items() if name not in in_few_bits} == {torch.float32}
    assert {parameter.dtype for parameter in model.adapter.parameters.values()} == {torch.float32}
    assert isinstance(model.backend.network, SharedNetwork)


@pytest.mark.parametrize("quantize", ["8bit", "4bit"])
def test_a_quantised_model_answers_and_learns_as_one_with_the_rounded_weights(
    quantize: Quantize, tiny_llama: Path, bits: None, brief: None
) -> None:
    model = quantised(tiny_llama, quantize)
    rounded = tiny_model("llama")
    for name, module in load(
        ModelSettings(name=str(tiny_llama), dtype="fp32", quantize=quantize)
    ).model.named_modules():
        if isinstance(module, nn.Linear):
            if quantize == "8bit" and not module.weight.is_floating_point():
                module.init_8bit_state()  # type: ignore[operator]
            rounded.get_submodule(name).weight.data = dequantize_module_weight(module).detach().float()
    plain = LocalModel(wrap("rounded", rounded, tiny_tokenizer()), ADAPTER)
    one: Any
    other: Any
    for one, other in zip(taught(model), taught(plain), strict=True):
        assert one.reply.answer == other.reply.answer
        assert one.reply.stated == pytest.approx(other.reply.stated, abs=1e-3)
        assert one.update.losses == pytest.approx(other.update.losses, abs=1e-3)
    for name, parameter in model.adapter.parameters.items():
        assert torch.allclose(parameter, plain.adapter.parameters[name], atol=2e-3), name
    assert model.learner.relative_norm == pytest.approx(plain.learner.relative_norm, rel=1e-2)


def test_a_model_that_was_saved_quantised_is_loaded_as_it_is_and_not_quantised_again(
    tiny_llama: Path, tmp_path: Path, bits: None, brief: None
) -> None:
    saved = tmp_path / "saved"
    load(ModelSettings(name=str(tiny_llama), dtype="fp32", quantize="4bit")).model.save_pretrained(saved)
    tiny_tokenizer().save_pretrained(saved)
    model = LocalModel(load(ModelSettings(name=str(saved), dtype="fp32")), adapter=ADAPTER)
    assert str(model.environment["quantised"]).startswith("nf4, bitsandbytes ")
    assert taught(model) == taught(quantised(tiny_llama, "4bit"))
    with pytest.raises(ParameterError, match=r"saved is quantised already; leave --quantize out\.$"):
        load(ModelSettings(name=str(saved), quantize="8bit"))


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("tiny", {}, r"needs bitsandbytes; run: pip install .*\[quantize\]"),
        ("small.gguf", {}, r"^small\.gguf is quantised already; leave --quantize out, or name the folder"),
        ("tiny", {"device": "mps"}, r"^bitsandbytes does not compute on mps; leave --quantize out"),
    ],
)
def test_what_cannot_be_quantised_is_refused_before_it_is_loaded(
    name: str, settings: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "needs" in sentence else object())
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    (tmp_path / "tiny").mkdir()
    for file in ("config.json", "tokenizer.json"):
        (tmp_path / "tiny" / file).write_text("{}")
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(ParameterError, match=sentence):
        load(ModelSettings(name=str(tmp_path / name), quantize="4bit", **settings))
