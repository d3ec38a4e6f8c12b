"""Settings of known models are given to these alone, and not to others of the same width."""

from __future__ import annotations

import pytest
import transformers

from secl.backends.local.presets import PRESETS, name_of, preset_of, rule_for
from tests.tiny import tiny_model

LLAMA_8B = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
PHI_MINI = {"hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 8192}

OTHERS = {
    # From the published configurations.
    "Llama-2-7B, Vicuna": transformers.LlamaConfig(
        **LLAMA_8B, vocab_size=32000, num_key_value_heads=32, intermediate_size=11008, max_position_embeddings=4096
    ),
    "Llama-3-8B": transformers.LlamaConfig(
        **LLAMA_8B, vocab_size=128256, num_key_value_heads=8, intermediate_size=14336, max_position_embeddings=8192
    ),
    "Phi-3-mini-4k": transformers.Phi3Config(
        **PHI_MINI, vocab_size=32064, num_key_value_heads=32, max_position_embeddings=4096, pad_token_id=32000
    ),
    "Phi-4-mini": transformers.Phi3Config(
        **PHI_MINI, vocab_size=200064, num_key_value_heads=8, max_position_embeddings=131072, pad_token_id=199999
    ),
    "SmolLM-135M": transformers.LlamaConfig(
        hidden_size=576,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=49152,
        max_position_embeddings=2048,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_with_the_width_and_layers_of_another_is_not_taken_for_it(name: str) -> None:
    config = OTHERS[name]
    alike = [each.shape for each in PRESETS.values() if each.shape[:3] == (config.model_type, *_width(config))]
    assert len(alike) == 1  # by these alone it would be
    assert preset_of(config) is None


def _width(config: transformers.PretrainedConfig) -> tuple[int, int]:
    return config.num_hidden_layers, config.hidden_size


def test_settings_are_named_after_where_they_come_from() -> None:
    assert name_of(PRESETS["llama-3.1-8b"]) == "preset llama-3.1-8b"
    assert name_of(rule_for(tiny_model())) == "by inspection"
