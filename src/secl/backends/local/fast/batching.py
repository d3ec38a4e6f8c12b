"""What goes through the network together: enough to keep it busy, little enough for attention to stay cheap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.shared_network import Network, Nodes, Pass

GROUP_TOKENS = 1000
"""Distinct tokens in one pass: enough to keep a processor busy; attention grows with the square."""

Bundle = Sequence[Sequence[int]]
"""Token sequences that belong together, with a common beginning."""


def passes(network: Network, bundles: Sequence[Bundle]) -> list[tuple[Pass, list[Nodes], float]]:
    """The pass, the paths and the share of tokens of each bundle; neighbours share a pass.

    A token that several bundles have in common is paid for in equal parts.
    """
    found: list[tuple[Pass, list[Nodes], float]] = []
    for group in groups([len(Trie.of(bundle).tokens) for bundle in bundles]):
        result = network.run([sequence for place in group for sequence in bundles[place]])
        paths = iter(result.trie.paths)
        own = [[next(paths) for _ in bundles[place]] for place in group]
        nodes = [np.unique(np.concatenate(each)) for each in own]
        sharers = np.bincount(np.concatenate(nodes))
        found.extend((result, each, float((1 / sharers[uses]).sum())) for each, uses in zip(own, nodes, strict=True))
    return found


def groups(sizes: Sequence[int]) -> list[list[int]]:
    """Neighbouring places, together as long as their sizes add up to at most `GROUP_TOKENS`.

    >>> groups([600, 300, 300, 1200])
    [[0, 1], [2], [3]]
    """
    found: list[list[int]] = []
    room = 0
    for place, size in enumerate(sizes):
        if not found or size > room:
            found.append([])
            room = GROUP_TOKENS
        found[-1].append(place)
        room -= size
    return found
