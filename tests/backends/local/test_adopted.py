"""A transformers model that the caller has loaded: used, and left as it was found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import secl
from secl.errors import SeclError
from tests.tiny import tiny_model, tiny_tokenizer

QUESTION, OPTIONS = "What is the capital of Peru?", ["Quito", "La Paz", "Lima"]


def seen(model: Any) -> tuple[object, ...]:
    """All of a model that adapting it could change."""
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
        (tiny_model, lambda: "smollm2", "str is no tokenizer of transformers"),
        (lambda: tiny_model().model, tiny_tokenizer, "has no language-model head"),
        (_encoder, tiny_tokenizer, "does not continue texts"),
        (lambda: _peft(tiny_model()), tiny_tokenizer, "carries a PEFT adapter"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(model: Any, tokenizer: Any, said: str) -> None:
    with pytest.raises(SeclError, match=said):
        secl.load(model(), tokenizer())
