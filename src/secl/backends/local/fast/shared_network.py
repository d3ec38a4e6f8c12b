"""One forward pass, two models: the frozen network runs once, the adapted model replays the top layers.

LoRA adapts some layers of the network. Below the first adapted layer (the trunk) the frozen and the adapted model are
equal, so secl computes the trunk once. Hooks capture the hidden states that enter the first adapted layer, and the
arguments (rotary embeddings, positions) of each layer from there on. Replaying these top layers with the adapter on
gives the adapted model; training replays them with gradients.

A pass over prompts keeps its keys and values, so the pass can grow. Then only new tokens go through the network, such
as the tokens of an answer and of the prompt for its confidence.

The last layer needs keys and values at every token. It needs queries, output projection and feed-forward part only at
the requested tokens. So hooks pass only the requested rows to these modules, and fill the other rows of their outputs
with zeros, which no later module reads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.prefix_tree import Nodes, Trie, layer_kinds, tree_attention
from secl.backends.local.loading.model_parts import Layout, LinearHead, compute_device, sent
from secl.errors import ModelError
from secl.writing import Chunk

PER_TOKEN = ("position_ids", "position_embeddings", "cache_position")
"""Layer arguments with one entry per token (last or last-but-one dimension); other arguments must not be tensors."""

LayerArguments = dict[str, object]
"""A layer's arguments besides the hidden states, by name."""

MASK, BLOCK_MASKS = MASKS = ("attention_mask", "block_masks")
"""Names of the layer arguments that hold masks: transformers' mask, and the blocks of
`secl.backends.local.fast.prefix_tree`."""

PER_ROW = ("self_attn.q_proj", "self_attn.o_proj", "mlp")
"""Usual names of the modules that the last layer needs only at requested tokens.

Key and value projections do not belong here, because the requested tokens attend to all tokens before them. Norms are
left out, because they are cheap.
"""


Replay = tuple[float, Callable[[], Tensor]]
"""A repeatable pass of the adapted model through the top layers: its cost, and a function that computes the pass.

The cost is a number of tokens through the whole network. The function returns the final hidden states (N, d) under the
present weights, with gradients if enabled.
"""

NO_STATES, NO_TOKENS = torch.empty(1, 0, 0), Trie.of([])


@dataclass
class Pass:
    """A forward pass of the frozen model, which networks with the same weights can replay or continue.

    Attributes:
        states: inputs of the head (1, T, d).
        hidden: inputs (1, T, d) of the first adapted layer, for replays; empty on the plain path.
        arguments: for each layer from the first adapted layer on, its arguments besides the hidden states.
        trie: the T tokens; empty for a step of a `Batch`, whose states have one token for each row: (rows, 1, d).
        cache: keys and values of all layers; None if not kept.
        part: if several bundles share the pass, the nodes of each sequence of the bundle to which this object belongs;
            None for all sequences.
    """

    states: Tensor = NO_STATES
    hidden: Tensor = NO_STATES
    arguments: list[LayerArguments] = field(default_factory=list)
    trie: Trie = NO_TOKENS
    cache: Cache | None = None
    part: Sequence[Nodes] | None = None

    def keep(self, hidden: Tensor, arguments: LayerArguments) -> None:
        """Keep the inputs of the next layer."""
        if not self.arguments:
            self.hidden = hidden
        # A replay makes masks, keys and values for the replayed tokens itself, so the pass keeps no masks or caches.
        own = {name: value for name, value in arguments.items() if name not in MASKS and not isinstance(value, Cache)}
        for name, value in own.items():
            if isinstance(value, Tensor) and name not in PER_TOKEN:
                # A replay of selected tokens with the whole tensor would silently give wrong results. At loading, this
                # error makes secl take the plain path.
                raise ModelError(f"secl does not know the argument {name!r} of the model's layers.")
        self.arguments.append(own)

    def trunk(self, rows: Tensor) -> tuple[Tensor, list[LayerArguments]]:
        """Return the inputs of the first adapted layer at the tokens `rows`, and the arguments of each layer."""
        if not self.arguments:
            raise ModelError("the model's layers did not run in the forward pass.")
        return _rows_of(self.hidden, rows), _change(partial(_rows_of, rows=rows), self.arguments)

    def cut(self, rows: Tensor) -> Pass:
        """Return a pass with the states at the tokens `rows`, and with an empty `trie`."""
        return Pass(_rows_of(self.states, rows), *self.trunk(rows))

    def row(self, number: int) -> Pass:
        """Return a pass with the states of one row of a batch."""

        def one(part: Tensor) -> Tensor:
            return part if len(self.hidden) == 1 or part.ndim == 1 else part[number : number + 1]

        return Pass(one(self.states), one(self.hidden), _change(one, self.arguments))

    def joined(self, *after: Pass) -> Pass:
        """Return a pass with the states of this pass and of the passes `after`, and with an empty `trie`."""
        if not after:
            return self
        whole = (self, *after)
        states, hidden = (
            torch.cat(each, 1) for each in zip(*((part.states, part.hidden) for part in whole), strict=True)
        )
        arguments = _change(
            lambda *each: torch.cat(each, min(1, each[0].ndim - 1)), *(part.arguments for part in whole)
        )
        return Pass(states, hidden, arguments)

    @property
    def paths(self) -> Sequence[Nodes]:
        """The nodes of each sequence's tokens."""
        return self.trie.paths if self.part is None else self.part

    def beginning(self, length: int) -> Pass:
        """Return this pass with only the first `length` tokens of the first sequence."""
        return replace(self, part=[self.paths[0][:length]])

    def frozen(self, nodes: Nodes) -> Tensor:
        """Return the frozen model's inputs of the head at `nodes`: (N, d)."""
        return self.states[0, sent(nodes, self.states.device)]


