"""Random models of the four families, small enough for the whole loop in a test, and their tokenizer."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from secl.data.benchmarks import quiz
from secl.prompts.templates import answer_prompt, distractor_prompt, p_true_prompt
from secl.question import Question

FAMILIES = ("llama", "gemma2", "phi3", "qwen2")
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.35,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


@cache
def tiny_tokenizer() -> Any:
    """A byte-level BPE trained on our own prompts: True, False, Yes, No, letters and digits are single tokens."""
    questions = [question for domain in ("capitals", "science") for question in quiz(domain, 30, 1)]
    texts = [answer_prompt(question).turns[0] for question in questions]
    texts += [p_true_prompt(question, option).turns[0] for question in questions for option in question.options]
    texts += [distractor_prompt(Question("Why?", form="number"), 5).turns[0]]
    texts += [f"Answer: {letter}\nConfidence: {digit}" for letter in "ABCDEFGH" for digit in range(10)]
    texts += [word for word in ("True", " True", "False", " False", "true", "false", "Yes", "No") for _ in range(50)]
    tokenizer = Tokenizer(models.BPE())
    splits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|start|>", eos_token="<|end|>", pad_token="<|end|>"
    )
    wrapped.chat_template = TEMPLATE
    return wrapped


def tiny_model(family: str = "llama", *, seed: int = 0, **changes: Any) -> Any:
    """A random model of a family in float32, the same for the same seed."""
    sizes = {**SIZES, "vocab_size": len(tiny_tokenizer())}
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, {}),
        "gemma2": (
            transformers.Gemma2Config,
            transformers.Gemma2ForCausalLM,
            {"head_dim": 8, "attn_implementation": "eager", "sliding_window": 1024},
        ),
        "phi3": (transformers.Phi3Config, transformers.Phi3ForCausalLM, {}),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, {}),
        "gpt2": (
            transformers.GPT2Config,
            transformers.GPT2LMHeadModel,
            {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 2048},
        ),
    }
    config_class, model_class, extra = kinds[family]
    if family == "gpt2":
        sizes = {key: sizes[key] for key in ("vocab_size", "bos_token_id", "eos_token_id", "initializer_range")}
    config = config_class(**{**sizes, **extra, **changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(config).eval()


def tiny_folder(folder: Path, family: str = "llama", **changes: Any) -> Path:
    """A tiny model and its tokenizer saved as `secl.backends.local.loading.loader.load` reads them."""
    tiny_model(family, **changes).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
