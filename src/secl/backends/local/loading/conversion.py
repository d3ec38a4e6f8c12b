"""One-time conversion of a GGUF file to a cached folder of safetensors, which later loads map into memory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from numpy.typing import NDArray
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel

from secl.backends.chat_templates import no_template
from secl.backends.local.loading.guard import NO_CODE, as_model_error, quiet
from secl.backends.token_ids import sample_text
from secl.errors import ModelError, StorageError
from secl.machine import cache_folder, publish_folder

if TYPE_CHECKING:
    from gguf import ReaderTensor

UNFINISHED = ".unfinished-"
"""Prefix of incomplete folders."""

SAMPLE_BLOCKS, BLOCK = 64, 65536

TEMPLATE = "tokenizer.chat_template"
"""Name of the chat template in a GGUF file."""

TEMPLATE_FILES = ("chat_template.jinja", "tokenizer_config.json")
"""Files beside a GGUF file from which transformers takes a chat template."""

IN_ROWS = ("llama", "qwen2")
"""Model types whose order of rows in GGUF is known. Only these types are converted a few rows at a time."""

ROWS_BYTES = 2**24
"""Maximum number of bytes of rows, in float32, that a thread dequantises at a time."""

THREADS = 8

SHARD_BYTES = 10**9
"""Maximum size of a file of weights. A whole file is in memory before it is written."""

Advance = Callable[[int], None]
"""Function for the progress bar that takes the number of bytes written since its last call."""


def is_gguf(source: Path | str) -> bool:
    """Return whether a model's source is a GGUF file, by its name."""
    return Path(source).suffix.lower() == ".gguf"


def convert_gguf(path: Path, precision: torch.dtype, *, chats: bool = False) -> Path:
    """Return the cached safetensors folder of a GGUF file, converting the file if needed.

    Args:
        chats: whether the model needs a chat template that works; secl checks it before the conversion.

    Raises:
        ModelError: not a GGUF file, an architecture that transformers cannot read, or no working chat template.
        StorageError: not enough free disk for the converted model.
    """
    kind = str(precision).removeprefix("torch.")
    folder = cache_folder() / "models" / f"{path.stem}-{sampled_digest(path)[:16]}-{kind}"
    if (folder / "config.json").is_file():
        return folder
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a GGUF file.")
    with _alone(path, folder.parent):
        if not (folder / "config.json").is_file():
            for left in (folder, *folder.parent.glob(f"{UNFINISHED}*")):  # remains of killed conversions
                shutil.rmtree(left, ignore_errors=True)
            _convert(path, folder, precision, chats)
    return folder


def _convert(path: Path, folder: Path, precision: torch.dtype, chats: bool) -> None:
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent) as name:
        unfinished, (stored, config) = Path(name), _read(path, chats)
        size = precision.itemsize * sum(int(tensor.n_elements) for tensor in stored.values())
        if shutil.disk_usage(folder.parent).free < size:
            needed = f"converting {path.name} needs about {decimal(size)} of disk space in {folder.parent}"
            raise StorageError(f"{needed}; make room, or set SECL_CACHE to another folder.")
        with _progress(path, folder, size) as advance, as_model_error(str(path)):
            with quiet():
                tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, **NO_CODE)
            if chats:
                sample_text(tokenizer, str(path))
            tokenizer.save_pretrained(unfinished)
            if config.model_type in IN_ROWS:
                _write_in_rows(unfinished, stored, config, precision, advance)
            else:
                _write_whole(unfinished, path, precision)
        unfinished.chmod(0o755)
        publish_folder(unfinished, folder)


