"""Which bundles of sequences go through the network together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secl.backends.local.fast.prefix_tree import Nodes, Trie
from secl.backends.local.fast.replay import Pass
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.guard import in_halves

GROUP_TOKENS = 1000
"""Most distinct tokens in one pass of several bundles: enough for a processor, and for a GPU with a large model.

Attention grows with the square. No device has a number of its own, because a pass of another shape rounds differently.
"""


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
    run: Callable[[Sequence[Sequence[int]]], Pass],
    bundles: Sequence[Sequence[Sequence[int]]],
    max_tokens: int,
) -> list[BundlePass]:
    """Run bundles of token sequences; neighbours share a pass of at most `max_tokens` distinct tokens.

    Raises:
        ModelError: a bundle alone needs more memory than the device has.
    """

    def run_together(own: Sequence[Sequence[Sequence[int]]]) -> list[BundlePass]:
        return _shares(run([sequence for bundle in own for sequence in bundle]), own, 0)

    shares: list[BundlePass] = []
    for group in groups([len(Trie.of(bundle).tokens) for bundle in bundles], max_tokens):
        shares += in_halves(run_together, [bundles[number] for number in group])
    return shares


def grown(
    network: SharedNetwork,
    begun: Sequence[BundlePass],
    bundles: Sequence[Sequence[Sequence[int]]],
    max_tokens: int,
    *,
    paid: bool = True,
) -> list[BundlePass]:
    """Go on from passes that can grow; neighbours that begin in the same one share the next.

    Args:
        begun: for each bundle a sequence in a pass, like which its sequences may begin.
        max_tokens: most new tokens in a pass of several bundles.
        paid: whether somebody paid for what is known already.
    """
    known = [share.forward.trie.tokens[share.paths[0]].tolist() for share in begun]
    sizes = [
        len(Trie.of([sequence, *bundle]).tokens) - len(sequence)
        for sequence, bundle in zip(known, bundles, strict=True)
    ]

    def grow_together(numbers: Sequence[int]) -> list[BundlePass]:
        own = [bundles[number] for number in numbers]
        paths = [begun[number].paths[0] for number in numbers]
        sequences = [sequence for bundle in own for sequence in bundle]
        forward = network.grow(begun[numbers[0]].forward, paths, sequences)
        return _shares(forward, own, forward.known if paid else 0)

    shares: list[BundlePass] = []
    for _, same in itertools.groupby(range(len(bundles)), lambda number: id(begun[number].forward)):
        numbers = list(same)
        for places in groups([sizes[number] for number in numbers], max_tokens):
            shares += in_halves(grow_together, [numbers[index] for index in places])
    return shares


def alone(forward: Pass, sequence: Sequence[int]) -> BundlePass:
    """A pass over one sequence."""
    (share,) = _shares(forward, [[sequence]], 0)
    return share


def _shares(forward: Pass, bundles: Sequence[Sequence[Sequence[int]]], known: int) -> list[BundlePass]:
    """What each bundle has of a pass whose first `known` nodes were paid for before."""
    paths = iter(forward.trie.paths)
    own = [[next(paths) for _ in bundle] for bundle in bundles]
    nodes = [np.unique(np.concatenate(each)) for each in own]
    weights = 1 / np.maximum(1, np.bincount(np.concatenate(nodes)))  # how many bundles need each node
    weights[:known] = 0
    return [BundlePass(forward, each, weights) for each in own]


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
