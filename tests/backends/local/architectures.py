"""The tested architectures: a tiny random model of each, made from a configuration.

python -m tests.backends.local.architectures     # writes the table into docs/engines.md
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from tokenizers import AddedToken

from secl.backends.local.loading.loader import text_class
from tests.tiny import SIZES, tiny_tokenizer

TEMPLATES = Path(__file__).parent / "chat_templates"
"""In the shape of those that come with models: roles, turns, system text, switch for thoughts. The words are ours."""

PAGE = Path(__file__).parents[3] / "docs" / "engines.md"
BEGIN, END = "<!-- architectures -->\n", "<!-- end -->\n"

WINDOW = 64
"""Size of sliding windows in tests, smaller than any prompt."""

MARKS = (
    *("<|header|>", "<|/header|>", "<turn>", "<|im_start|>", "<|user|>", "<|assistant|>", "<|system|>", "<|role|>"),
    *("<|/role|>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<|channel|>", "<|message|>"),
    *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "<|call|>"),
)
"""Marks of roles, turns and calls in these templates."""


def tokenizer_with(template: str) -> Any:
    """Return the tiny tokenizer with a chat template whose marks are single tokens."""
    if template == "ChatML":
        return tiny_tokenizer()
    text = (TEMPLATES / f"{template.lower().replace(' ', '-')}.jinja").read_text(encoding="utf-8")
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.chat_template = text
    tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS if mark in text])
    thoughts = [mark for mark in ("<think>", "</think>") if mark in text]
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in thoughts])
    return tokenizer


@dataclass(frozen=True)
class Architecture:
    """A row of the table.

    Attributes:
        name: of the architecture.
        models: examples of models.
        config: transformers' name of the configuration.
        template: name of the chat template in the test.
        path: expected path.
        why: reason for the plain path.
        changes: values of the configuration besides the usual sizes.
        images: configuration of the image encoder of a multimodal model, whose text model has the sizes and changes.
    """

    name: str
    models: str
    config: str
    template: str = "ChatML"
    path: Literal["fast", "plain"] = "fast"
    why: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] | None = None

    @cached_property
    def tokenizer(self) -> Any:
        """A tiny tokenizer with the chat template."""
        return tokenizer_with(self.template)

    @property
    def configuration(self) -> Any:
        """Its configuration with tiny sizes."""
        sizes = {**SIZES, "vocab_size": len(self.tokenizer), **self.changes}
        parts = sizes if self.images is None else {"text_config": sizes, "vision_config": dict(self.images)}
        return transformers.AutoConfig.for_model(self.config, **parts)

    def model(self) -> Any:
        """The tiny model in float32, always the same."""
        config = self.configuration
        return _random(text_class(self.name, config), config)

    def save(self, folder: Path) -> Path:
        """Save a whole tiny multimodal model and its tokenizer."""
        _random(transformers.AutoModelForImageTextToText, self.configuration).save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return folder


def _random(made_by: Any, config: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return made_by.from_config(config).eval()


_LOCAL = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
_EXPERTS = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
_SIGLIP = {
    **{"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2},
    **{"image_size": 28, "patch_size": 14},
}
_LLAMA_3_ROPE = {
    **{"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 512,
}


def _long_rope(pairs: int, **more: Any) -> dict[str, Any]:
    factors = {"short_factor": [1.0 + i / 8 for i in range(pairs)], "long_factor": [2.0 + i for i in range(pairs)]}
    return {"rope_type": "longrope", "rope_theta": 10_000.0, **factors, **more}


ARCHITECTURES = (
    Architecture(
        "Llama",
        "Llama 2, 3.1, 3.2, 3.3, SmolLM 2, DeepSeek-R1-Distill-Llama",
        "llama",
        template="Llama 3",
        changes={"rope_parameters": _LLAMA_3_ROPE},
    ),
    Architecture(
        "Llama 4",
        "Scout, Maverick",
        "llama4",
        template="Llama 3",
        path="plain",
        why="the model has layers of the kind chunked_attention",
        changes={
            **{"head_dim": 8, "intermediate_size_mlp": 64, "num_local_experts": 2, "interleave_moe_layer_step": 2},
            "attention_chunk_size": WINDOW,
        },
        images={
            **{**_SIGLIP, "intermediate_size": 64, "num_hidden_layers": 2},
            **{"vision_output_dim": 16, "projector_input_dim": 16, "projector_output_dim": 16},
        },
    ),
    Architecture(
        "Gemma 2",
        "Gemma 2",
        "gemma2",
        template="Gemma 2",
        changes={"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": WINDOW, "attn_implementation": "eager"},
    ),
    Architecture(
        "Gemma 3",
        "Gemma 3 4B, 12B, 27B (their text part)",
        "gemma3",
        template="Gemma 3",
        changes={"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": WINDOW, "layer_types": _LOCAL},
        images=_SIGLIP,
    ),
    Architecture("Qwen 2", "Qwen 2, Qwen 2.5, DeepSeek-R1-Distill-Qwen", "qwen2", template="DeepSeek-R1"),
    Architecture("Qwen 3 MoE", "Qwen3-30B-A3B", "qwen3_moe", template="Qwen 3", changes={**_EXPERTS, "head_dim": 8}),
    Architecture(
        "Mistral",
        "Mistral 7B (only v0.1 has a sliding window), Zephyr",
        "mistral",
        template="Mistral 3",
        changes={"sliding_window": WINDOW},
    ),
    Architecture(
        "Phi 4 mini",
        "Phi-4-mini (partial rotation, shared embeddings)",
        "phi3",
        template="Phi 4 mini",
        changes={
            "original_max_position_embeddings": 512,
            "rope_parameters": _long_rope(3, partial_rotary_factor=0.75),
            "tie_word_embeddings": True,
        },
    ),
    Architecture(
        "Granite",
        "Granite 3, 4 dense",
        "granite",
        template="Granite",
        changes={
            **{"logits_scaling": 2.0, "embedding_multiplier": 3.0, "residual_multiplier": 0.5},
            "attention_multiplier": 0.3,
        },
    ),
    Architecture(
        "Cohere 2",
        "Command R7B, Command A",
        "cohere2",
        changes={"logit_scale": 0.25, "sliding_window": WINDOW, "layer_types": _LOCAL},
    ),
    Architecture(
        "gpt-oss",
        "gpt-oss 20B, 120B (attention sinks)",
        "gpt_oss",
        template="gpt-oss",
        changes={
            "head_dim": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": WINDOW,
            "rope_parameters": {
                **{"rope_type": "yarn", "rope_theta": 150_000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0},
                **{"original_max_position_embeddings": 512, "truncate": False},
            },
        },
    ),
)


def table() -> str:
    """Return the table of docs/engines.md."""
    rows = ["| architecture | models | configuration | path |", "|---|---|---|---|"]
    for each in ARCHITECTURES:
        path = each.path if not each.why else f"{each.path}: {each.why}"
        rows.append(f"| {each.name} | {each.models} | `{each.config}` | {path} |")
    return "\n".join(rows) + "\n"


def page_with_table(text: str) -> str:
    """Return the page with the table between the two marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
