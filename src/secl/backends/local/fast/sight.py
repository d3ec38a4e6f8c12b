"""Which tokens of a prefix tree see which: itself and its ancestors, and in some layers the near ones of them alone.

Each token has depth-first entry and exit times. A token sees another one if its entry lies between the other's entry
and exit: two numbers for each token replace a square of pairs.

Some layers see no further back than a window (Gemma 3). A window counts positions, which in a tree are depths: a token
sees the nearest of its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from secl.backends.local.fast.prefix_tree import Trie
from secl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

WHOLE, LOCAL = "full_attention", "sliding_attention"
"""The kinds of layers by transformers' names: those that see everything, and those that see no further back than a
window."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The positions that T tokens attend to in a layer.

    Attributes:
        enters, leaves: (T,) when the walk enters and leaves each token.
        depths: (T,) position of each token in its sequences.
        window: how many tokens a layer sees, itself included; None for all.
    """

    enters: Tensor
    leaves: Tensor
    depths: Tensor
    window: int | None = None

    @classmethod
    def of(cls, trie: Trie) -> Sight:
        parents = trie.parents.tolist()
        sizes, enters = [1] * len(parents), [0] * len(parents)
        # A parent comes before its children: backwards all of a token's descendants are counted when its parent's are.
        for node in range(len(parents) - 1, -1, -1):
            if parents[node] >= 0:
                sizes[parents[node]] += sizes[node]
        free = [*enters, 0]  # when the next child is entered; the last entry is that of the roots
        for node, parent in enumerate(parents):
            enters[node] = free[parent]
            free[parent] += sizes[node]
            free[node] = enters[node] + 1
        began = torch.tensor(enters)
        return cls(began, began + torch.tensor(sizes), torch.from_numpy(trie.depths))

    @property
    def is_chain(self) -> bool:
        """Whether the tokens are a single sequence without branches."""
        return bool((self.depths == torch.arange(len(self.depths))).all())

    def in_layer(self, kind: str, config: PreTrainedConfig) -> Sight:
        """Return the same in a layer of a kind; itself where nothing is too far away."""
        # The first token of a sequence has depth 0, so the deepest is the one that may be too far from what it sees.
        near = kind == WHOLE or int(self.depths.max()) < config.sliding_window
        return self if near else replace(self, window=config.sliding_window)

    def at(self, nodes: Tensor) -> Sight:
        """Return the same for some of the tokens."""
        return replace(self, enters=self.enters[nodes], leaves=self.leaves[nodes], depths=self.depths[nodes])

    def to(self, device: torch.device) -> Sight:
        """Return the same with its numbers on a device."""
        enters, leaves, depths = torch.stack([self.enters, self.leaves, self.depths]).to(device, non_blocking=True)
        return replace(self, enters=enters, leaves=leaves, depths=depths)

    def seen(self, nodes: Tensor) -> Tensor:
        """Return the numbers, ascending, of the tokens that at least one of these tokens sees in a `WHOLE` layer."""
        entered = self.enters[nodes].sort().values
        during = torch.searchsorted(entered, self.leaves) > torch.searchsorted(entered, self.enters)
        return during.nonzero()[:, 0]

    def pairs(self, queries: Tensor | slice, keys: Tensor | slice = slice(None)) -> Tensor:
        """Return whether each of N tokens sees each of K others: (N, K)."""
        entered, depth = self.enters[queries][:, None], self.depths[queries][:, None]
        pairs = (self.enters[keys] <= entered) & (entered < self.leaves[keys])
        return pairs if self.window is None else pairs & (depth - self.depths[keys] < self.window)


def layer_kinds(config: PreTrainedConfig) -> list[str]:
    """Return the kind of each layer: `WHOLE` or `LOCAL`."""
    # Where no layer is named all are alike, and see less if there is a window: so does transformers infer them.
    usual = LOCAL if getattr(config, "sliding_window", None) else WHOLE
    kinds = getattr(config, "layer_types", None) or [usual] * config.num_hidden_layers
    others = sorted({*kinds} - {LOCAL, WHOLE})
    if others:
        raise ModelError(f"it has layers of the kind {others[0]}.")
    return list(kinds)


@contextmanager
def short_windows(config: PreTrainedConfig, size: int) -> Iterator[None]:
    """Within the block layers that do not see everything see `size` tokens, so that a short text shows what they do."""
    usual = getattr(config, "sliding_window", None)
    if usual:
        config.sliding_window = size
    try:
        yield
    finally:
        if usual:
            config.sliding_window = usual
