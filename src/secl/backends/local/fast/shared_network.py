"""One forward pass, two models: the frozen network runs once, the adapted model replays the top layers.

LoRA adapts some layers of the network. Below the first adapted layer (the trunk) the frozen and the adapted model are
equal, so secl computes the trunk once. Hooks capture the hidden states that enter the first adapted layer, and the
arguments (rotary embeddings, positions) of each layer from there on. Replaying these top layers with the adapter on
gives the adapted model; training replays them with gradients.

A pass over prompts keeps its keys and values, so the pass can grow. Then only new tokens go through the network, such
as the tokens of an answer and of the prompt for its confidence.
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
from secl.backends.local.fast.prefix_tree import Nodes, Trie, layer_kinds, tree_attention
from secl.backends.local.fast.replay import BLOCK_MASKS, MASK, LayerArguments, Pass, Replay, numbered, only_rows
from secl.backends.local.loading.model_parts import Layout, LinearHead, compute_device, sent
from secl.errors import ModelError
from secl.writing import Chunk

CHUNK = 2048
"""Number of tokens of a prompt in one pass; a server may do other work between two passes."""

EXACT_TOKENS = 1024
"""Maximum number of tokens of a replay whose gradients are reproducible to the last bit on a GPU."""


class SharedNetwork:
    """The fast path: one row of tokens for a whole tree, and replays of the layers from number `first` on.

    Attributes:
        sparse: whether attention skips pairs of tokens that do not see each other. Skipping is slower on accelerators.

    Raises:
        ModelError: the model's layout is unknown.
    """

    def __init__(self, model: PreTrainedModel, adapter: Adapter, first: int) -> None:
        self.layout = Layout.find(model)
        self.config: PreTrainedConfig = self.layout.decoder.config
        self.head = LinearHead.of(model)
        self.adapter = adapter
        self.top = list(self.layout.layers)[first:]
        self.top_share = len(self.top) / len(self.layout.layers)
        self.device = compute_device(model)
        self.dtype = model.dtype
        self.kinds = layer_kinds(self.config)
        self.sparse = self.device.type == "cpu"
        # Outside `capturing` the hooks do nothing.
        self._capture: Pass | None = None
        self._hooks = [layer.register_forward_pre_hook(self._keep, with_kwargs=True) for layer in self.top]
        self._hooks.append(self.head.module.register_forward_pre_hook(self._keep_final))

    def close(self) -> None:
        """Remove the hooks from the model."""
        for hook in self._hooks:
            hook.remove()

    def _keep(self, _layer: nn.Module, args: tuple[Tensor, ...], kwargs: LayerArguments) -> None:
        """Capture the arguments of each top layer, and the hidden states that enter the first top layer."""
        if self._capture is None:
            return
        if len(args) != 1:
            raise ModelError("the model's layers do not take the hidden states as their only positional argument.")
        # The pass keeps the arguments of every layer, because rotary embeddings may differ between layers (Gemma).
        self._capture.keep(args[0], kwargs)

    def _keep_final(self, _head: nn.Module, args: tuple[Tensor, ...]) -> None:
        if self._capture is not None:
            self._capture.states = args[0].to(self.device)

    @contextmanager
    def capturing(self) -> Iterator[Pass]:
        """Within the block, capture the inputs of the top layers and the head."""
        self._capture = forward = Pass()
        try:
            yield forward
        finally:
            self._capture = None

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]], *, keep: bool = False) -> Pass:
        """Return one forward pass over the distinct tokens of `sequences`; with `keep`, the pass can grow."""
        return self.read(Trie.of(sequences), DynamicCache() if keep else None)

    @torch.no_grad()
    def begin(self, tokens: Sequence[int]) -> Generator[Chunk, None, tuple[Pass, DynamicCache]]:
        """Read the prompt of a text in chunks through the model's own decoder; yield an empty piece between two chunks.

        Returns:
            a pass that can grow, and a cache with the same keys and values for writing the text.
        """
        cached, chunks, before = DynamicCache(), list[Pass](), 0
        for chunk in torch.split(torch.tensor([[*tokens]], device=self.device), CHUNK, dim=1):
            if chunks:
                yield Chunk()
            ends = before + chunk.shape[1]
            with self.capturing() as forward:
                out = self.layout.decoder(
                    input_ids=chunk,
                    attention_mask=chunk.new_ones(1, ends),
                    position_ids=torch.arange(before, ends, device=self.device)[None],
                    past_key_values=cached,
                    use_cache=True,
                )
            forward.states, before = out.last_hidden_state.to(self.device), ends
            chunks.append(forward)
        # A cache grows by making new tensors, so writing with this cache does not change the cache of the pass.
        cache = DynamicCache([(layer.keys, layer.values) for layer in cached.layers], config=self.config)
        return replace(chunks[0].joined(*chunks[1:]), trie=Trie.of([tokens]), cache=cached), cache

    @torch.no_grad()
    def read(self, trie: Trie, cache: Cache | None, known: int = 0) -> Pass:
        """Return a pass over the nodes of a tree except for the first `known`, whose keys and values are cached."""
        # The tree is one row of tokens. The mask separates its branches. For rotary embeddings, a token's position is
        # its depth in the tree, not its index in the row.
        tokens = sent(trie.tokens[known:], self.device)[None]
        masks = self.masks(trie, known=known)
        one = masks[0][MASK]
        if any(each[MASK] is not one for each in masks):  # a model with several kinds of layers takes one mask per kind
            one = {kind: each[MASK] for kind, each in zip(self.kinds, masks, strict=True)}
        with self.capturing() as forward, self._attention():
            out = self.layout.decoder(
                input_ids=tokens,
                position_ids=sent(trie.depths[known:].numpy(), self.device)[None],
                past_key_values=cache,
                use_cache=False,
                **{**masks[0], MASK: one},
            )
        # This pass does not apply the head, because secl reads the logits of only a few of thousands of tokens.
        return replace(forward, states=out.last_hidden_state.to(self.device), trie=trie, cache=cache)

    def _attention(self, length: int = 0) -> AbstractContextManager[None]:
        """Return a context that makes the attention of a short pass with gradients deterministic."""
        if self.sparse:
            return tree_attention(self.config)
        # Fused kernels add gradients in varying order. The math kernel has a fixed order, but stores the scores of all
        # pairs of tokens, so only short passes use it.
        exact = torch.is_grad_enabled() and 0 < length <= EXACT_TOKENS
        return sdpa_kernel(SDPBackend.MATH) if exact else nullcontext()

    def masks(self, trie: Trie, queries: Tensor | None = None, *, known: int = 0) -> list[LayerArguments]:
        """Return the masks of each layer.

        Args:
            queries: tokens whose attention output is needed in the last layer; None for all.
            known: number of initial tokens, whose keys and values are cached.
        """
        windows = {kind: trie.window(kind, self.config) for kind in dict.fromkeys(self.kinds)}
        if self.sparse:
            blocks = {window: trie.blocks(window, known=known) for window in dict.fromkeys(windows.values())}
            of_layers = [blocks[windows[kind]] for kind in self.kinds]
            if queries is not None:
                of_layers[-1] = trie.blocks(windows[self.kinds[-1]], queries)
            # transformers leaves a mask of four dimensions as it is, but would replace None by a causal mask.
            return [{MASK: torch.zeros(1, 1, 1, 1), BLOCK_MASKS: of_layers}] * len(self.kinds)
        dense = {window: self._dense(trie, window, known) for window in dict.fromkeys(windows.values())}
        return [{MASK: dense[windows[kind]]} for kind in self.kinds]

    def _dense(self, trie: Trie, window: int | None, known: int) -> Tensor | None:
        """Return a mask (1, 1, N, T) to add to scores; None for a single sequence, for which faster kernels exist."""
        if trie.is_chain and window is None and not known and self.config._attn_implementation == "sdpa":
            return None
        hidden = ~trie.to(self.device).pairs(slice(known, None), window=window)
        mask = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device)
        # The most negative number instead of -inf, because softmax of a row with only -inf gives nan.
        return mask.masked_fill_(hidden, torch.finfo(self.dtype).min)[None, None]

    def grow(self, begun: Sequence[Pass], sequences: Sequence[Sequence[int]], *, keep: bool = False) -> Pass:
        """Return a pass over longer sequences; compute only tokens that are not on the paths of `begun`.

        With `keep`, the new pass can grow as well.
        """
        forwards, paths = numbered(begun)
        caches = [each.cache for each in forwards if each.cache is not None]
        if len(caches) < len(forwards):
            raise ValueError("A pass without kept keys and values cannot be extended.")
        tokens = np.concatenate([each.trie.tokens for each in forwards])
        trie = Trie.of([*(tokens[path].tolist() for path in paths), *sequences])
        # Nodes are in order of first appearance, so the known nodes come first.
        order = np.full(len(trie.tokens), -1)
        for path, own in zip(paths, trie.paths, strict=False):
            order[own] = path
        rows = sent(order[order >= 0], self.device)

        def known(parts: Sequence[Tensor]) -> Tensor:
            return (torch.cat([*parts], 2) if len(parts) > 1 else parts[0]).index_select(2, rows.to(parts[0].device))

        layers = zip(*(cache.layers for cache in caches), strict=True)
        cache = DynamicCache(
            [(known([each.keys for each in own]), known([each.values for each in own])) for own in layers]
        )
        longer = self.read(trie, cache, len(rows))
        whole = forwards[0].joined(*forwards[1:]).cut(rows).joined(longer)
        return replace(whole, trie=trie, cache=cache if keep else None, part=trie.paths[len(paths) :])

    def adapted(self, forward: Pass, nodes: Nodes) -> Replay:
        """Return a replay of the adapted model's final hidden states (N, d) at `nodes` of a pass.

        The pass may come from another network of the same weights whose adapter begins at the same layer.
        """
        # A replay needs the requested nodes and all nodes that they see.
        needed = forward.trie.seen(torch.from_numpy(nodes))
        # From here on, rows are indices into `needed`. Repeated nodes are computed once.
        requested, order = np.unique(np.searchsorted(needed.numpy(), nodes), return_inverse=True)
        # The last layer needs queries only at the requested rows, so its block mask has only these rows.
        masks = self.masks(forward.trie.at(needed), torch.from_numpy(requested))[-len(self.top) :]
        hidden, arguments = forward.trunk(sent(needed.numpy(), self.device))
        given = [{**own, **mask} for own, mask in zip(arguments, masks, strict=True)]
        rows, back = sent(requested, self.device), sent(order, self.device)
        cost = len(needed) * self.top_share
        return cost, lambda: self.replay(hidden, given, rows)[back]

    def replay(self, hidden: Tensor, arguments: list[LayerArguments], rows: Tensor) -> Tensor:
        """Run the adapted top layers and the final norm on trunk states (1, T, d); return (N, d) at tokens `rows`."""
        with self.adapter.on(), self._attention(hidden.shape[1]):
            for layer, kwargs in zip(self.top, arguments, strict=True):
                # The output of the last layer enters no other layer, so only its requested rows are needed.
                with only_rows(layer, rows) if layer is self.top[-1] else nullcontext():
                    out = layer(hidden, **kwargs)
                # Depending on the model family, layers return a tensor, or a tuple that begins with this tensor.
                hidden = out if isinstance(out, Tensor) else out[0]
        normed: Tensor = self.layout.norm(hidden[:, rows.to(hidden.device)])
        return normed[0].to(self.device)