def numbered(begun: Sequence[Pass]) -> tuple[list[Pass], list[Nodes]]:
    """Return the distinct passes, and all paths with nodes numbered consecutively over these passes."""
    forwards = list({id(each.states): each for each in begun}.values())
    starts = np.cumsum([0, *(len(each.trie.tokens) for each in forwards)])
    start_of = {id(each.states): start for each, start in zip(forwards, starts, strict=False)}
    return forwards, [path + start_of[id(each.states)] for each in begun for path in each.paths]


def _rows_of(part: Tensor, rows: Tensor) -> Tensor:
    """Return the entries at the tokens `rows` of a tensor (T,), (B, T) or (B, T, d)."""
    rows = rows.to(part.device)
    return part[rows] if part.ndim == 1 else part[:, rows]


def _change(change: Callable[..., Tensor], *passes: Sequence[LayerArguments]) -> list[LayerArguments]:
    """Return the arguments of the last pass for all layers, with `PER_TOKEN` tensors made by `change` from all passes.

    Tensors that layers share, such as rotary embeddings, are changed once.
    """
    changed: dict[tuple[int, ...], object] = {}

    def each(*values: object) -> object:
        """Change a tensor (T,), (B, T) or (B, T, d), or each tensor of a tuple."""
        if isinstance(values[0], tuple):
            return tuple(each(*parts) for parts in zip(*values, strict=True))
        if not isinstance(values[0], Tensor):
            return values[-1]
        same = tuple(map(id, values))
        if same not in changed:
            changed[same] = change(*values)
        return changed[same]

    whole = []
    for layers in zip(*passes, strict=True):
        own = {name: each(*(layer[name] for layer in layers)) for name in PER_TOKEN if name in layers[-1]}
        whole.append({**layers[-1], **own})
    return whole


@contextmanager
def only_rows(layer: nn.Module, rows: Tensor) -> Iterator[None]:
    """Within the block, the last layer computes its output only at the tokens `rows` (N,) of a single row of tokens.

    A layer whose modules are not in `PER_ROW` computes all tokens.
    """
    length = 0

    def take(_module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        nonlocal length
        length = args[0].shape[1]
        return (args[0][:, rows.to(args[0].device)], *args[1:])

    def put_back(_module: nn.Module, _args: tuple[Tensor, ...], out: object) -> object:
        if isinstance(out, tuple):  # a mixture of experts also returns its choice of experts
            return (put_back(_module, _args, out[0]), *out[1:])
        if not isinstance(out, Tensor) or out.ndim != 3:
            raise ModelError("the model's last layer does not return one tensor for all tokens.")
        # The code between the modules (residuals, reshapes, attention) expects every token. `index_copy` works out of
        # place, so that gradients flow.
        return out.new_zeros(out.shape[0], length, out.shape[2]).index_copy(1, rows.to(out.device), out)

    modules = dict(layer.named_modules())
    narrowed = [modules[name] for name in PER_ROW if name in modules]
    with ExitStack() as hooks:
        for module in narrowed:
            hooks.enter_context(module.register_forward_pre_hook(take))
            hooks.enter_context(module.register_forward_hook(put_back))
        yield


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
