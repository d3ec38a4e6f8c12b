"""Parts of a network run again with the adapter on, on their inputs from a pass of the frozen model.

Keys and values of the last layer are needed at every token, but queries, the output projection and the feed-forward
part at the requested ones alone. Hooks hand those modules the requested rows and put zeros in the place of the others,
which no pass reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from transformers import Cache

from secl.backends.local.fast.prefix_tree import Nodes, Trie
from secl.backends.local.fast.sight import Sight
from secl.backends.local.loading.placement import sent
from secl.errors import ModelError

PER_TOKEN = ("position_ids", "position_embeddings", "cache_position")
"""Layer arguments with one entry per token (last or last-but-one dimension); everything else must not hold tensors."""

Arguments = dict[str, object]
"""What a layer is given besides hidden states, by name."""

MASK, BLOCK_MASKS = MASKS = ("attention_mask", "block_masks")
"""The layer arguments that say which tokens see which: transformers' own, and the one that
`secl.backends.local.fast.tree_attention` reads."""

PER_ROW = ("self_attn.q_proj", "self_attn.o_proj", "mlp")
"""Modules of a decoder layer that work on each token alone and matter at the requested ones only, by their usual
names. Not the key and value projections, because the requested tokens attend to all others, and not the norms, which
are cheap."""


@dataclass(frozen=True)
class Replay:
    """A forward pass of the adapted model that can be made again as its weights change.

    One pass costs as much as `tokens` through the whole network.
    """

    tokens: float
    compute: Callable[[], Tensor]

    def __call__(self) -> Tensor:
        """Final hidden states (N, d) under the present weights, with gradients where they are enabled."""
        return self.compute()


@dataclass
class Captured:
    """Inputs of the layers from the first adapted one on, and of the head.

    Attributes:
        hidden: states (1, T, d) before the first of these layers; None before it has run.
        arguments: the other ones of each layer.
        final: states (1, T, d) before the head; None if it did not run.
    """

    hidden: Tensor | None
    arguments: list[Arguments]
    final: Tensor | None = None

    def keep(self, hidden: Tensor, arguments: Arguments) -> None:
        """Keep the inputs of the next layer."""
        if self.hidden is None:
            self.hidden = hidden
        # A replay computes keys and values of its own, so it gets no cache; and other tokens have other masks.
        own = {name: value for name, value in arguments.items() if name not in MASKS and not isinstance(value, Cache)}
        for name, value in own.items():
            if isinstance(value, Tensor) and name not in PER_TOKEN:
                # Passed on whole it would be wrong without a word, so the fast path is given up.
                raise ModelError(f"its layers take a tensor {name!r} that cannot be cut to some tokens.")
        self.arguments.append(own)

    def cut(self, rows: Tensor) -> tuple[Tensor, list[Arguments]]:
        """Hidden states and arguments for the tokens `rows` alone."""
        if self.hidden is None:
            raise ModelError("its layers did not run in the forward pass.")
        return _rows_of(self.hidden, rows), _change(partial(_rows_of, rows=rows), self.arguments)

    def joined(self, rows: Tensor, *after: Captured) -> Captured:
        """Return the tokens `rows`, and after them all those of other passes."""
        hidden, arguments = self.cut(rows)
        further = [each.hidden for each in after if each.hidden is not None]
        whole = _change(
            lambda *parts: torch.cat(parts, min(1, parts[0].ndim - 1)), arguments, *(each.arguments for each in after)
        )
        return Captured(torch.cat([hidden, *further], dim=1), whole)


@dataclass(frozen=True)
class Pass:
    """Captured inputs of one frozen forward pass, from which every network of the same weights can continue.

    Attributes:
        trie: the T tokens.
        sight: which of them see which.
        states: what the head reads (T, d).
        captured: trunk states, for replays; empty on the plain path.
        cache: keys and values of all layers; None if they were not kept.
        part: nodes of the sequences of one bundle, of several in the pass; None for all sequences.
    """

    trie: Trie
    sight: Sight
    states: Tensor
    captured: Captured
    cache: Cache | None = None
    part: Sequence[Nodes] | None = None

    @property
    def paths(self) -> Sequence[Nodes]:
        """For each sequence the nodes of its tokens."""
        return self.trie.paths if self.part is None else self.part

    def frozen(self, nodes: Nodes) -> Tensor:
        """Return the frozen model's inputs of the head at `nodes`: (N, d)."""
        return self.states[sent(nodes, self.states.device)]


def _rows_of(part: Tensor, rows: Tensor) -> Tensor:
    """Return the entries of some tokens in a tensor (T,), (B, T) or (B, T, d)."""
    rows = rows.to(part.device)
    return part[rows] if part.ndim == 1 else part[:, rows]


def _change(change: Callable[..., Tensor], *passes: Sequence[Arguments]) -> list[Arguments]:
    """Return the arguments of all layers with `rows` of every entry by token; other entries are the last pass's.

    Arguments that layers share, such as rotary embeddings, are changed once.
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
    """Within the block the last layer computes only the tokens `rows` (N,) of a single row of tokens.

    A decoder layer without modules of the usual names is left as it is.
    """
    length = 0

    def take(_module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        nonlocal length
        length = args[0].shape[1]
        return (args[0][:, rows.to(args[0].device)], *args[1:])

    def put_back(_module: nn.Module, _args: tuple[Tensor, ...], out: object) -> object:
        if isinstance(out, tuple):  # a mixture of experts also says which of them it took
            return (put_back(_module, _args, out[0]), *out[1:])
        if not isinstance(out, Tensor) or out.ndim != 3:
            raise ModelError("its last layer cannot be narrowed to some tokens.")
        # The code between the modules (residuals, reshapes, attention) expects every token. Out of place, so that
        # gradients flow through.
        return out.new_zeros(out.shape[0], length, out.shape[2]).index_copy(1, rows.to(out.device), out)

    modules = dict(layer.named_modules())
    narrowed = [modules[name] for name in PER_ROW if name in modules]
    with ExitStack() as hooks:
        for module in narrowed:
            hooks.enter_context(module.register_forward_pre_hook(take))
            hooks.enter_context(module.register_forward_hook(put_back))
        yield
