"""A tree of token sequences with common beginnings: every shared token goes through the network once.

The prompts of one question (answer, one branch per option letter, one P(True) branch per candidate) have the same
beginning. As a tree in a single row, they cost one forward pass over the distinct tokens. A mask lets each token see
only its ancestors, and positions count from the root. So the results equal those of separate passes.

Each token has depth-first entry and exit times. A token sees another if its own entry lies between the other token's
entry and exit. Two numbers per token thus replace a T x T mask. Layers with a sliding window (Gemma 3) see only the
nearest ancestors. The window counts positions, which are depths in a tree.

In the prompts of one question, only about a quarter of all pairs of tokens see each other. Dense kernels compute all
pairs. On the CPU, attention is block-sparse instead: secl multiplies the queries of each block of neighbouring tokens
with the keys of all tokens that at least one token of the block sees. Scores and softmax are computed in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AttentionInterface, PreTrainedConfig

from secl.errors import ModelError

Nodes = NDArray[np.int64]
"""Numbers of nodes of a prefix tree, which are the rows of its hidden states."""

WHOLE, LOCAL = "full_attention", "sliding_attention"
"""transformers' names of layers that see all earlier tokens, and of layers with a sliding window."""

NAME = "secl_tree"
"""Name of the block-sparse attention in transformers."""

BLOCK = 96
"""Queries in a block: smaller blocks compute fewer hidden pairs, larger blocks multiply faster."""

Block = tuple[Tensor | slice, Tensor | slice, Tensor]
"""A block of tokens (N,), the tokens (K,) that at least one token of the block sees, and a bias (N, K) in float32.

Attention adds the bias to the scores: 0 for visible pairs, else a large negative number.
"""


@dataclass(frozen=True)
class Trie:
    """A prefix tree over token sequences.

    Attributes:
        tokens: (T,) token id of each node, in order of first appearance; a parent precedes its children.
        depths: (T,) position of the node in its sequences.
        enters, leaves: (T,) depth-first entry and exit times.
        paths: for each sequence, the nodes of its tokens, shape (length,).
    """

    tokens: NDArray[np.int64]
    depths: Tensor
    enters: Tensor
    leaves: Tensor
    paths: tuple[Nodes, ...]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], *, shared: bool = True) -> Trie:
        """Build the tree; `shared=False` keeps the sequences apart (for networks that cannot take a tree mask).

        >>> Trie.of([[5, 6, 7], [5, 6, 8]]).tokens.tolist()
        [5, 6, 7, 8]
        """
        children: dict[tuple[int, int, int], int] = {}
        nodes: list[tuple[int, int, int]] = []
        paths = []
        for number, sequence in enumerate(sequences):
            node = -1  # the parent of all roots
            path = []
            for depth, token in enumerate(sequence):
                # Parent and token identify a node. Without sharing, the number of the sequence is part of the key.
                key = (0 if shared else number, node, token)
                if key not in children:
                    children[key] = len(nodes)
                    nodes.append((token, node, depth))
                node = children[key]
                path.append(node)
            paths.append(np.array(path, dtype=np.int64))
        tokens, parents, depths = np.array(nodes, dtype=np.int64).reshape(-1, 3).T
        enters, leaves = _times(parents.tolist())
        return cls(tokens, torch.from_numpy(depths), enters, leaves, tuple(paths))

    @property
    def is_chain(self) -> bool:
        """Whether the tokens are a single sequence without branches."""
        return bool((self.depths == torch.arange(len(self.depths))).all())

    def window(self, kind: str, config: PreTrainedConfig) -> int | None:
        """Return the number of tokens that layers of a kind see, the token itself included; None for all ancestors."""
        # The deepest token sees depths.max() + 1 tokens, so a window of this size or more hides none of them.
        size: int = config.sliding_window if kind == LOCAL else 0
        return size if 0 < size <= int(self.depths.max()) else None

    def at(self, nodes: Tensor) -> Trie:
        """Return the tree of `nodes` without paths; `nodes` must include all tokens that they see."""
        return Trie(self.tokens[nodes.numpy()], self.depths[nodes], self.enters[nodes], self.leaves[nodes], ())

    def to(self, device: torch.device) -> Trie:
        """Return the tree with its tensors on a device."""
        depths, enters, leaves = torch.stack([self.depths, self.enters, self.leaves]).to(device, non_blocking=True)
        return replace(self, depths=depths, enters=enters, leaves=leaves)

    def seen(self, nodes: Tensor) -> Tensor:
        """Return the numbers of all tokens that at least one of these tokens sees in a `WHOLE` layer, ascending."""
        entered = self.enters[nodes].sort().values
        during = torch.searchsorted(entered, self.leaves) > torch.searchsorted(entered, self.enters)
        return during.nonzero()[:, 0]

    def pairs(self, queries: Tensor | slice, keys: Tensor | slice = slice(None), window: int | None = None) -> Tensor:
        """Return whether each of N queries sees each of K keys: (N, K). A `window` hides ancestors outside of it."""
        entered, depth = self.enters[queries][:, None], self.depths[queries][:, None]
        pairs = (self.enters[keys] <= entered) & (entered < self.leaves[keys])
        return pairs if window is None else pairs & (depth - self.depths[keys] < window)

    def blocks(self, window: int | None = None, queries: Tensor | None = None, *, known: int = 0) -> list[Block]:
        """Return, in blocks, which tokens each token sees in a layer.

        Args:
            queries: ascending numbers of the tokens whose attention output is needed; None for all. The output of other
                tokens is 0.
            known: number of initial tokens, which need no queries because their keys and values are cached.
        """
        blocks: list[Block] = []
        for rows in torch.split(torch.arange(known, len(self.depths)) if queries is None else queries, BLOCK):
            # Consecutive tokens are mostly on one branch, so the union of the tokens that they see stays small.
            keys = self.seen(rows)
            pairs = self.pairs(rows, keys, window)
            near = pairs.any(0)
            keys, hidden = keys[near], ~pairs[:, near]
            # The bias is half of the most negative number. With the whole number, the sum with a score could be -inf,
            # and softmax of a row with only -inf is nan.
            bias = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min / 2)
            blocks.append((_as_index(rows - known), _as_index(keys), bias))
        return blocks


