"""One forward pass, two models: the frozen network runs once, the adapted one replays its top layers.

LoRA sits on some layers of the network. Below the first of them (the trunk) the frozen and the adapted model are the
same, so the trunk of a question is computed once: hooks keep the hidden states that enter the first adapted layer,
together with the arguments (mask, rotary embeddings, positions) that each layer above received. Replaying the top
layers on them with the adapter switched on gives the adapted model; doing so with gradients is all that training needs.

Answers are written after their prompts and then read together with the question for their confidence. A pass over
prompts keeps its keys and values, and grows: of the longer sequences only what is new goes through the network.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.prefix_tree import Nodes, Trie
from secl.backends.local.fast.replay import BLOCK_MASKS, MASK, Arguments, Captured, Pass, Replay, only_rows
from secl.backends.local.fast.sight import Sight, layer_kinds
from secl.backends.local.fast.tree_attention import BlockMask, tree_attention
from secl.backends.local.loading.model_parts import Layout, LinearHead
from secl.backends.local.loading.placement import compute_device, sent
from secl.errors import ModelError
from secl.writing import Piece

CHUNK = 2048
"""Tokens of a prompt that are read at a time; other work of a server may go in between."""

EXACT_TOKENS = 1024
"""Longest replay that learns the same bits each time on a GPU."""


class SharedNetwork:
    """The fast path: one row of tokens for a whole tree, and replays of the top layers.

    Args:
        sparse: whether attention leaves out pairs of tokens that do not see each other; unless given on a processor,
            because it does not pay on accelerators.

    Raises:
        ModelError: the parts of the model are not where they are expected.
    """

    def __init__(self, model: PreTrainedModel, adapter: Adapter, first: int, *, sparse: bool | None = None) -> None:
        self.layout = Layout.find(model)
        self.config: PreTrainedConfig = self.layout.decoder.config
        self.head = LinearHead.of(model)
        self.adapter = adapter
        self.top = list(self.layout.layers)[first:]
        self.top_share = len(self.top) / len(self.layout.layers)
        self.device = compute_device(model)
        self.dtype = model.dtype
        self.kinds = layer_kinds(self.config)
        self.sparse = self.device.type == "cpu" if sparse is None else sparse
        # The hooks stay for good; outside `capturing` they do nothing.
        self._capture: Captured | None = None
        self._hooks = [layer.register_forward_pre_hook(self._keep, with_kwargs=True) for layer in self.top]
        self._hooks.append(self.head.module.register_forward_pre_hook(self._keep_final))

    def close(self) -> None:
        """Leave the model as it was found."""
        for hook in self._hooks:
            hook.remove()

    def _keep(self, _layer: nn.Module, args: tuple[Tensor, ...], kwargs: Arguments) -> None:
        """Before each top layer: keep its arguments, and the hidden states that enter the first one."""
        if self._capture is None:
            return  # a replay, or a text that is being written
        if len(args) != 1:
            raise ModelError("its layers take more than hidden states by position.")
        # Each layer has arguments of its own: rotary embeddings may differ from layer to layer (Gemma).
        self._capture.keep(args[0], kwargs)

    def _keep_final(self, _head: nn.Module, args: tuple[Tensor, ...]) -> None:
        if self._capture is not None:
            self._capture.final = args[0]

    @contextmanager
    def capturing(self) -> Iterator[Captured]:
        """Within the block a pass leaves what enters its top layers and its head."""
        self._capture = captured = Captured(None, [])
        try:
            yield captured
        finally:
            self._capture = None

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]], *, keep: bool = False) -> Pass:
        """Compute one forward pass over the distinct tokens of `sequences`; without the adapter, of the frozen model.

        A pass that is to grow keeps its keys and values.
        """
        trie, cache = Trie.of(sequences), DynamicCache() if keep else None
        return self.read(trie, Sight.of(trie), cache)

    @torch.no_grad()
    def begin(self, tokens: Sequence[int]) -> Generator[Piece, None, tuple[Pass, DynamicCache]]:
        """Read one sequence as the model itself does, for a text to be written after it.

        A piece without text stands for each chunk but the last; other work may go in between.

        Returns:
            a pass that can grow, and its keys and values for the writer to go on from.
        """
        trie, cached = Trie.of([tokens]), DynamicCache()
        states, left = list[Tensor](), list[Captured]()
        for chunk in torch.split(torch.tensor([[*tokens]], device=self.device), CHUNK, dim=1):
            if states:
                yield Piece()
            before = sum(map(len, states))
            ends = before + chunk.shape[1]
            with self.capturing() as captured:
                out = self.layout.decoder(
                    input_ids=chunk,
                    attention_mask=chunk.new_ones(1, ends),
                    position_ids=torch.arange(before, ends, device=self.device)[None],
                    past_key_values=cached,
                    use_cache=True,
                )
            states.append(out.last_hidden_state[0].to(self.device))
            left.append(captured)
        # Going on makes new tensors, so those that are kept stay what they are.
        cache = DynamicCache([(layer.keys, layer.values) for layer in cached.layers], config=self.config)
        first, *others = left
        whole = first.joined(torch.arange(len(states[0]), device=self.device), *others) if others else first
        return Pass(trie, Sight.of(trie), torch.cat(states), whole, cached), cache

    @torch.no_grad()
    def read(self, trie: Trie, sight: Sight, cache: Cache | None, known: int = 0) -> Pass:
        """Send the nodes of a tree through the network, except for the first `known`, whose keys and values are cached.

        Returns:
            a pass over the others, whose states and captured states are theirs alone.
        """
        # The tree is a batch of one row. Neighbours in the row may be on different branches: the mask keeps them
        # apart, and a token's position is its depth, so that rotary embeddings see the sequence and not the row.
        tokens = sent(trie.tokens[known:], self.device)[None]
        masks = self.masks(sight, known=known)
        one = masks[0][MASK]
        if any(each[MASK] is not one for each in masks):  # a model with layers of several kinds takes a mask for each
            one = {kind: each[MASK] for kind, each in zip(self.kinds, masks, strict=True)}
        with self.capturing() as captured, self._attention():
            out = self.layout.decoder(
                input_ids=tokens,
                position_ids=sent(trie.depths[known:], self.device)[None],
                past_key_values=cache,
                use_cache=False,
                **{**masks[0], MASK: one},
            )
        # The head is not applied here: of thousands of tokens only a few are ever read.
        return Pass(trie, sight, out.last_hidden_state[0].to(self.device), captured, cache)

    def _attention(self, length: int = 0) -> AbstractContextManager[None]:
        """Return the attention of a pass of `length` tokens; a short pass with gradients takes a deterministic one."""
        if self.sparse:
            return tree_attention(self.config)
        # The backward passes of fused kernels add in any order; this one does not, and needs memory for all pairs.
        exact = torch.is_grad_enabled() and 0 < length <= EXACT_TOKENS
        return sdpa_kernel(SDPBackend.MATH) if exact else nullcontext()

    def masks(self, sight: Sight, queries: Tensor | None = None, *, known: int = 0) -> list[Arguments]:
        """Return the arguments that tell the attention of each layer which tokens see which.

        Args:
            sight: of the tokens.
            queries: those whose attention matters in the last layer; None for all.
            known: how many of the tokens, the first ones, have keys and values alone.
        """
        seen = {kind: sight.in_layer(kind, self.config) for kind in dict.fromkeys(self.kinds)}
        if self.sparse:
            blocks = {id(each): BlockMask(each, known=known) for each in seen.values()}
            of_layers = [blocks[id(seen[kind])] for kind in self.kinds]
            if queries is not None:
                of_layers[-1] = BlockMask(seen[self.kinds[-1]], queries)
            # A mask of four dimensions is passed on as it is; transformers would make a causal one in place of None.
            return [{MASK: torch.zeros(1, 1, 1, 1), BLOCK_MASKS: of_layers}] * len(self.kinds)
        dense = {id(each): self._dense(each, known) for each in seen.values()}
        return [{MASK: dense[id(seen[kind])]} for kind in self.kinds]

    def _dense(self, sight: Sight, known: int) -> Tensor | None:
        """Return a mask (1, 1, N, T) to add to scores; None for a single sequence, for which kernels are faster."""
        if sight.is_chain and sight.window is None and not known and self.config._attn_implementation == "sdpa":
            return None
        hidden = ~sight.to(self.device).pairs(slice(known, None))
        mask = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device)
        # The smallest number and not -inf, with which a row of nothing but hidden tokens would become nan.
        return mask.masked_fill_(hidden, torch.finfo(self.dtype).min)[None, None]

    def grow(self, forward: Pass, paths: Sequence[Nodes], sequences: Sequence[Sequence[int]]) -> Pass:
        """Return a pass over longer sequences; what they have in common with those of `forward` is not computed again.

        Args:
            paths: nodes of sequences in `forward`, from the first token on.

        Returns:
            a pass of its own, over both; it keeps no keys and values, and `forward` stays as it is.
        """
        if forward.cache is None:
            raise ValueError("Only a pass with its keys and values can grow.")
        begun = [forward.trie.tokens[path].tolist() for path in paths]
        trie = Trie.of([*begun, *sequences])
        # Nodes are in order of first appearance, so those that are there already come first.
        order = np.full(len(trie.tokens), -1)
        for path, own in zip(paths, trie.paths, strict=False):
            order[own] = path
        rows = sent(order[order >= 0], self.device)
        cache = DynamicCache([(layer.keys[:, :, rows], layer.values[:, :, rows]) for layer in forward.cache.layers])
        longer = self.read(trie, Sight.of(trie), cache, len(rows))
        return replace(
            longer,
            trie=replace(trie, paths=trie.paths[len(begun) :]),
            states=torch.cat([forward.states[rows], longer.states]),
            captured=forward.captured.joined(rows, longer.captured),
            cache=None,
        )

    def adapted(self, forward: Pass, nodes: Nodes) -> Replay:
        """Return a replay that computes the final hidden states (N, d) of this adapted model at `nodes` of a pass.

        The pass may be that of another network of the same weights, whose adapter begins at the same layer.
        """
        # A replay needs the requested nodes and all that they see, and no other part of the tree.
        needed = forward.sight.seen(torch.from_numpy(nodes))
        # From here on rows count within `needed`. A node that is requested twice is computed once.
        requested, order = np.unique(np.searchsorted(needed.numpy(), nodes), return_inverse=True)
        # The last layer has queries at the requested rows alone, so it needs blocks for these alone.
        masks = self.masks(forward.sight.at(needed), torch.from_numpy(requested))[-len(self.top) :]
        hidden, arguments = forward.captured.cut(sent(needed.numpy(), self.device))
        given = [{**own, **mask} for own, mask in zip(arguments, masks, strict=True)]
        rows, back = sent(requested, self.device), sent(order, self.device)
        cost = len(needed) * self.top_share
        return Replay(cost, lambda: self.replay(hidden, given, rows)[back])

    def replay(self, hidden: Tensor, arguments: list[Arguments], rows: Tensor) -> Tensor:
        """Top layers and final norm of the adapted model on trunk states (1, T, d), at the N tokens `rows`: (N, d)."""
        with self.adapter.on(), self._attention(hidden.shape[1]):
            for layer, kwargs in zip(self.top, arguments, strict=True):
                # Of the last layer only the requested rows are read: no later layer attends to the others.
                with only_rows(layer, rows) if layer is self.top[-1] else nullcontext():
                    out = layer(hidden, **kwargs)
                # Layers return a tensor, or a tuple that begins with it, depending on the family.
                hidden = out if isinstance(out, Tensor) else out[0]
        normed: Tensor = self.layout.norm(hidden[:, rows.to(hidden.device)])
        return normed[0].to(self.device)
