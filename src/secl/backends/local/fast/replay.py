"""Replays of the top layers with the adapter on, from inputs captured in a pass of the frozen model.

The last layer needs keys and values at every token. It needs queries, output projection and feed-forward part only at
the requested tokens. So hooks pass only the requested rows to these modules, and fill the other rows of their outputs
with zeros, which no later module reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Cache

from secl.backends.local.fast.prefix_tree import Nodes, Trie
from secl.backends.local.loading.model_parts import sent
from secl.errors import ModelError

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