def _times(parents: list[int]) -> tuple[Tensor, Tensor]:
    """Return depth-first entry and exit times of nodes. Each node follows its parent; the parent of a root is -1."""
    sizes, enters = [1] * len(parents), [0] * len(parents)
    # A parent precedes its children, so going backwards counts all descendants of a token before the token itself.
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] >= 0:
            sizes[parents[node]] += sizes[node]
    free = [*enters, 0]  # entry time of each token's next child; the last entry belongs to the next root
    for node, parent in enumerate(parents):
        enters[node] = free[parent]
        free[parent] += sizes[node]
        free[node] = enters[node] + 1
    began = torch.tensor(enters)
    return began, began + torch.tensor(sizes)


def layer_kinds(config: PreTrainedConfig) -> list[str]:
    """Return the kind of each layer: `WHOLE` or `LOCAL`; raise `ModelError` for other kinds."""
    # As in transformers: without a list of kinds, the window of the configuration, if any, applies to all layers.
    usual = LOCAL if getattr(config, "sliding_window", None) else WHOLE
    kinds = getattr(config, "layer_types", None) or [usual] * config.num_hidden_layers
    others = sorted({*kinds} - {LOCAL, WHOLE})
    if others:
        raise ModelError(f"the model has layers of the kind {others[0]}.")
    return list(kinds)


@contextmanager
def short_windows(config: PreTrainedConfig, size: int) -> Iterator[None]:
    """Within the block, sliding windows are `size` tokens wide, so that a short text is longer than the windows."""
    usual = getattr(config, "sliding_window", None)
    if usual:
        config.sliding_window = size
    try:
        yield
    finally:
        if usual:
            config.sliding_window = usual


def _as_index(numbers: Tensor) -> Tensor | slice:
    """Return ascending numbers as an index; numbers without gaps become a slice, which avoids a copy."""
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first == len(numbers) - 1 else numbers


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    blocks: Sequence[Block],
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
    for rows, seen, bias in blocks:
        asking = queries[:, :, rows]
        count = asking.shape[2]
        scores = asking.reshape(groups, -1, width) @ keys[:, :, seen]
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.view(heads, count, -1) + bias.to(scores.device)  # layers may lie on several devices
        if sinks is None:
            weights = scores.softmax(-1)
        else:
            sink = sinks.to(precise)[:, None, None].expand(heads, count, 1)
            weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]
        # Only scores and softmax are computed in float32; the weighted sum has the model's precision.
        weights = weights.to(values.dtype).reshape(groups, -1, scores.shape[-1])
        outputs.append((weights @ values[:, seen]).view(heads, count, -1).transpose(0, 1))
    out = torch.cat(outputs)
    if len(out) < length:
        # Tokens without a query get an output of 0, which secl does not read.
        order = torch.cat([torch.arange(length)[rows] for rows, _, _ in blocks])
        out = out.new_zeros(length, *out.shape[1:]).index_copy(0, order.to(out.device), out)
    return out[None]


def _interface(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    *,
    scaling: float,
    block_masks: Sequence[Sequence[Block]],
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_unused: object,
) -> tuple[Tensor, None]:
    """Compute attention with transformers' signature; `block_masks` holds the blocks of each layer."""
    return attend(query, key, value, block_masks[module.layer_idx], scaling, softcap, s_aux), None


AttentionInterface.register(NAME, _interface)


@contextmanager
def tree_attention(config: PreTrainedConfig) -> Iterator[None]:
    """Within the block, a model with this configuration computes attention with the argument `block_masks`."""
    # transformers looks up the name at every call of a layer, so the name can change between passes.
    usual = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
