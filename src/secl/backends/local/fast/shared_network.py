"""One forward pass, two models: the frozen network runs once, the adapted one replays its top layers.

LoRA sits on some layers of the network. Below the first of them (the trunk) the frozen and the adapted model are the
same, so the trunk of a question is computed once: hooks keep the hidden states that enter the first adapted layer,
together with the arguments (mask, rotary embeddings, positions) that each layer above received. Replaying the top
layers on them with the adapter switched on gives the adapted model; doing so with gradients is all that training needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from secl.backends.local.fast.last_layer import LastLayerSlicer
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.tree_attention import BlockMask, tree_attention
from secl.backends.local.model_parts import Head, Layout, LinearHead
from secl.backends.local.placement import compute_device
from secl.errors import ModelError

PER_TOKEN = ("position_ids", "position_embeddings", "cache_position")
"""Layer arguments with one entry per token (last or last-but-one dimension); everything else must not hold tensors."""

UNLIMITED = 1 << 30
"""Stands for no limit on the length of a sequence."""

BLOCK_MASK = "block_mask"
"""The layer argument that `secl.backends.local.fast.tree_attention` reads."""

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
        window: most tokens that a sequence may have.
    """

    @property
    def head(self) -> Head: ...

    @property
    def window(self) -> int: ...

    def run(self, sequences: Sequence[Sequence[int]]) -> Pass:
        """One forward pass of the frozen model."""
        ...


@dataclass
class _Captured:
    """What entered the layers from the first adapted one on: hidden states (1, T, d), one dict of arguments a layer."""

    hidden: Tensor | None
    arguments: list[dict[str, Any]]


