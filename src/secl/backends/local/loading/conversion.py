"""One-time conversion of a GGUF file to a cached folder of safetensors, which later loads map into memory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.filesize import decimal
from transformers import AutoModelForCausalLM, AutoTokenizer

from secl.backends.local.loading.guard import NO_CODE, as_model_error, quiet
from secl.backends.token_ids import sample_text
from secl.errors import ModelError, StorageError
from secl.machine import cache_folder, publish_folder

UNFINISHED = ".unfinished-"
"""Prefix of incomplete folders."""

SAMPLE_BLOCKS, BLOCK = 64, 65536
"""Number and length of the blocks of a large file in its digest."""

WHOLE = 2**28
"""Maximum length of a file in bytes that a digest reads whole."""


TEMPLATE_FILES = ("chat_template.jinja", "tokenizer_config.json")
"""Files beside a GGUF file from which transformers takes a chat template."""


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
    folder = cache_folder() / "models" / f"{path.stem}-{_digest_with_template(path)[:16]}-{kind}"
    if (folder / "config.json").is_file():
        return folder
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a GGUF file.")
    with _lock_folder(path, folder.parent):
        if not (folder / "config.json").is_file():
            for left in (folder, *folder.parent.glob(f"{UNFINISHED}*")):  # remains of killed conversions
                shutil.rmtree(left, ignore_errors=True)
            _convert(path, folder, precision, chats)
    return folder


def _convert(path: Path, folder: Path, precision: torch.dtype, chats: bool) -> None:
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent) as name:
        unfinished = Path(name)
        with as_model_error(str(path)), quiet():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, **NO_CODE)
            if chats:
                sample_text(tokenizer, str(path))
            size = precision.itemsize * _count_weights(path)
        if shutil.disk_usage(folder.parent).free < size:
            needed = f"converting {path.name} needs about {decimal(size)} of disk space in {folder.parent}"
            raise StorageError(f"{needed}; make room, or set SECL_CACHE to another folder.")
        screen = Console(file=sys.stderr, markup=False, highlight=False)
        screen.print(f"secl converts {path.name} once: about {decimal(size)} in {folder}.", soft_wrap=True)
        with screen.status("converting"), as_model_error(str(path)), quiet():
            tokenizer.save_pretrained(unfinished)
            _write(unfinished, path, precision)
        unfinished.chmod(0o755)
        publish_folder(unfinished, folder)


def _digest_with_template(path: Path) -> str:
    """Return the sha256 of a GGUF file and of the templates beside the file; of a large file, also of its time."""
    large = path.stat().st_size > WHOLE
    parts: list[object] = [sampled_digest(path), path.stat().st_mtime_ns if large else ""]
    parts += [file.read_bytes() for name in TEMPLATE_FILES if (file := path.parent / name).is_file()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def sampled_digest(file: Path) -> str:
    """Return the sha256 of a file; of a large file, of its size and of evenly spread blocks."""
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        if size <= WHOLE:
            return hashlib.file_digest(stream, lambda: digest).hexdigest()
        for block in range(SAMPLE_BLOCKS):
            stream.seek(max(0, size - BLOCK) * block // (SAMPLE_BLOCKS - 1))
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()


@contextlib.contextmanager
def _lock_folder(path: Path, parent: Path) -> Iterator[None]:
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


def _count_weights(path: Path) -> int:
    """Return the number of weights in a GGUF file."""
    from gguf import GGUFReader  # only a conversion needs it

    return sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)


def _write(folder: Path, path: Path, precision: torch.dtype) -> None:
    """Write configuration and weights, which are in memory meanwhile."""
    model, report = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=precision, output_loading_info=True, **NO_CODE
    )
    if report["missing_keys"]:  # transformers has filled them with random numbers
        raise ValueError(f"the weights of {min(report['missing_keys'])} are not in the file; take another file.")
    for name, values in model.named_parameters():
        if not values.isfinite().all():  # the largest number in fp16 is 65504
            raise ValueError(f"the weights of {name} are too large for {values.dtype}; take another --dtype or file.")
    # The weights are plain tensors now, but transformers still marks the model as quantised.
    model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
    model.config.__dict__.pop("quantization_config", None)
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(folder)
