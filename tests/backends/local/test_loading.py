"""Models by name, folder and GGUF file, or loaded by the caller; devices and precisions; refusals in one sentence.

A model that is spread over several devices answers and learns as on one device, to the last digit.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import accelerate
import httpx2
import pytest
import torch
import transformers
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory

import secl
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.guard import as_model_error
from secl.backends.local.loading.loader import adopt, choose_dtype, load, locate, wrap
from secl.backends.local.loading.model_parts import choose_device, twin
from secl.backends.local.loading.presets import PRESETS
from secl.errors import ModelError, ParameterError, SeclError
from secl.settings.groups import ModelSettings
from tests.backends.local.conftest import STREAM, taught, tiny_local
from tests.conftest import ROOT
from tests.tiny import tiny_folder, tiny_model, tiny_tokenizer


def test_a_folder_loads_with_its_preset_fingerprint_and_precision(tiny_llama: Path, tmp_path: Path) -> None:
    loaded = load(ModelSettings(name=str(tiny_llama), dtype="bf16"))
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.preset.modules == ("q_proj", "v_proj")
    assert load(ModelSettings(name=str(tiny_llama), dtype="fp32")).fingerprint == loaded.fingerprint
    other = tiny_folder(tmp_path / "other", seed=1)
    assert load(ModelSettings(name=str(other))).fingerprint != loaded.fingerprint


def test_gemma_keeps_its_soft_cap_by_eager_attention(tmp_path: Path) -> None:
    loaded = load(ModelSettings(name=str(tiny_folder(tmp_path / "gemma", "gemma2"))))
    assert loaded.model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/model.gguf", "nonsense", "a/b/c", "model.gguf"])
def test_a_name_that_is_no_model_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ModelError, match="smollm2"):
        locate(name)


def test_hub_ids_presets_and_files_are_told_apart(tmp_path: Path) -> None:
    assert locate("llama-3.2-3b") == PRESETS["llama-3.2-3b"].source
    assert locate("someone/some-model") == "someone/some-model"
    (tmp_path / "model.txt").write_text("hello")
    with pytest.raises(ModelError, match="neither"):
        locate(str(tmp_path / "model.txt"))


def test_a_model_that_does_not_continue_texts_is_refused(tmp_path: Path) -> None:
    transformers.T5Config().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"\(t5\) does not continue texts; name a chat model\.$"):
        load(ModelSettings(name=str(tmp_path)))


def test_a_processor_that_does_without_wide_vectors_computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    chosen = []
    for capability in ("AVX512", "AVX2"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda known=capability: known)
        chosen.append(choose_dtype("auto", torch.device("cpu")))
    assert chosen == [torch.bfloat16, torch.float32]


def test_a_device_that_this_machine_lacks_is_refused() -> None:
    cpu = choose_device("cpu")
    assert choose_dtype("fp32", cpu) == torch.float32
    assert choose_dtype("auto", cpu) in (torch.bfloat16, torch.float32)
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match=r"no cuda:1 device; use --device auto\.$"):
            choose_device("cuda:1")


Answer = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Answer], None]]:
    """Make the hub answer every request in one way, with an empty cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield lambda answer: set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(answer)))
    set_client_factory(default_client_factory)


