"""Quiet calls into transformers, with failures reported in one sentence."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
import transformers
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from safetensors import SafetensorError

from secl.backends.local.loading.presets import PRESETS
from secl.data.official import silent_retries
from secl.errors import ModelError

T = TypeVar("T")
R = TypeVar("R")

_LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError, AttributeError, SafetensorError)

_LOG_IN = "run hf auth login or set HF_TOKEN"


@contextlib.contextmanager
def as_model_error(name: str) -> Iterator[None]:
    """Turn transformers' errors about an unusable model into one sentence."""
    try:
        yield
    except _LOADING_ERRORS as problem:
        raise ModelError(f"the model {name!r} cannot be loaded: {_reason(name, problem)}") from problem


def out_of_memory(problem: Exception) -> bool:
    """Return whether an error means that a device is out of memory; only CUDA has its own error class."""
    said = str(problem)
    other = isinstance(problem, RuntimeError) and ("MPS backend out of memory" in said or "DefaultCPUAllocator" in said)
    return other or isinstance(problem, torch.OutOfMemoryError)


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Turn out-of-memory errors into `ModelError`."""
    try:
        yield
    except RuntimeError as problem:
        if not out_of_memory(problem):
            raise
        raise ModelError(
            "a single question needs more memory than the device has; take a smaller model, --quantize, or shorter "
            "questions."
        ) from problem


def in_halves(work: Callable[[Sequence[T]], list[R]], items: Sequence[T]) -> list[R]:
    """Process items together; if the memory is too small for all items, process each half separately.

    Raises:
        ModelError: too little memory for one item.
    """
    if len(items) < 2:
        with enough_memory():
            return work(items)
    try:
        return work(items)
    except RuntimeError as problem:
        if not out_of_memory(problem):
            raise
    warnings.warn(
        "The device has too little memory for a whole pass, so secl halves it. Halves take longer, and last digits may "
        "differ from those of another run.",
        RuntimeWarning,
        stacklevel=2,
    )
    torch.cuda.empty_cache()  # after the handler, which held the failed work's memory
    half = len(items) // 2
    return in_halves(work, items[:half]) + in_halves(work, items[half:])


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
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes; transformers wraps the hub's exceptions in its own."""
    cause: BaseException | None = problem
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the block, transformers shows no bars and hints; secl reports its own progress."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with silent_retries(), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
