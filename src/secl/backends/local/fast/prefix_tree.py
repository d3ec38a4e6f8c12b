"""Token sequences that share beginnings as one tree: every shared token goes through the network once.

The prompts of one question (answer, one branch per option letter, one P(True) branch per candidate) begin alike. Laid
out as a tree in a single row, with a mask that lets each token see its ancestors alone and with positions counted from
the root, they cost one forward pass over the distinct tokens and give the same numbers as separate passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int64]
"""Numbers of nodes of a prefix tree, which are the rows of its hidden states."""


@dataclass(frozen=True, slots=True)
class Trie:
    """A prefix tree over token sequences.

    Attributes:
        tokens: (T,) token id of each node, in order of first appearance; a parent precedes its children.
        parents: (T,) index of the parent node, -1 for a root.
        depths: (T,) position of the node in its sequences.
        paths: for each sequence the nodes of its tokens, shape (length,).
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
                # A node is its parent and its token; the number of the sequence keeps apart what is not to be shared.
                key = (0 if shared else number, node, token)
                if key not in children:
                    children[key] = len(nodes)
                    nodes.append((token, node, depth))
                node = children[key]
                path.append(node)
            paths.append(np.array(path, dtype=np.int64))
        tokens, parents, depths = np.array(nodes, dtype=np.int64).reshape(-1, 3).T
        return cls(tokens, parents, depths, tuple(paths))
