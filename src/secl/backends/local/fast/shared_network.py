"""One forward pass, two models: the frozen network runs once, the adapted one replays its top layers.

LoRA sits on some layers of the network. Below the first of them (the trunk) the frozen and the adapted model are the
same, so the trunk of a question is computed once: hooks keep the hidden states that enter the first adapted layer,
together with the arguments (mask, rotary embeddings, positions) that each layer above received. Replaying the top
layers on them with the adapter switched on gives the adapted model; doing so with gradients is all that training needs.

Answers are written behind their prompts and then read together with the question for their confidence. A pass over
prompts keeps its keys and values, and grows: of the longer sequences only what is new goes through the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.prefix_tree import Nodes, Trie, layer_kinds, seen_in
from secl.backends.local.fast.replay import BLOCK_MASKS, Arguments, Captured, LastLayerSlicer, Replay
from secl.backends.local.fast.tree_attention import BlockMask, tree_attention
from secl.backends.local.model_parts import Layout, LinearHead
from secl.backends.local.placement import compute_device
from secl.errors import ModelError

M = TypeVar("M")


class SharedNetwork:
    """The fast path: one row of tokens for a whole tree, and replays of the top layers.

    Args:
        model: a transformers causal language model.
        adapter: on it.
        first: number of the first adapted layer.
        sparse: whether attention leaves out pairs of tokens that do not see each other, and passes can grow, which
            rests on that; unless given on a processor, because it does not pay on accelerators.

    Raises:
        ModelError: the parts of the model are not where they are expected.
    """

    def __init__(self, model: PreTrainedModel, adapter: Adapter, first: int, *, sparse: bool | None = None) -> None:
        self.layout = Layout.find(model)
        self.config: PreTrainedConfig = self.layout.decoder.config
        if getattr(self.config, "attn_temperature_tuning", False):
            raise ModelError("its layers without rotation count positions along the row, and a tree has branches.")
        self.head = LinearHead.of(model)
        self.adapter = adapter
        self.top = list(self.layout.layers)[first:]
        self.top_share = len(self.top) / len(self.layout.layers)
        self.device = compute_device(model)
        self.dtype = model.dtype
        self.kinds = layer_kinds(self.config)
        self.sparse = self.device.type == "cpu" if sparse is None else sparse
        self.last_layer = LastLayerSlicer(self.top[-1])
        # The hooks stay for good; outside `_capturing` they do nothing.
        self._capture: Captured | None = None
        self._hooks = [layer.register_forward_pre_hook(self._keep, with_kwargs=True) for layer in self.top]

    def close(self) -> None:
        """Leave the model as it was found."""
        for hook in self._hooks:
            hook.remove()
        self.last_layer.close()

    def _keep(self, _layer: nn.Module, args: tuple[Tensor, ...], kwargs: Arguments) -> None:
        """Before each top layer: keep its arguments, and the hidden states that enter the first one."""
        if self._capture is None:
            return  # a replay, or a text that is being written
        if len(args) != 1:
            raise ModelError("its layers take more than hidden states by position.")
        if self._capture.hidden is None:
            self._capture.hidden = args[0]
        # Each layer has arguments of its own: masks and rotary embeddings may differ from layer to layer (Gemma). A
        # replay computes keys and values of its own, so it gets no cache.
        own = {name: None if isinstance(value, Cache) else value for name, value in kwargs.items()}
        self._capture.arguments.append(own)

    @contextmanager
    def _capturing(self) -> Iterator[Captured]:
        self._capture = captured = Captured(None, [])
        try:
            yield captured
        finally:
            self._capture = None

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]], *, keep: bool = False) -> SharedPass:
        """One forward pass over the distinct tokens of `sequences`: of the frozen model, as long as the adapter is off.

        Args:
            sequences: token sequences.
            keep: whether keys and values are kept, so that the pass can grow.
        """
        trie, cache = Trie.of(sequences), DynamicCache() if keep else None
        return SharedPass(self, trie, *self.forward(trie, 0, cache), cache)

    @torch.no_grad()
    def begin(self, tokens: Sequence[int]) -> tuple[SharedPass, Cache]:
        """Read one sequence exactly as the model itself does, for a text to be written behind it.

        Returns:
            a pass that can grow, and its keys and values for the writer to go on from.
        """
        trie, cached = Trie.of([tokens]), DynamicCache()
        row = torch.from_numpy(trie.tokens)[None].to(self.device)
        with self._capturing() as captured:
            out = self.layout.decoder(
                input_ids=row,
                attention_mask=torch.ones_like(row),
                position_ids=torch.arange(len(tokens), device=self.device)[None],
                past_key_values=cached,
                use_cache=True,
            )
        # Going on makes new tensors, so those that are kept stay what they are.
        cache = DynamicCache([(layer.keys, layer.values) for layer in cached.layers], config=self.config)
        states = out.last_hidden_state[0].to(self.device)
        return SharedPass(self, trie, trie.visible(), states, captured, cached), cache

    @torch.no_grad()
    def forward(self, trie: Trie, known: int, cache: Cache | None) -> tuple[NDArray[np.bool_], Tensor, Captured]:
        """Send the nodes of a tree through the network, but for the first `known`, whose keys and values are cached.

        Returns:
            which nodes see which (T, T); and of the nodes that went through, final states (N, d) and what was captured.
        """
        # The tree is a batch of one row. Neighbours in the row may be on different branches: the mask keeps them
        # apart, and a token's position is its depth, so that rotary embeddings see the sequence and not the row.
        tokens = torch.from_numpy(trie.tokens[known:])[None].to(self.device)
        positions = torch.from_numpy(trie.depths[known:])[None].to(self.device)
        visible = trie.visible()
        with self._capturing() as captured, self._attention():
            out = self.layout.decoder(
                input_ids=tokens,
                position_ids=positions,
                past_key_values=cache,
                use_cache=False,
                **self._masked(trie, visible[known:]),
            )
        # The head is not applied here: of thousands of tokens only a few are ever read.
        return visible, out.last_hidden_state[0].to(self.device), captured

    def _attention(self) -> AbstractContextManager[None]:
        return tree_attention(self.config) if self.sparse else nullcontext()

    def _masked(self, trie: Trie, visible: NDArray[np.bool_]) -> Arguments:
        """The arguments that tell attention which tokens see which."""
        if self.sparse:
            # A mask of four dimensions is passed on as it is; transformers would make a causal one in place of None.
            masks = self.block_masks(visible, trie.depths)
            return {"attention_mask": torch.zeros(1, 1, 1, 1), BLOCK_MASKS: masks}
        if trie.is_chain:
            # A single sequence: the usual causal masks are right, and kernels are faster without an explicit one.
            return {"attention_mask": None}
        dense = self._masks(self._dense, visible, trie.depths)
        one = dense[self.kinds[0]]
        # A model with layers of several kinds takes a mask for each.
        return {"attention_mask": one if all(each is one for each in dense.values()) else dense}

    def block_masks(
        self, visible: NDArray[np.bool_], depths: NDArray[np.int64], queries: Nodes | None = None
    ) -> list[BlockMask]:
        """The mask of each layer; in the last one only the tokens `queries` have queries."""
        of_kind = self._masks(BlockMask, visible, depths)
        masks = [of_kind[kind] for kind in self.kinds]
        return masks if queries is None else [*masks[:-1], BlockMask(masks[-1].visible, queries)]

    def _masks(
        self, make: Callable[[NDArray[np.bool_]], M], visible: NDArray[np.bool_], depths: NDArray[np.int64]
    ) -> dict[str, M]:
        """A mask for each kind of layer; kinds that see the same share one."""
        seen = {kind: seen_in(kind, self.config, visible, depths) for kind in dict.fromkeys(self.kinds)}
        masks = {id(each): make(each) for each in seen.values()}
        return {kind: masks[id(each)] for kind, each in seen.items()}

    def _dense(self, seen: NDArray[np.bool_]) -> Tensor:
        """A mask (1, 1, N, T) to be added to scores."""
        hidden_from = torch.from_numpy(~seen).to(self.device)
        mask = torch.zeros(hidden_from.shape, dtype=self.dtype, device=self.device)
        # The smallest number and not -inf, with which a row of nothing but hidden tokens would become nan.
        return mask.masked_fill_(hidden_from, torch.finfo(self.dtype).min)[None, None]

    def replay(self, hidden: Tensor, arguments: list[Arguments], rows: Tensor) -> Tensor:
        """Top layers and final norm of the adapted model on trunk states (1, T, d), at the N tokens `rows`: (N, d)."""
        with self.adapter.on(), self._attention():
            for layer, kwargs in zip(self.top, arguments, strict=True):
                # Of the last layer only the requested rows are read, by nobody else: no later layer attends to them.
                with self.last_layer.only(rows) if layer is self.top[-1] else nullcontext():
                    out = layer(hidden, **kwargs)
                # Layers return a tensor, or a tuple that begins with it, depending on the family.
                hidden = out if isinstance(out, Tensor) else out[0]
        normed: Tensor = self.layout.norm(hidden[:, rows.to(hidden.device)])
        return normed[0].to(self.device)


@dataclass(frozen=True)
class SharedPass:
    """A forward pass of `SharedNetwork`.

    Attributes:
        network: that made it.
        trie: the T tokens.
        visible: (T, T) which of them see which.
        states: final states of the frozen model (T, d).
        captured: trunk states, for replays.
        cache: keys and values of all layers; None if they were not kept.
        known: how many of the tokens, the first ones, were computed by another pass.
    """

    network: SharedNetwork
    trie: Trie
    visible: NDArray[np.bool_]
    states: Tensor
    captured: Captured
    cache: Cache | None = None
    known: int = 0

    def grow(self, paths: Sequence[Nodes], sequences: Sequence[Sequence[int]]) -> SharedPass:
        """A pass over longer sequences; what they have in common with sequences of this pass is not computed again.

        Args:
            paths: of this pass: nodes of sequences, from the first token on.
            sequences: whole token sequences.

        Returns:
            a pass of its own, over both; it keeps no keys and values, and this pass stays as it is.
        """
        if self.cache is None:
            raise ValueError("Only a pass with its keys and values can grow.")
        begun = [self.trie.tokens[path].tolist() for path in paths]
        trie = Trie.of([*begun, *sequences])
        # Nodes are in order of first appearance, so those that are there already come first.
        order = np.full(len(trie.tokens), -1)
        for path, own in zip(paths, trie.paths, strict=False):
            order[own] = path
        rows = torch.from_numpy(order[order >= 0]).to(self.states.device)
        cache = DynamicCache([(layer.keys[:, :, rows], layer.values[:, :, rows]) for layer in self.cache.layers])
        visible, states, captured = self.network.forward(trie, len(rows), cache)
        return SharedPass(
            self.network,
            replace(trie, paths=trie.paths[len(begun) :]),
            visible,
            torch.cat([self.states[rows], states]),
            self.captured.joined(rows, captured),
            known=len(rows),
        )

    def frozen(self, nodes: Nodes) -> Tensor:
        """Final hidden states (N, d) of the frozen model at `nodes`."""
        return self.states[torch.from_numpy(nodes)]

    def adapted(self, nodes: Nodes) -> Replay:
        """A replay that computes the final hidden states (N, d) of the adapted model at `nodes`."""
        # A replay needs the requested nodes and all that they see, and no other part of the tree.
        needed = np.flatnonzero(self.visible[nodes].any(axis=0))
        # From here on rows count within `needed`. A node that is requested twice is computed once.
        requested, order = np.unique(np.searchsorted(needed, nodes), return_inverse=True)
        requested_rows, order_rows = torch.from_numpy(requested).to(self.states.device), torch.from_numpy(order)
        rows = torch.from_numpy(needed).to(self.states.device)
        hidden, arguments = self.captured.cut(rows)
        if self.network.sparse:
            # The last layer has queries at the requested rows alone, so it needs blocks for these alone.
            visible = self.visible[np.ix_(needed, needed)]
            masks = self.network.block_masks(visible, self.trie.depths[needed], requested)
            for kwargs in arguments:
                kwargs[BLOCK_MASKS] = masks
        cost = len(needed) * self.network.top_share
        return Replay(cost, lambda: self.network.replay(hidden, arguments, requested_rows)[order_rows])
