"""Which bundles of sequences go through the network together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.shared_network import Network, Nodes, Pass

GROUP_TOKENS = 1000
"""Distinct tokens in one pass by default: enough to keep a processor busy; attention grows with the square."""


@dataclass(frozen=True)
class BundlePass:
    """A bundle of sequences in a pass that it may share with others.

    Attributes:
        forward: the pass.
        paths: for each sequence of the bundle the nodes of its tokens.
        weights: what each node of the pass costs a bundle that needs it: 1, or less if several bundles do.
    """

    forward: Pass
    paths: list[Nodes]
    weights: NDArray[np.float64]

    @property
    def tokens(self) -> float:
        """The bundle's share of the tokens; one that several bundles have in common is paid for in equal parts."""
        return self.cost(len(self.paths))

    def cost(self, count: int) -> float:
        """The same for its first `count` sequences."""
        return float(self.weights[np.unique(np.concatenate(self.paths[:count]))].sum()) if count else 0.0


def passes(
    network: Network, bundles: Sequence[Sequence[Sequence[int]]], max_tokens: int | None = None
) -> list[BundlePass]:
    """Run bundles of token sequences; neighbours share a pass.

    Args:
        network: what runs them.
        bundles: each goes through the network as a whole.
        max_tokens: most distinct tokens in a pass of several bundles; `GROUP_TOKENS` for None.
    """
    shares: list[BundlePass] = []
    for group in groups([len(Trie.of(bundle).tokens) for bundle in bundles], max_tokens or GROUP_TOKENS):
        forward = network.run([sequence for number in group for sequence in bundles[number]])
        paths = iter(forward.trie.paths)
        own = [[next(paths) for _ in bundles[number]] for number in group]
        nodes = [np.unique(np.concatenate(each)) for each in own]
        weights = 1 / np.bincount(np.concatenate(nodes))  # how many bundles need each node
        shares.extend(BundlePass(forward, each, weights) for each in own)
    return shares


def groups(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Numbers of neighbours that go together, as long as their sizes add up to at most `most`.

    >>> groups([600, 300, 300, 1200], 1000)
    [[0, 1], [2], [3]]
    """
    together: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not together or size > room:
            together.append([])
            room = most
        together[-1].append(number)
        room -= size
    return together