def sampled_digest(file: Path) -> str:
    """Return the sha256 of a file's size and of evenly spread blocks, without reading gigabytes."""
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        for block in range(SAMPLE_BLOCKS):
            stream.seek(max(0, size - BLOCK) * block // (SAMPLE_BLOCKS - 1))
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()


@contextlib.contextmanager
def _alone(path: Path, parent: Path) -> Iterator[None]:
    """Within the block, no other process converts a model; other processes wait for the end of the block."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as problem:
        raise StorageError(
            f"the converted {path.name} cannot be stored in {parent}: {problem.strerror}; set SECL_CACHE to a "
            "writable folder."
        ) from problem


def _read(path: Path, chats: bool) -> tuple[dict[str, ReaderTensor], PreTrainedConfig]:
    """Return the tensors of a GGUF file by name, not yet in memory, and the model's configuration."""
    from gguf import GGUFReader  # only a conversion needs it

    with as_model_error(str(path)), quiet():
        file = GGUFReader(path)
        if chats and TEMPLATE not in file.fields and not any((path.parent / each).is_file() for each in TEMPLATE_FILES):
            raise no_template(str(path))
        stored = {tensor.name: tensor for tensor in file.tensors}
        return stored, AutoConfig.from_pretrained(path.parent, gguf_file=path.name, **NO_CODE)


@contextlib.contextmanager
def _progress(path: Path, folder: Path, size: int) -> Iterator[Advance]:
    """Announce the conversion, and show a progress bar in a terminal; the bar pulses until the first bytes."""
    screen = Console(file=sys.stderr, markup=False, highlight=False)
    screen.print(f"secl converts {path.name} once: about {decimal(size)} in {folder}.", soft_wrap=True)
    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda written: bar.update(task, total=size, advance=written)


def _write_in_rows(
    folder: Path, stored: Mapping[str, ReaderTensor], config: PreTrainedConfig, precision: torch.dtype, advance: Advance
) -> None:
    """Write configuration and weights as `save_pretrained` would, with one file of weights in memory at a time."""
    with torch.device("meta"), quiet():
        model = AutoModelForCausalLM.from_config(config, dtype=precision, **NO_CODE)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    weights = _weights_of(model, stored)
    shards = split_torch_state_dict_into_shards(dict(model.named_parameters()), max_shard_size=SHARD_BYTES)
    for file, names in shards.filename_to_tensors.items():
        values = {name: _dequantised(name, weights[name], config, precision, advance) for name in names}
        save_file(values, folder / file, metadata={"format": "pt"})
    if shards.is_sharded:
        index = {"metadata": shards.metadata, "weight_map": shards.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _dequantised(
    name: str, tensor: ReaderTensor, config: PreTrainedConfig, precision: torch.dtype, advance: Advance
) -> Tensor:
    """Return a weight in transformers' form, converting a few rows at a time in each thread."""
    from gguf import dequantize

    rows = _in_order(name, tensor.data, config)
    values = torch.empty(tuple(map(int, tensor.shape[::-1])), dtype=precision)
    step = max(1, ROWS_BYTES * len(rows) // (4 * int(tensor.n_elements)))

    def convert(start: int) -> int:
        some = values[start : start + step]
        some.copy_(torch.tensor(dequantize(rows[start : start + step], tensor.tensor_type)))
        _check_finite(name, some)
        return some.nbytes

    with ThreadPoolExecutor(THREADS) as pool:
        for written in pool.map(convert, range(0, len(rows), step)):
            advance(written)
    return values


def _weights_of(model: PreTrainedModel, stored: Mapping[str, ReaderTensor]) -> dict[str, ReaderTensor]:
    """Return the stored tensors under the model's names."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    kind = next(kind for kind, name in MODEL_ARCH_NAMES.items() if name == model.config.model_type)
    names = get_tensor_name_map(kind, model.config.num_hidden_layers)
    weights = {}
    for name, _ in model.named_parameters():  # tied weights appear only once
        tensor = stored.get(names.get_name(name, (".weight", ".bias")))
        if tensor is None:
            raise ValueError(f"the weights of {name} are not in the file; take another file of this model.")
        weights[name] = tensor
    return weights


def _in_order(name: str, rows: NDArray[np.generic], config: PreTrainedConfig) -> NDArray[np.generic]:
    """Return the rows of a weight in transformers' order.

    The rotary embedding rotates pairs of rows. In Llama's query and key weights, GGUF stores the two rows of a pair
    next to each other. transformers stores the first rows of all pairs of a head, then the second rows.
    """
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if config.model_type != "llama" or heads is None:
        return rows
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _check_finite(name: str, values: Tensor) -> None:
    if not values.isfinite().all():  # the largest number in fp16 is 65504
        raise ValueError(f"the weights of {name} are too large for {values.dtype}; take another --dtype or file.")


def _write_whole(folder: Path, path: Path, precision: torch.dtype) -> None:
    """Write configuration and weights from the whole model in memory."""
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=precision, **NO_CODE)
        for name, values in model.named_parameters():
            _check_finite(name, values)
        # The weights are plain tensors now, but transformers still marks the model as quantised.
        model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
        model.config.__dict__.pop("quantization_config", None)
        model.config.architectures = [type(model).__name__]
        model.save_pretrained(folder)
