"""Calls into transformers: silent, and with one sentence where they fail."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import transformers
from safetensors import SafetensorError

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


@contextlib.contextmanager
def as_model_error(name: str) -> Iterator[None]:
    """transformers reports an unreachable, broken or unsupported model in many ways; the user needs one sentence."""
    try:
        yield
    except _LOADING_ERRORS as problem:
        lines = str(problem).strip().splitlines()
        first = lines[0] if lines else type(problem).__name__
        raise ModelError(f"the model {name!r} cannot be loaded: {first}") from problem


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Our own progress speaks to the user; the bars and hints of transformers stay silent."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
