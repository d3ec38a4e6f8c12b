"""Calls into transformers: silent, and with one sentence where they fail."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import transformers
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from safetensors import SafetensorError

from secl.backends.local.presets import PRESETS
from secl.data.hub import silent_retries
from secl.errors import ModelError

_LOADING_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    RuntimeError,
    TypeError,
    ImportError,
    AttributeError,
    SafetensorError,
)

_LOG_IN = "run hf auth login or set HF_TOKEN"


@contextlib.contextmanager
def as_model_error(name: str) -> Iterator[None]:
    """transformers reports an unreachable, broken or unsupported model in many ways; the user needs one sentence.

    Args:
        name: of the model, as the user wrote it.
    """
    try:
        yield
    except _LOADING_ERRORS as problem:
        raise ModelError(f"the model {name!r} cannot be loaded: {_reason(name, problem)}") from problem


def _reason(name: str, problem: BaseException) -> str:
    """Why a model cannot be loaded, and what to do about it where the hub is the reason."""
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
    """An exception, what it was raised from, and so on: transformers hides the hub's exceptions behind its own."""
    cause: BaseException | None = problem
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Our own progress speaks to the user; the bars and hints of transformers stay silent."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with silent_retries(), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