def gated(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(403, headers={"X-Error-Code": "GatedRepo"}, request=request)


def missing(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(401, headers={"X-Error-Code": "RepoNotFound"}, request=request)


def unreachable(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("no route to host", request=request)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "llama-3.2-3b",
            gated,
            "its repository is gated; accept the licence at https://huggingface.co/meta-llama/Llama-3.2-3B-Instruct, "
            "run hf auth login (or set HF_TOKEN), and try again.",
        ),
        (
            "someone/misspelt",
            missing,
            "the hub has no repository someone/misspelt, or it is private; check the name, or run hf auth login (or "
            "set HF_TOKEN).",
        ),
        (
            "someone/model",
            unreachable,
            "someone/model is not on this machine and the hub cannot be reached; check the network and HF_HUB_OFFLINE, "
            "or name a folder that holds the model.",
        ),
    ],
    ids=["gated", "missing", "unreachable"],
)
def test_what_the_hub_refuses_is_one_sentence(
    answer_with: Callable[[Answer], None], name: str, answer: Answer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # the client would wait half a minute in all between its tries
    answer_with(answer)
    with pytest.raises(ModelError) as refused:
        load(ModelSettings(name=name))
    assert str(refused.value) == f"the model {name!r} cannot be loaded: {words}"


@pytest.mark.parametrize(
    ("problem", "words"), [(ValueError("half a file\nand more"), "half a file"), (OSError(), "OSError")]
)
def test_of_other_exceptions_the_first_line_is_said(problem: Exception, words: str) -> None:
    with pytest.raises(ModelError, match=f"^the model 'a/b' cannot be loaded: {words}$"), as_model_error("a/b"):
        raise problem


QUESTION, OPTIONS = "What is the capital of Peru?", ["Quito", "La Paz", "Lima"]


def seen(model: Any) -> tuple[object, ...]:
    """Return all properties of a model that adapting could change."""
    modules = list(model.modules())
    return (
        [type(module) for module in modules],
        [module.training for module in modules],
        [(len(module._forward_hooks), len(module._forward_pre_hooks), "forward" in vars(module)) for module in modules],
        {name: weight.requires_grad for name, weight in model.named_parameters()},
        model.config.to_json_string(),
        model.config._attn_implementation,
    )


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_loaded_model_learns_and_is_left_as_it_was_found(family: str) -> None:
    model = tiny_model(family).train()
    before, weights = seen(model), {name: weight.clone() for name, weight in model.state_dict().items()}
    settings = {"gate.name": "always", "loop.bin_gate": "off"}
    with secl.load(model, tiny_tokenizer(), method="secl", settings=settings) as taught:
        assert taught.ask(QUESTION, options=OPTIONS).outcome == "trained"
        assert seen(model) == before  # also while it is in use
    assert seen(model) == before
    assert all(torch.equal(weights[name], weight) for name, weight in model.state_dict().items())


def test_a_loaded_model_answers_as_its_folder_does(tmp_path: Any) -> None:
    model, tokenizer = tiny_model(), tiny_tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    answers = [
        loaded.ask(QUESTION, options=OPTIONS)
        for loaded in (secl.load(model, tokenizer), secl.load(tmp_path, dtype="fp32", device="cpu"))
    ]
    assert answers[0].candidates == answers[1].candidates


def test_the_fingerprint_follows_the_weights() -> None:
    prints = [secl.load(tiny_model(seed=seed), tiny_tokenizer()).calibrator.model.fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


def _peft(model: Any) -> Any:
    import peft

    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"]))


def _without_template(tokenizer: Any) -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)
    tokenizer.chat_template = None
    return tokenizer


def _encoder() -> Any:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=16, patch_size=8))


@pytest.mark.parametrize(
    ("model", "tokenizer", "said"),
    [
        (tiny_model, lambda: None, "came without its tokenizer"),
        (lambda: tiny_model(vocab_size=5000), tiny_tokenizer, "belongs to another model"),
        (lambda: tiny_model(vocab_size=600), tiny_tokenizer, "belongs to another model"),
        (tiny_model, lambda: _without_template(tiny_tokenizer()), "has no chat template"),
        (tiny_model, lambda: "smollm2", "str is not a tokenizer of transformers"),
        (lambda: tiny_model().model, tiny_tokenizer, "has no language-model head"),
        (_encoder, tiny_tokenizer, "does not continue texts"),
        (lambda: _peft(tiny_model()), tiny_tokenizer, "carries a PEFT adapter"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(model: Any, tokenizer: Any, said: str) -> None:
    with pytest.raises(SeclError, match=said):
        secl.load(model(), tokenizer())


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
    assert model.learner.snapshot() == whole.learner.snapshot()
    assert model.learner.relative_norm == whole.learner.relative_norm > 0
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
        load(ModelSettings(name=str(tiny_llama), device="cuda:0", device_map="auto"))
    assert load(ModelSettings(name=str(tiny_llama), dtype="fp32", device_map="auto")).model.device.type in (
        "cpu",
        "cuda",
    )
    own = transformers.AutoModelForCausalLM.from_pretrained(tiny_llama, device_map={"model": "cpu", "lm_head": "meta"})
    assert adopt(own, tiny_tokenizer()).model.hf_device_map == {"model": "cpu", "lm_head": "meta"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ModelError, match=r"no cuda:1 device \(its GPUs: cuda:0\); use --device auto\.$"):
        choose_device("cuda:1")
