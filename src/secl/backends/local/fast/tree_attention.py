"""Block-sparse attention over a prefix tree, on the CPU.

In a scoring pass about a quarter of all pairs of tokens see each other. Dense kernels compute every pair and mask the
others. Here each block of neighbouring tokens is multiplied with all tokens that at least one token of the block sees.
Scores and softmax are computed in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedConfig

from secl.backends.local.fast.prefix_tree import Sight

NAME = "secl_tree"
"""Name of this attention in transformers."""

BLOCK = 96
"""Queries in a block: smaller blocks compute fewer hidden pairs, larger blocks multiply faster."""


@dataclass(frozen=True)
class Block:
    """A block of tokens (N,) and the tokens (K,) that at least one token of the block sees.

    The bias (N, K), float32, is added to the scores: 0 for visible pairs, else a large negative number.
    """

    rows: Tensor | slice
    keys: Tensor | slice
    bias: Tensor


class BlockMask:
    """Visible pairs of a pass, in blocks.

    `queries` are the tokens whose attention output is needed, ascending (None: all). The output of all others is zero.
    The first `known` tokens have only keys and values.
    """

    def __init__(self, sight: Sight, queries: Tensor | None = None, *, known: int = 0) -> None:
        self.blocks: list[Block] = []
        self.complete = queries is None
        rows = torch.arange(known, len(sight.depths)) if queries is None else queries
        for block in torch.split(rows, BLOCK):
            # Neighbours are mostly on one branch, so the union of the tokens that they see stays small.
            keys = sight.seen(block)
            pairs = sight.pairs(block, keys)
            near = pairs.any(0)
            keys, hidden = keys[near], ~pairs[:, near]
            # Half of the smallest number, so that the sum with a score cannot overflow to -inf (and softmax to nan).
            bias = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min / 2)
            self.blocks.append(Block(_as_index(block - known), _as_index(keys), bias))


def _as_index(numbers: Tensor) -> Tensor | slice:
    """Return ascending numbers as an index; numbers without gaps become a slice, which avoids a copy."""
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first == len(numbers) - 1 else numbers


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: BlockMask,
    scaling: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Compute attention within one row of tokens.

    Args:
        query: (1, H, T, d).
        key, value: (1, G, T, d) with H a multiple of G.
        softcap: soft bound of the scores (Gemma 2).
        sinks: (H,) logit of each head's attention sink (gpt-oss).

    Returns: (1, T, H, d).
    """
    heads, length, width = query.shape[1:]
    groups, precise = key.shape[1], torch.promote_types(query.dtype, torch.float32)
    # Heads that share keys (grouped-query attention) are stacked, so that a block needs one product per group.
    queries = (query[0].to(precise) * scaling).reshape(groups, heads // groups, length, width)
    keys, values = key[0].to(precise).transpose(1, 2), value[0]
    outputs = []
    for block in mask.blocks:
        rows = queries[:, :, block.rows]
        count = rows.shape[2]
        scores = rows.reshape(groups, -1, width) @ keys[:, :, block.keys]
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.view(heads, count, -1) + block.bias.to(scores.device)  # layers may lie on several devices
        if sinks is None:
            weights = scores.softmax(-1)
        else:
            sink = sinks.to(precise)[:, None, None].expand(heads, count, 1)
            weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]
        # The weighted sum of the values is computed in the precision of the body.
        weights = weights.to(values.dtype).reshape(groups, -1, scores.shape[-1])
        outputs.append((weights @ values[:, block.keys]).view(heads, count, -1).transpose(0, 1))
    out = torch.cat(outputs)
    if not mask.complete:
        # Rows without a query are zero; no pass reads them.
        rows = torch.cat([torch.arange(length)[block.rows] for block in mask.blocks])
        out = out.new_zeros(length, *out.shape[1:]).index_copy(0, rows.to(out.device), out)
    return out[None]


class _Layer(Protocol):
    layer_idx: int


def _interface(
    module: _Layer,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float,
    block_masks: Sequence[BlockMask],
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_unused: object,
) -> tuple[Tensor, None]:
    """Compute attention with transformers' signature; `block_masks` holds a mask for each layer."""
    return attend(query, key, value, block_masks[module.layer_idx], scaling, softcap, s_aux), None


AttentionInterface.register(NAME, _interface)


@contextmanager
def tree_attention(config: PreTrainedConfig) -> Iterator[None]:
    """Within the block, a model with this configuration uses the `block_masks` that its decoder gets."""
    # transformers looks up the name at every call of a layer, so it can change between passes.
    usual = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
