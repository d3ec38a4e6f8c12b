"""Which bundles of sequences go through the network together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from secl.backends.local.fast.replay import Pass
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.guard import in_halves

GROUP_TOKENS = 1000
"""Most distinct tokens in one pass of several bundles: enough for a processor, and for a GPU with a large model.

Attention grows with the square. No device has a number of its own, because a pass of another shape rounds differently.
"""

Sequences = Sequence[Sequence[int]]
"""Token sequences of one bundle."""


def passes(
    run: Callable[[Sequences], Pass], bundles: Sequence[Sequences], sizes: Sequence[int], max_tokens: int
) -> list[Pass]:
    """Run bundles, of distinct tokens `sizes`; neighbours share a pass of at most `max_tokens` of them.

    Raises:
        ModelError: a bundle alone needs more memory than the device has.
    """

    def run_together(own: Sequence[Sequences]) -> list[Pass]:
        return _parts(run([sequence for bundle in own for sequence in bundle]), own)

    found: list[Pass] = []
    for group in groups(sizes, max_tokens):
        found += in_halves(run_together, [bundles[number] for number in group])
    return found


def grown(
    network: SharedNetwork,
    begun: Sequence[Pass],
    bundles: Sequence[Sequences],
    sizes: Sequence[int],
    max_tokens: int,
) -> list[Pass]:
    """Go on from passes that can grow; neighbours that begin in the same one share the next.

    Args:
        begun: for each bundle a sequence in a pass, like which its sequences may begin.
        sizes: distinct tokens of each bundle.
        max_tokens: most new tokens in a pass of several bundles.
    """

    def grow_together(numbers: Sequence[int]) -> list[Pass]:
        own = [bundles[number] for number in numbers]
        paths = [begun[number].paths[0] for number in numbers]
        forward = network.grow(begun[numbers[0]], paths, [sequence for bundle in own for sequence in bundle])
        return _parts(forward, own)

    found: list[Pass] = []
    for _, same in itertools.groupby(range(len(bundles)), lambda number: id(begun[number].states)):
        numbers = list(same)
        new = [max(0, sizes[number] - len(begun[number].paths[0])) for number in numbers]
        for places in groups(new, max_tokens):
            found += in_halves(grow_together, [numbers[index] for index in places])
    return found


def _parts(forward: Pass, bundles: Sequence[Sequences]) -> list[Pass]:
    """The pass as each bundle sees it."""
    paths = iter(forward.trie.paths)
    return [replace(forward, part=[next(paths) for _ in bundle]) for bundle in bundles]


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
