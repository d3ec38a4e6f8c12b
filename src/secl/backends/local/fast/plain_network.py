"""The plain path for a model of unknown layout: every sequence on its own, every pass through all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.shared_network import UNLIMITED, Nodes, Replay, Switch
from secl.backends.local.model_parts import AsLogits, LinearHead


class SeparateNetwork:
    """The plain path for a model of unknown layout: every sequence on its own, every pass through all layers."""

    window = UNLIMITED

    def __init__(self, model: Any, switch: Switch, head: LinearHead | AsLogits) -> None:
        self.model = model
        self.switch = switch
        self.head = head
        self._hidden: Tensor
        if isinstance(head, LinearHead):
            head.module.register_forward_pre_hook(self._keep)

    def _keep(self, _head: nn.Module, args: tuple[Tensor, ...]) -> None:
        self._hidden = args[0]

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]]) -> SeparatePass:
        """One forward pass of the frozen model for each sequence."""
        trie = Trie.of(sequences, shared=False)
        return SeparatePass(self, trie, torch.cat([self.forward(sequence) for sequence in sequences]))

    def forward(self, sequence: Sequence[int]) -> Tensor:
        """What the head reads of one sequence: hidden states (length, d), or the logits (length, V) themselves."""
        tokens = torch.tensor([list(sequence)], device=self.model.device)
        logits: Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return logits[0] if isinstance(self.head, AsLogits) else self._hidden[0]


@dataclass(frozen=True)
class SeparatePass:
    """A pass of `SeparateNetwork`: what its head reads at every token of every sequence."""

    network: SeparateNetwork
    trie: Trie
    states: Tensor

    def frozen(self, nodes: Nodes) -> Tensor:
        return self.states[torch.from_numpy(nodes)]

    def adapted(self, nodes: Nodes) -> Replay:
        chosen = [path for path in self.trie.paths if np.isin(path, nodes).any()]
        order = np.concatenate(chosen)
        where = torch.tensor([int(np.flatnonzero(order == node)[0]) for node in nodes])

        def compute() -> Tensor:
            with self.network.switch.on():
                return torch.cat([self.network.forward(self.trie.tokens[path].tolist()) for path in chosen])[where]

        return Replay(len(order), compute)
