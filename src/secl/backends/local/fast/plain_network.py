"""The plain path, for models that the fast one does not fit: each sequence alone, each pass through all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from secl.backends.local.fast.network import Nodes, Replay, Switch
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.model_parts import AsLogits, LinearHead
from secl.backends.local.placement import compute_device


class PlainNetwork:
    """Runs every sequence on its own, as the model itself does.

    Args:
        model: a transformers causal language model.
        switch: of its adapter.
        head: reads the hidden states, or logits where a model computes them in a way of its own.
    """

    def __init__(self, model: Any, switch: Switch, head: LinearHead | AsLogits) -> None:
        self.model = model
        self.device = compute_device(model)
        self.switch = switch
        self.head = head
        self._hidden: Tensor
        # What goes into the head is the final hidden state, wherever the model computes it.
        if isinstance(head, LinearHead):
            head.module.register_forward_pre_hook(self._keep)

    def _keep(self, _head: nn.Module, args: tuple[Tensor, ...]) -> None:
        self._hidden = args[0]

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]]) -> PlainPass:
        """One forward pass of the frozen model for each sequence."""
        trie = Trie.of(sequences, shared=False)
        return PlainPass(self, trie, torch.cat([self.forward(sequence) for sequence in sequences]))

    def forward(self, sequence: Sequence[int]) -> Tensor:
        """What the head reads of one sequence: hidden states (length, d), or the logits (length, V) themselves."""
        tokens = torch.tensor([list(sequence)], device=self.device)
        logits: Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return logits[0] if isinstance(self.head, AsLogits) else self._hidden[0].to(self.device)


@dataclass(frozen=True)
class PlainPass:
    """A pass of `PlainNetwork`: what its head reads at every token of every sequence."""

    network: PlainNetwork
    trie: Trie
    states: Tensor

    def frozen(self, nodes: Nodes) -> Tensor:
        return self.states[torch.from_numpy(nodes)]

    def adapted(self, nodes: Nodes) -> Replay:
        # Only whole sequences can be run again: those with a requested node. Without sharing, a node is in one of them.
        paths = [path for path in self.trie.paths if np.isin(path, nodes).any()]
        order = np.concatenate(paths)
        rows = torch.tensor([int(np.flatnonzero(order == node)[0]) for node in nodes])

        def compute() -> Tensor:
            with self.network.switch.on():
                return torch.cat([self.network.forward(self.trie.tokens[path].tolist()) for path in paths])[rows]

        return Replay(len(order), compute)
