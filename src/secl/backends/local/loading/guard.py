"""Loading without transformers' output, loading errors in one sentence, and free memory of devices."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch
import transformers
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from safetensors import SafetensorError
from transformers import PreTrainedModel

from secl.backends.chat_templates import Tokenizer
from secl.backends.local.loading.model_parts import compute_device, layers_of, text_config
from secl.backends.local.loading.presets import PRESETS
from secl.data.official import silent_retries
from secl.errors import ModelError

_LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError, AttributeError, SafetensorError)

CGROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux publishes the limits of a container."""

NO_CODE = {"trust_remote_code": False}
"""Argument of transformers' loaders: transformers neither runs code of a model's folder nor asks on standard input."""

PADDED = 0.9
"""Minimum share of the embedding's rows that have a token in the tokenizer. Models have 1 % unused rows or less."""

_LOG_IN = "run hf auth login (or set HF_TOKEN)"


@contextlib.contextmanager
def as_model_error(name: str) -> Iterator[None]:
    """Turn transformers' errors about an unusable model into one sentence."""
    try:
        yield
    except Exception as problem:
        if not isinstance(problem, _LOADING_ERRORS) and type(problem) is not Exception:  # tokenizers raises Exception
            raise
        raise ModelError(f"the model {name!r} cannot be loaded: {_reason(name, problem)}") from problem


def check_tokenizer(name: str, tokenizer: Tokenizer, rows: int) -> None:
    """Reject a tokenizer that can write tokens beyond the `rows` of a model's embedding, or has far fewer tokens.

    A special token without a row, such as Gemma 3's for images, is harmless if the chat template does not write it.
    """
    template = tokenizer.get_chat_template()
    template += "".join(getattr(tokenizer, each, None) or "" for each in ("bos_token", "eos_token") if each in template)
    special = {each.content for each in tokenizer.added_tokens_decoder.values() if each.special}
    beyond = [token for token, number in tokenizer.get_vocab().items() if number >= rows]
    written = [token for token in beyond if token not in special or token in template]
    if len(tokenizer) < PADDED * rows or len(written) > len(tokenizer.get_added_vocab()):
        raise ModelError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {name!r} has {rows}, so the tokenizer belongs to "
            "another model; load both from one folder or hub id."
        )
    if written:
        raise ModelError(
            f"the tokenizer of the model {name!r} has tokens that the model lacks ({', '.join(written[:3])}): the "
            f"embedding has {rows} rows; resize the embedding (resize_token_embeddings), or take the model's own "
            "tokenizer."
        )


def out_of_memory(problem: Exception) -> bool:
    """Return whether an error means that a device is out of memory; only CUDA has its own error class."""
    said = str(problem)
    other = isinstance(problem, RuntimeError) and ("MPS backend out of memory" in said or "DefaultCPUAllocator" in said)
    return other or isinstance(problem, torch.OutOfMemoryError)


def room_for_texts(model: PreTrainedModel) -> int:
    """Return the number of tokens whose keys and values fill half of the free memory.

    Answers and lessons need the other half.
    """
    config = text_config(model.config)
    width = config.hidden_size  # an upper limit for models without attention heads
    if attention := getattr(config, "num_attention_heads", None):
        heads = getattr(config, "num_key_value_heads", None) or attention
        width = heads * (getattr(config, "head_dim", None) or config.hidden_size // attention)
    free = sum(map(_free_memory, {compute_device(layer) for layer in layers_of(model)}))
    return int(free // (2 * config.num_hidden_layers * 2 * width * model.dtype.itemsize))


def _free_memory(device: torch.device) -> int:
    """Return the free bytes of a device, within the limit of a container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free: int = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):  # no such file, or the limit is "max"
        limit = int((CGROUP / "memory.max").read_text())
        (used,) = re.findall(r"^anon (\d+)", (CGROUP / "memory.stat").read_text(), re.MULTILINE)
        free = min(free, limit - int(used))
    return max(0, free)


def _reason(name: str, problem: BaseException) -> str:
    """Return why a model cannot be loaded, with a remedy for the hub's errors."""
    repository = PRESETS[name].source if name in PRESETS else name
    for cause in _causes(problem):
        if isinstance(cause, GatedRepoError):
            return (
                f"its repository is gated; accept the licence at https://huggingface.co/{repository}, {_LOG_IN}, and "
                "try again."
            )
        if isinstance(cause, RepositoryNotFoundError):
            return f"the hub has no repository {repository}, or it is private; check the name, or {_LOG_IN}."
        if isinstance(cause, LocalEntryNotFoundError | OfflineModeIsEnabled):
            return (
                f"{repository} is not on this machine and the hub cannot be reached; check the network and "
                "HF_HUB_OFFLINE, or name a folder that holds the model."
            )
    text = str(problem)
    if "trust_remote_code" in text:
        return "it needs code of its own, which secl never runs; name a model that transformers knows."
    if re.search(r"GGUF model with architecture .* is not supported", text):
        return "transformers cannot read GGUF files of its architecture; name a folder or hub id with its safetensors."
    first, *others = text.strip().splitlines() or [type(problem).__name__]
    return " ".join(" ".join([first, *others]).split()) if first.rstrip().endswith(":") else first


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes; transformers wraps the hub's exceptions in its own."""
    cause: BaseException | None = problem
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the block, transformers shows neither progress bars nor hints."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with silent_retries(), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
