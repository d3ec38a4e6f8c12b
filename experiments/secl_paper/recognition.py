"""Which of the paper's models a model is, and so which column it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secl_paper.paper import read_paper


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The paper's model that a model is compared with.

    Attributes:
        name: its key in `paper.json`; None where the model is none of the paper's.
        why: how that is known, as a clause.
    """

    name: str | None
    why: str


def counterpart(model: str, against: str | None = None) -> Counterpart:
    """The paper's model that is asked for, or the one that a model is: by its preset, its hub id or its configuration.

    Args:
        model: as for `secl.backends.local.loading.load`; no weights are read.
        against: the name of the paper's model that is asked for, if one is.

    Raises:
        ModelError: the model's configuration cannot be read.
    """
    if against is not None:
        return Counterpart(against, "--against names it")
    models = read_paper().models
    if model in models:
        return Counterpart(model, "the model is this preset")
    from secl.backends.local.presets import PRESETS, preset_of  # imports torch

    for name in models:
        if model.casefold() == PRESETS[name].source.casefold():
            return Counterpart(name, "the model is its hub id")
    known = PRESETS[model] if model in PRESETS else preset_of(_configuration(model))
    for name in models:
        if known is not None and known.source == PRESETS[name].source:
            return Counterpart(name, f"the model's configuration has the shape of {known.source}")
    return Counterpart(None, "neither its name nor its configuration is that of a model of the paper")


def _configuration(model: str) -> Any:
    from transformers import AutoConfig

    from secl.backends.local.guard import as_model_error, quiet
    from secl.backends.local.loading import locate

    source = locate(model)
    with as_model_error(model), quiet():
        if isinstance(source, Path) and source.suffix == ".gguf":
            return AutoConfig.from_pretrained(source.parent, gguf_file=source.name)
        return AutoConfig.from_pretrained(str(source))
