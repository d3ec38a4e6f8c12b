"""Attention over a tree of tokens, for processors: neighbours look together at what some of them can see.

A tree of prompts is sparse: of all pairs of tokens in a scoring pass about a quarter see each other. The dense kernels
compute every pair and mask the rest away afterwards. Here the tokens are cut into blocks of neighbours, and each block
is multiplied with the union of what its tokens can see. Scores and their softmax are computed in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "secl_tree"
"""What transformers knows this attention by."""

BLOCK = 96
"""Tokens that look together: fewer waste less on pairs that do not see each other, more are faster to multiply."""


@dataclass(frozen=True)
class Block:
    """Some tokens and what they can see.

    Attributes:
        rows: (N,) the tokens, or a slice of them.
        keys: (K,) tokens that at least one of them sees, or a slice of them.
        hidden: (N, K) float32; 0 where a token sees another, else a large negative number.
    """

    rows: Tensor | slice
    keys: Tensor | slice
    hidden: Tensor


class BlockMask:
    """Which tokens of a pass see which.

    Args:
        visible: (T, T) row i is true at what token i sees.
        asked: tokens whose sight matters; None for all. The attention of the others is zero.
    """

    def __init__(self, visible: NDArray[np.bool_], asked: NDArray[np.int64] | None = None) -> None:
        self.visible = visible
        self.size = len(visible)
        self.blocks: list[Block] = []
        rows = np.arange(self.size) if asked is None else asked
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            keys = np.flatnonzero(visible[block].any(axis=0))
            hidden = torch.from_numpy(~visible[np.ix_(block, keys)])
            bias = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min / 2)
            self.blocks.append(Block(_places(block), _places(keys), bias))
        self.everywhere = asked is None


def _places(numbers: NDArray[np.int64]) -> Tensor | slice:
    """Ascending places, as a slice where they have no gap: that spares a copy."""
    if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return torch.from_numpy(numbers)


def attend(
    query: Tensor, key: Tensor, value: Tensor, sight: BlockMask, scaling: float, softcap: float | None = None
) -> Tensor:
    """Attention of one row of tokens.

    Args:
        query: (1, H, T, d).
        key, value: (1, G, T, d) with H a multiple of G.
        sight: of the T tokens.
        scaling: of the scores.
        softcap: bound that the scores are squeezed under, where the model has one (Gemma 2).

    Returns:
        (1, T, H, d).
    """
    heads, length, width = query.shape[1:]
    groups, precise = key.shape[1], torch.promote_types(query.dtype, torch.float32)
    asking = (query[0].to(precise) * scaling).reshape(groups, heads // groups, length, width)
    keys, values = key[0].to(precise).transpose(1, 2), value[0]
    found = []
    for block in sight.blocks:
        rows = asking[:, :, block.rows]
        count = rows.shape[2]
        scores = rows.reshape(groups, -1, width) @ keys[:, :, block.keys]
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.view(heads, count, -1) + block.hidden
        weights = scores.softmax(-1).to(values.dtype).view(groups, -1, scores.shape[-1])
        found.append((weights @ values[:, block.keys]).view(heads, count, -1).transpose(0, 1))
    out = torch.cat(found)
    if not sight.everywhere:
        rows = torch.cat([torch.arange(length)[block.rows] for block in sight.blocks])
        out = out.new_zeros(length, *out.shape[1:]).index_copy(0, rows, out)
    return out[None]


def _interface(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float,
    sight: BlockMask,
    softcap: float | None = None,
    **_unused: Any,
) -> tuple[Tensor, None]:
    """How transformers calls an attention; what a token may see is in `sight`, so the mask is not needed."""
    return attend(query, key, value, sight, scaling, softcap), None


AttentionInterface.register(NAME, _interface)


@contextmanager
def tree_attention(config: Any) -> Iterator[None]:
    """Within the block a model with this configuration attends as `sight`, an argument of its decoder, says."""
    usual = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
