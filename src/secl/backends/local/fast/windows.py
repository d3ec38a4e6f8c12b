"""How far back the tokens of a tree see in each layer: to the first one, or only so many as in local layers (Gemma 3).

A window counts positions, which in a tree are depths: a token sees the nearest of its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secl.errors import ModelError

SIZES = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Kinds of layers that do not see everything, by transformers' names, and the setting that says how much they see."""


def layer_kinds(config: Any) -> list[str]:
    """The kind of each layer: one of `SIZES`, or "full_attention".

    Raises:
        ModelError: a layer mixes tokens in another way than by attention.
    """
    # Where no layer is named all are alike, and see less if a size is there: so does transformers infer them.
    usual = next((kind for kind, size in SIZES.items() if getattr(config, size, None)), "full_attention")
    kinds = getattr(config, "layer_types", None) or [usual] * config.num_hidden_layers
    others = sorted({*kinds} - {*SIZES, "full_attention"})
    if others:
        raise ModelError(f"it has layers of the kind {others[0]}.")
    return list(kinds)


def seen_in(kind: str, config: Any, visible: NDArray[np.bool_], depths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """What tokens see in a layer.

    Args:
        kind: of the layer.
        config: of the text model.
        visible: (N, T) which of T tokens the last N of them see where nothing is too far away.
        depths: (T,) positions of the T tokens.

    Returns:
        (N, T); `visible` itself where nothing is too far away.
    """
    if kind not in SIZES:
        return visible
    size, own = getattr(config, SIZES[kind]), depths[len(depths) - len(visible) :, None]
    near = own - depths < size if kind == "sliding_attention" else own // size == depths // size
    return visible if near[visible].all() else visible & near


@contextmanager
def short_windows(config: Any, size: int) -> Iterator[None]:
    """Within the block layers that do not see everything see `size` tokens, so that a short text shows what they do."""
    usual = {name: getattr(config, name) for name in SIZES.values() if getattr(config, name, None)}
    for name in usual:
        setattr(config, name, size)
    try:
        yield
    finally:
        for name, value in usual.items():
            setattr(config, name, value)
