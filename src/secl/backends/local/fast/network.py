"""What a network is asked for: passes over token sequences, and replays of them by the adapted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.model_parts import Head

Nodes = NDArray[np.int64]
"""Numbers of nodes of a prefix tree, which are the rows of its hidden states."""


class Switch(Protocol):
    """Turns the adapter on for the length of a `with` block; it is off at all other times."""

    def on(self) -> Any: ...


@dataclass(frozen=True)
class Replay:
    """A forward pass of the adapted model that can be made again as its weights change.

    Attributes:
        tokens: what one pass costs, in tokens through the whole network.
        compute: makes the pass.
    """

    tokens: float
    compute: Callable[[], Tensor]

    def __call__(self) -> Tensor:
        """Final hidden states (N, d) under the present weights, with gradients where they are enabled."""
        return self.compute()


class Pass(Protocol):
    """The hidden states of one forward pass over some sequences, frozen and adapted."""

    @property
    def trie(self) -> Trie: ...

    def frozen(self, nodes: Nodes) -> Tensor:
        """Final hidden states (N, d) of the frozen model at `nodes`."""
        ...

    def adapted(self, nodes: Nodes) -> Replay:
        """A replay that computes the final hidden states (N, d) of the adapted model at `nodes`."""
        ...


class Network(Protocol):
    """Runs sequences through the network; its head turns what the passes return into logits.

    Attributes:
        head: from hidden states to logits.
    """

    @property
    def head(self) -> Head: ...

    def run(self, sequences: Sequence[Sequence[int]]) -> Pass:
        """One forward pass of the frozen model."""
        ...
