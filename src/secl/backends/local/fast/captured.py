"""What entered some layers of a network in a pass: to be run again on some of its tokens, or joined with another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from secl.errors import ModelError

PER_TOKEN = ("position_ids", "position_embeddings", "cache_position")
"""Layer arguments with one entry per token (last or last-but-one dimension); everything else must not hold tensors."""

BLOCK_MASKS = "block_masks"
"""The layer argument that `secl.backends.local.fast.tree_attention` reads."""


@dataclass
class Captured:
    """What entered the layers from the first adapted one on.

    Attributes:
        hidden: states (1, T, d) that entered the first of them; None as long as none has run.
        arguments: what each was given beside, one dict a layer.
    """

    hidden: Tensor | None
    arguments: list[dict[str, Any]]

    def cut(self, rows: Tensor) -> tuple[Tensor, list[dict[str, Any]]]:
        """Hidden states and arguments for the tokens `rows` alone."""
        if self.hidden is None:
            raise ModelError("its layers did not run in the forward pass.")
        return _rows_of(self.hidden, rows), [_restrict(each, rows) for each in self.arguments]

    def joined(self, rows: Tensor, after: Captured) -> Captured:
        """The tokens `rows`, and behind them all those of another pass, with its masks."""
        hidden, arguments = self.cut(rows)
        if after.hidden is None:
            raise ModelError("its layers did not run in the forward pass.")
        both = [_join(one, other) for one, other in zip(arguments, after.arguments, strict=True)]
        return Captured(torch.cat([hidden, after.hidden], dim=1), both)


def _restrict(arguments: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """The arguments of a layer for the tokens `rows` alone."""
    restricted: dict[str, Any] = {}
    for name, value in arguments.items():
        if name == "attention_mask" and isinstance(value, Tensor) and BLOCK_MASKS not in arguments:
            restricted[name] = value[:, :, rows.to(value.device)][..., rows.to(value.device)]
        elif name in PER_TOKEN:
            restricted[name] = _each(partial(_rows_of, rows=rows), value)
        elif isinstance(value, Tensor) and name != "attention_mask":
            # Passed on whole it would be wrong without a word, so the fast path is given up.
            raise ModelError(f"its layers take a tensor {name!r} that cannot be cut to some tokens.")
        else:
            restricted[name] = value
    return restricted


def _rows_of(part: Tensor, rows: Tensor) -> Tensor:
    """The entries of some tokens in a tensor (T,), (B, T) or (B, T, d)."""
    rows = rows.to(part.device)
    return part[rows] if part.ndim == 1 else part[:, rows]


def _join(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a layer for the tokens of two passes, one behind the other."""
    joined = dict(after)
    for name in PER_TOKEN:
        if name in after:
            joined[name] = _each(lambda *parts: torch.cat(parts, min(1, parts[0].ndim - 1)), before[name], after[name])
    return joined


def _each(change: Callable[..., Tensor], *values: Any) -> Any:
    """Change a tensor (T,), (B, T) or (B, T, d), or each tensor of a tuple; with several, those in the same place."""
    if isinstance(values[0], tuple):
        return tuple(_each(change, *parts) for parts in zip(*values, strict=True))
    return change(*values) if isinstance(values[0], Tensor) else values[-1]
