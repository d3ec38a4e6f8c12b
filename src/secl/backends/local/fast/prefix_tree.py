"""Token sequences that share beginnings as one tree: every shared token goes through the network once.

The prompts of one question (answer, one branch per option letter, one P(True) branch per candidate) begin alike. Laid
out as a tree in a single row, with a mask that lets each token see its ancestors alone and with positions counted from
the root, they cost one forward pass over the distinct tokens and give the same numbers as separate passes.

Some layers see no further back than a window (Gemma 3). A window counts positions, which in a tree are depths: a token
sees the nearest of its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from secl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

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
        tokens: list[int] = []
        parents: list[int] = []
        depths: list[int] = []
        paths = []
        for number, sequence in enumerate(sequences):
            node = -1  # the parent of all roots
            path = []
            for depth, token in enumerate(sequence):
                # A node is its parent and its token; the number of the sequence keeps apart what is not to be shared.
                key = (0 if shared else number, node, token)
                if key not in children:
                    children[key] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                    depths.append(depth)
                node = children[key]
                path.append(node)
            paths.append(np.array(path, dtype=np.int64))
        return cls(np.array(tokens), np.array(parents), np.array(depths), tuple(paths))

    @property
    def is_chain(self) -> bool:
        """Whether it is a single sequence without branches."""
        return bool((self.parents == np.arange(len(self.parents)) - 1).all())

    def visible(self) -> NDArray[np.bool_]:
        """(T, T) mask: row i is true at node i and at its ancestors."""
        visible = np.eye(len(self.tokens), dtype=np.bool_)
        # A parent comes before its children, so its row is complete when they take it over.
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                visible[node] |= visible[parent]
        return visible


SIZES = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Kinds of layers that do not see everything, by transformers' names, and the setting that says how much they see."""


def layer_kinds(config: PreTrainedConfig) -> list[str]:
    """The kind of each layer: one of `SIZES`, or "full_attention".

    Raises:
        ModelError: a layer mixes tokens in another way than by attention.
    """
    # Where no layer is named all are alike, and see less if a size is there: so does transformers infer them.
    usual = next((kind for kind, size in SIZES.items() if getattr(config, size, None)), "full_attention")
    kinds = getattr(config, "layer_types", None) or [usual] * config.num_hidden_layers
    others = sorted({*kinds} - {*SIZES, "full_attention"})
    if others:
        raise ModelError(f"it has layers of the kind {others[0]}.")
    return list(kinds)


def seen_in(
    kind: str, config: PreTrainedConfig, visible: NDArray[np.bool_], depths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """What tokens see in a layer.

    Args:
        kind: of the layer.
        config: of the text model.
        visible: (N, T) which of T tokens the last N of them see where nothing is too far away.
        depths: (T,) positions of the T tokens.

    Returns:
        (N, T); `visible` itself where nothing is too far away.
    """
    if kind not in SIZES:
        return visible
    size, own = getattr(config, SIZES[kind]), depths[len(depths) - len(visible) :, None]
    near = own - depths < size if kind == "sliding_attention" else own // size == depths // size
    return visible if near[visible].all() else visible & near


@contextmanager
def short_windows(config: PreTrainedConfig, size: int) -> Iterator[None]:
    """Within the block layers that do not see everything see `size` tokens, so that a short text shows what they do."""
    usual = {name: getattr(config, name) for name in SIZES.values() if getattr(config, name, None)}
    for name in usual:
        setattr(config, name, size)
    try:
        yield
    finally:
        for name, value in usual.items():
            setattr(config, name, value)