class SharedNetwork:
    """The fast path: one row of tokens for a whole tree, and replays of the top layers.

    Args:
        model: a transformers causal language model.
        switch: of its adapter.
        first: number of the first adapted layer.
        narrow: whether the last layer of a replay works at the requested tokens alone.
        sparse: whether attention leaves out pairs of tokens that do not see each other; this pays on processors, not
            on accelerators.

    Raises:
        ModelError: the parts of the model are not where they are expected.
    """

    def __init__(self, model: Any, switch: Switch, first: int, *, narrow: bool = True, sparse: bool = True) -> None:
        self.config = model.config
        self.layout = Layout.find(model)
        self.head = LinearHead.of(model)
        self.switch = switch
        self.top = list(self.layout.layers)[first:]
        self.top_share = len(self.top) / len(self.layout.layers)
        self.device = compute_device(model)
        self.dtype = model.dtype
        self.window = _sliding_window(model.config)
        self.sparse = sparse and self.device.type == "cpu"
        self.last_layer = LastLayerSlicer(self.top[-1]) if narrow else None
        # The hooks stay for good; outside `_capturing` they do nothing.
        self._capture: _Captured | None = None
        self._hooks = [layer.register_forward_pre_hook(self._keep, with_kwargs=True) for layer in self.top]

    def close(self) -> None:
        """Leave the model as it was found."""
        for hook in self._hooks:
            hook.remove()
        if self.last_layer is not None:
            self.last_layer.close()

    def _keep(self, _layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before each top layer: keep its arguments, and the hidden states that enter the first one."""
        if self._capture is None:
            return  # a replay, or a text that is being written
        if len(args) != 1:
            raise ModelError("its layers take more than hidden states by position.")
        if self._capture.hidden is None:
            self._capture.hidden = args[0]
        # Each layer has arguments of its own: masks and rotary embeddings may differ from layer to layer (Gemma).
        self._capture.arguments.append(kwargs)

    @contextmanager
    def _capturing(self) -> Iterator[_Captured]:
        self._capture = captured = _Captured(None, [])
        try:
            yield captured
        finally:
            self._capture = None

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]]) -> SharedPass:
        """One forward pass of the frozen model over the distinct tokens of `sequences`."""
        trie = Trie.of(sequences)
        if int(trie.depths.max()) >= self.window:
            raise ModelError(
                f"a prompt of {int(trie.depths.max()) + 1} tokens is longer than the attention window of the model "
                f"({self.window}); shorten the question."
            )
        # The tree is a batch of one row. Neighbours in the row may be on different branches: the mask keeps them
        # apart, and a token's position is its depth, so that rotary embeddings see the sequence and not the row.
        tokens = torch.from_numpy(trie.tokens)[None].to(self.device)
        positions = torch.from_numpy(trie.depths)[None].to(self.device)
        visible = trie.visible()
        with self._capturing() as captured, self._attention():
            out = self.layout.decoder(
                input_ids=tokens, position_ids=positions, use_cache=False, **self._masked(trie, visible)
            )
        # The head is not applied here: of thousands of tokens only a few are ever read.
        return SharedPass(self, trie, visible, out.last_hidden_state[0].to(self.device), captured)

    def _attention(self) -> AbstractContextManager[None]:
        return tree_attention(self.config) if self.sparse else nullcontext()

    def _masked(self, trie: Trie, visible: NDArray[np.bool_]) -> dict[str, Any]:
        """The arguments that tell attention which tokens see which."""
        if self.sparse:
            # A mask of four dimensions is passed on as it is; transformers would make a causal one in place of None.
            return {"attention_mask": torch.zeros(1, 1, 1, 1), BLOCK_MASK: BlockMask(visible)}
        if trie.is_chain:
            # A single sequence: the usual causal mask is right, and kernels are faster without an explicit one.
            return {"attention_mask": None}
        hidden_from = torch.from_numpy(~visible).to(self.device)
        mask = torch.zeros(hidden_from.shape, dtype=self.dtype, device=self.device)
        # The smallest number and not -inf, with which a row of nothing but hidden tokens would become nan.
        return {"attention_mask": mask.masked_fill_(hidden_from, torch.finfo(self.dtype).min)[None, None]}

    def replay(self, hidden: Tensor, arguments: list[dict[str, Any]], rows: Tensor) -> Tensor:
        """Top layers and final norm of the adapted model on trunk states (1, T, d), at the N tokens `rows`: (N, d)."""
        with self.switch.on(), self._attention():
            for layer, kwargs in zip(self.top, arguments, strict=True):
                last = layer is self.top[-1]
                # Of the last layer only the requested rows are read, by nobody else: no later layer attends to them.
                with self.last_layer.only(rows) if last and self.last_layer is not None else nullcontext():
                    out = layer(hidden, **kwargs)
                # Layers return a tensor, or a tuple that begins with it, depending on the family.
                hidden = out if isinstance(out, Tensor) else out[0]
        normed: Tensor = self.layout.norm(hidden[:, rows.to(hidden.device)])
        return normed[0].to(self.device)


@dataclass(frozen=True)
class SharedPass:
    """A forward pass of `SharedNetwork`: final states of the frozen model (T, d), trunk states for replays."""

    network: SharedNetwork
    trie: Trie
    visible: NDArray[np.bool_]
    states: Tensor
    captured: _Captured

    def frozen(self, nodes: Nodes) -> Tensor:
        return self.states[torch.from_numpy(nodes)]

    def adapted(self, nodes: Nodes) -> Replay:
        # A replay needs the requested nodes and all that they see, and no other part of the tree.
        needed = np.flatnonzero(self.visible[nodes].any(axis=0))
        # From here on rows count within `needed`. A node that is requested twice is computed once.
        requested, order = np.unique(np.searchsorted(needed, nodes), return_inverse=True)
        requested_rows, order_rows = torch.from_numpy(requested).to(self.states.device), torch.from_numpy(order)
        rows = torch.from_numpy(needed).to(self.states.device)
        if self.captured.hidden is None:
            raise ModelError("its layers did not run in the forward pass.")
        hidden = self.captured.hidden
        hidden = hidden[:, rows.to(hidden.device)]
        arguments = [_restrict(kwargs, rows) for kwargs in self.captured.arguments]
        if self.network.sparse:
            mask = BlockMask(self.visible[np.ix_(needed, needed)])
            for kwargs in arguments:
                kwargs[BLOCK_MASK] = mask
            if self.network.last_layer is not None:
                # The last layer has queries at the requested rows alone, so it needs blocks for these alone.
                arguments[-1][BLOCK_MASK] = BlockMask(mask.visible, requested)
        cost = len(needed) * self.network.top_share
        return Replay(cost, lambda: self.network.replay(hidden, arguments, requested_rows)[order_rows])


def _restrict(arguments: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """The arguments of a layer for the tokens `rows` alone."""
    restricted: dict[str, Any] = {}
    for name, value in arguments.items():
        if name == "attention_mask" and isinstance(value, Tensor) and BLOCK_MASK not in arguments:
            restricted[name] = value[:, :, rows.to(value.device)][..., rows.to(value.device)]
        elif name in PER_TOKEN:
            restricted[name] = _rows_of(value, rows)
        elif isinstance(value, Tensor) and name != "attention_mask":
            # Passed on whole it would be wrong without a word, so the fast path is given up.
            raise ModelError(f"its layers take a tensor {name!r} that cannot be cut to some tokens.")
        else:
            restricted[name] = value
    return restricted


def _rows_of(value: Any, rows: Tensor) -> Any:
    """The entries of some tokens, in a tensor (T,), (B, T) or (B, T, d), or in each tensor of a tuple."""
    if isinstance(value, tuple):
        return tuple(_rows_of(part, rows) for part in value)
    if not isinstance(value, Tensor):
        return value
    rows = rows.to(value.device)
    return value[rows] if value.ndim == 1 else value[:, rows]


def _sliding_window(config: Any) -> int:
    """Tokens that every layer sees; beyond them the tree mask would show a windowed layer too much."""
    kinds = getattr(config, "layer_types", None) or []
    window = getattr(config, "sliding_window", None)
    # Some configurations name a window that no layer uses.
    return window if window is not None and (not kinds or "sliding_attention" in kinds) else UNLIMITED
