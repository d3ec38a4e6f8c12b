"""Token sequences that share beginnings as one tree: every shared token goes through the network once.

The prompts of one question (answer, one branch per option letter, one P(True) branch per candidate) begin alike. As a
tree in a single row, they cost one forward pass over the distinct tokens. A mask lets each token see only its
ancestors, and positions count from the root. So the results equal those of separate passes.

Each token has depth-first entry and exit times. A token sees another if its entry lies between the other's entry and
exit. Two numbers per token thus replace a T x T mask. Layers with a sliding window (Gemma 3) see only the nearest
ancestors. The window counts positions, which are depths in a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

Nodes = NDArray[np.int64]
"""Numbers of nodes of a prefix tree, which are the rows of its hidden states."""

WHOLE, LOCAL = "full_attention", "sliding_attention"
"""transformers' names of layers that see all earlier tokens, and of layers with a sliding window."""


@dataclass(frozen=True)
class Trie:
    """A prefix tree over token sequences.

    Attributes:
        tokens: (T,) token id of each node, in order of first appearance; a parent precedes its children.
        parents: (T,) index of the parent node, -1 for a root.
        depths: (T,) position of the node in its sequences.
        paths: for each sequence, the nodes of its tokens, shape (length,).
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    depths: NDArray[np.int64]
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
                # A node is its parent and its token; the number of the sequence keeps unshared nodes apart.
                key = (0 if shared else number, node, token)
                if key not in children:
                    children[key] = len(nodes)
                    nodes.append((token, node, depth))
                node = children[key]
                path.append(node)
            paths.append(np.array(path, dtype=np.int64))
        tokens, parents, depths = np.array(nodes, dtype=np.int64).reshape(-1, 3).T
        return cls(tokens, parents, depths, tuple(paths))

    @cached_property
    def sight(self) -> Sight:
        """The tokens that each token sees."""
        parents = self.parents.tolist()
        sizes, enters = [1] * len(parents), [0] * len(parents)
        # A parent precedes its children, so going backwards counts all descendants of a token before the token itself.
        for node in range(len(parents) - 1, -1, -1):
            if parents[node] >= 0:
                sizes[parents[node]] += sizes[node]
        free = [*enters, 0]  # entry time of each token's next child; the last entry is that of the roots
        for node, parent in enumerate(parents):
            enters[node] = free[parent]
            free[parent] += sizes[node]
            free[node] = enters[node] + 1
        began = torch.tensor(enters)
        return Sight(began, began + torch.tensor(sizes), torch.from_numpy(self.depths))


@dataclass(frozen=True, slots=True)
class Sight:
    """The positions that T tokens attend to in a layer.

    Attributes:
        enters, leaves: (T,) depth-first entry and exit times.
        depths: (T,) position of each token in its sequences.
        window: number of tokens that a layer sees, the token itself included; None for all.
    """

    enters: Tensor
    leaves: Tensor
    depths: Tensor
    window: int | None = None

    @property
    def is_chain(self) -> bool:
        """Whether the tokens are a single sequence without branches."""
        return bool((self.depths == torch.arange(len(self.depths))).all())

    def in_layer(self, kind: str, config: PreTrainedConfig) -> Sight:
        """Return the sight in layers of this kind; `self` if all ancestors lie within the window."""
        # The first token of a sequence has depth 0, so the deepest token is the farthest from what it sees.
        near = kind == WHOLE or int(self.depths.max()) < config.sliding_window
        return self if near else replace(self, window=config.sliding_window)

    def at(self, nodes: Tensor) -> Sight:
        """Return the sight of some of the tokens."""
        return replace(self, enters=self.enters[nodes], leaves=self.leaves[nodes], depths=self.depths[nodes])

    def to(self, device: torch.device) -> Sight:
        """Return the sight with its tensors on a device."""
        enters, leaves, depths = torch.stack([self.enters, self.leaves, self.depths]).to(device, non_blocking=True)
        return replace(self, enters=enters, leaves=leaves, depths=depths)

    def seen(self, nodes: Tensor) -> Tensor:
        """Return the numbers of all tokens that at least one of these tokens sees in a `WHOLE` layer, ascending."""
        entered = self.enters[nodes].sort().values
        during = torch.searchsorted(entered, self.leaves) > torch.searchsorted(entered, self.enters)
        return during.nonzero()[:, 0]

    def pairs(self, queries: Tensor | slice, keys: Tensor | slice = slice(None)) -> Tensor:
        """Return whether each of N tokens sees each of K others: (N, K)."""
        entered, depth = self.enters[queries][:, None], self.depths[queries][:, None]
        pairs = (self.enters[keys] <= entered) & (entered < self.leaves[keys])
        return pairs if self.window is None else pairs & (depth - self.depths[keys] < self.window)


def layer_kinds(config: PreTrainedConfig) -> list[str]:
    """Return the kind of each layer: `WHOLE` or `LOCAL`; raise `ModelError` for other kinds."""
    # Without named layers all are alike, and have a window if the configuration has a window: transformers' own rule.
    usual = LOCAL if getattr(config, "sliding_window", None) else WHOLE
    kinds = getattr(config, "layer_types", None) or [usual] * config.num_hidden_layers
    others = sorted({*kinds} - {LOCAL, WHOLE})
    if others:
        raise ModelError(f"it has layers of the kind {others[0]}.")
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
