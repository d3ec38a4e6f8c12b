"""Models that the caller has loaded. secl never changes the caller's objects."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from secl.backends.local.loading.guard import as_model_error
from secl.backends.local.loading.loader import Loaded, text_class, wrap
from secl.backends.local.loading.model_parts import text_config, twin
from secl.errors import ModelError, ParameterError

SAMPLED = 64
"""Values of each weight in the fingerprint."""

PADDED = 0.9
"""Minimum share of the embedding's rows that the model's own tokenizer uses; models pad their rows by 1 % or less."""


def adopt(model: Any, tokenizer: Any) -> Loaded:
    """Return the caller's causal language model with new modules over the same weights; secl never writes to them.

    Raises:
        ModelError, ParameterError: the model is of another kind or carries an adapter, or the tokenizer belongs to
            another model.
    """
    name = getattr(model, "name_or_path", "") or type(model).__name__
    _check(name, model)
    _check_tokenizer(name, model, tokenizer)
    with as_model_error(name):
        own = twin(model).eval()
        # Only the eager implementation caps attention scores (Gemma 2).
        if getattr(text_config(own.config), "attn_logit_softcapping", None) is not None:
            own.set_attn_implementation("eager")
    return wrap(name, own, tokenizer, fingerprint=_fingerprint(own, tokenizer))


def _check(name: str, model: object) -> None:
    """Reject models other than plain causal language models."""
    if hasattr(model, "peft_config") or getattr(model, "_hf_peft_config_loaded", False):
        raise ModelError(
            f"the model {name!r} carries a PEFT adapter; pass model.merge_and_unload(), or the base model alone."
        )
    if not isinstance(model, PreTrainedModel):
        raise ParameterError(
            f"{type(model).__name__} is not a model; give a name, a folder, a GGUF file, the URL of a server, or a "
            "transformers model with its tokenizer."
        )
    text_class(name, model.config)
    if model.get_output_embeddings() is None:
        raise ModelError(f"{type(model).__name__} has no language-model head; load it with AutoModelForCausalLM.")


def _check_tokenizer(name: str, model: PreTrainedModel, tokenizer: Any) -> None:
    """Reject a missing tokenizer, and a tokenizer whose size does not fit the model."""
    if tokenizer is None:
        raise ParameterError(f"the model {name!r} came without its tokenizer; call secl.load(model, tokenizer).")
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        raise ParameterError(f"{type(tokenizer).__name__} is not a tokenizer of transformers; use AutoTokenizer.")
    rows = model.get_input_embeddings().weight.shape[0]
    if not PADDED * rows <= len(tokenizer) <= rows:
        raise ModelError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {name!r} {rows}, so it belongs to another model; "
            "load both from one place."
        )


@torch.no_grad()
def _fingerprint(model: PreTrainedModel, tokenizer: Any) -> str:
    """Return the sha256 of configuration, chat template, vocabulary and a sample of every weight."""
    digest = hashlib.sha256(model.config.to_json_string(use_diff=True).encode())
    digest.update(repr((tokenizer.chat_template, sorted(tokenizer.get_vocab().items()))).encode())
    for name, weight in model.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        if weight.device.type != "meta" and weight.numel():  # accelerate keeps some weights elsewhere
            values = weight.flatten()[:: max(1, weight.numel() // SAMPLED)]
            digest.update(values.float().cpu().numpy().tobytes())
    return digest.hexdigest()
