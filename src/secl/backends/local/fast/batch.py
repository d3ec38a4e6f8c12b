"""Rows of tokens that grow by one token per step, exactly as in transformers' `generate`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from inspect import signature
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.shared_network import Pass, SharedNetwork
from secl.backends.local.loading.model_parts import compute_device

ONEDNN: Any = torch.backends.mkldnn
"""PyTorch's switch for oneDNN, under the library's older name."""

PLAIN_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)
"""Layers of a cache that hold nothing but keys and values. Other layers also have states of linear attention."""

KeptRow = Sequence[tuple[Tensor, Tensor]]
"""Keys and values (1, heads, tokens, d) of a row in each layer, without padding."""


@dataclass
class Batch:
    """Rows of tokens that went through the network, with padding on the left so that all rows end together.

    Attributes:
        mask: (rows, length), 0 at the padding.
        logits: (rows, vocabulary) logits of the next token, in float32.
        network: captures the states of written tokens, so that later passes can continue a row; None without capture.
        prompts: with a network, the pass over the prompt of each row.
        written: for each row, an entry for each token since the prompt: (token, pass that computed the token, number of
            the row in this pass).
    """

    model: PreTrainedModel
    cache: DynamicCache
    mask: Tensor
    logits: Tensor
    network: SharedNetwork | None = None
    prompts: Sequence[Pass] = ()
    written: list[list[tuple[int, Pass, int]]] = field(default_factory=list)

    @classmethod
    @torch.no_grad()
    def of(cls, model: PreTrainedModel, rows: list[list[int]]) -> Batch:
        """Send rows through the network; if all rows are equal, compute one row only."""
        if len(rows) > 1 and all(row == rows[0] for row in rows):
            return cls.of(model, rows[:1]).chosen([0] * len(rows))
        longest = max(map(len, rows))
        home = compute_device(model)
        tokens = torch.tensor([[0] * (longest - len(row)) + row for row in rows], device=home)
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=home)
        cache = DynamicCache(config=model.config)
        # Positions count from the first token after the padding. The mask hides the padding, so the positions of the
        # padding itself have no effect.
        return cls(model, cache, mask, next_logits(model, cache, mask, tokens, (mask.cumsum(-1) - 1).clamp(min=0)))

    def chosen(self, rows: Sequence[int]) -> Batch:
        """Return a new batch with these rows, which may repeat."""
        cache, keep = copy.deepcopy(self.cache), torch.tensor([*rows])
        cache.reorder_cache(keep)
        batch = Batch(self.model, cache, self.mask[keep], self.logits[keep])
        return batch if self.network is None else batch.capturing(self.network, [self.prompts[row] for row in rows])

    def capturing(self, network: SharedNetwork, prompts: Sequence[Pass]) -> Batch:
        """Make this batch capture the states that a pass over prompts and texts would have, and return the batch.

        `prompts` has the pass over the prompt of each row. Later steps must not repeat a row.
        """
        self.network, self.prompts, self.written = network, prompts, [[] for _ in prompts]
        return self

    def kept(self, row: int) -> KeptRow | None:
        """Return a row's keys and values; None if a layer has other states, or a sliding window dropped keys."""
        length, start = self.mask.shape[1], int((self.mask[row] == 0).sum())
        if any(type(layer) not in PLAIN_LAYERS or layer.keys.shape[-2] != length for layer in self.cache.layers):
            return None
        layers = [(layer.keys, layer.values) for layer in self.cache.layers]
        if len(self.mask) == 1 and not start:
            return layers
        return [(keys[row : row + 1, :, start:].clone(), own[row : row + 1, :, start:].clone()) for keys, own in layers]

    def clear(self) -> None:
        """Release all tensors; the batch cannot be used afterwards."""
        self.cache, self.mask, self.logits = DynamicCache(), self.mask.new_empty(0), self.logits.new_empty(0)

    def step(self, keep: list[int], tokens: list[int]) -> None:
        """Keep the rows with the numbers `keep`, which may repeat, and add one token to each."""
        if keep != list(range(len(self.mask))):
            rows = torch.tensor(keep, device=self.mask.device)
            # `batch_select_indices` would leave out the states of layers with linear attention (Mamba, Qwen 3 Next).
            self.cache.reorder_cache(rows)
            self.mask = self.mask[rows]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(keep), 1)], dim=1)
        latest = torch.tensor(tokens, device=self.mask.device)[:, None]
        with nullcontext() if self.network is None else self.network.capturing() as forward:
            self.logits = next_logits(self.model, self.cache, self.mask, latest, self.mask.sum(-1, keepdim=True) - 1)
        if forward is not None:
            self.prompts, self.written = [self.prompts[row] for row in keep], [self.written[row] for row in keep]
            for row, token in enumerate(tokens):
                self.written[row].append((token, forward, row))

    def passed(self, row: int) -> Pass | None:
        """Return the pass over a row: its prompt and text, or only its prompt if a sliding window dropped keys.

        Return None if the batch captures nothing.
        """
        if self.network is None:
            return None
        prompt, written, kept = self.prompts[row], self.written[row], self.kept(row)
        if not written or kept is None:
            return prompt
        path = prompt.paths[0]
        whole = prompt.cut(torch.from_numpy(path)).joined(*(step.row(place) for _, step, place in written))
        trie = Trie.of([[*prompt.trie.tokens[path].tolist(), *(token for token, _, _ in written)]])
        return replace(whole, trie=trie, cache=DynamicCache(kept))


def next_logits(model: PreTrainedModel, cache: DynamicCache, mask: Tensor, tokens: Tensor, positions: Tensor) -> Tensor:
    """Send tokens through the network after the cached tokens; return the logits after the last token of each row."""
    given: dict[str, Any] = {"past_key_values": cache, "attention_mask": mask}
    # Mamba has another name for the cache, would ignore the usual one, and takes no mask after the first tokens.
    if "cache_params" in signature(model.forward).parameters:
        given = {"cache_params": cache, "attention_mask": mask if mask.shape == tokens.shape else None}
    out = model(input_ids=tokens, position_ids=positions, use_cache=True, logits_to_keep=1, **given)
    logits: Tensor = out.logits[:, -1].float()
    return logits


def go_on(model: PreTrainedModel, begun: Sequence[tuple[KeptRow, int, int]]) -> Batch:
    """Return a batch whose rows continue kept rows.

    Each entry of `begun` is (kept row, number of its first tokens to keep, next token).
    """
    longest = max(length for _, length, _ in begun)

    def padded(part: Tensor, length: int) -> Tensor:
        return pad(part[:, :, :length], (0, 0, longest - length, 0))

    layers = zip(*(row for row, _, _ in begun), strict=True)
    lengths = [length for _, length, _ in begun]
    states = [
        tuple(torch.cat([padded(pair[side], n) for pair, n in zip(layer, lengths, strict=True)]) for side in (0, 1))
        for layer in layers
    ]
    device = states[0][0].device
    mask = torch.tensor([[0] * (longest - length) + [1] * length for length in lengths], device=device)
    batch = Batch(model, DynamicCache(states, config=model.config), mask, mask.new_empty(0))
    batch.step([*range(len(begun))], [token for _, _, token in begun])
    return batch


_ONEDNN_BEFORE: list[bool] = []
_ONEDNN_LOCK = Lock()


@contextmanager
def fast_single_row(wanted: bool = True) -> Iterator[None]:
    """Within the block, 16-bit products of one row take about half the time on a CPU; larger products take longer.

    oneDNN, which usually computes all 16-bit products, is optimised for many rows. For one row, PyTorch's own kernels
    read the weights once and without repacking. The switch is process-wide: passes of other threads stay correct, but
    are slow. The last thread to leave the block restores the setting that the first thread found.
    """
    if not wanted:
        yield
        return
    with _ONEDNN_LOCK:
        _ONEDNN_BEFORE.append(ONEDNN.enabled)
        ONEDNN.enabled = False
    try:
        yield
    finally:
        with _ONEDNN_LOCK:
            before = _ONEDNN_BEFORE.pop()
            if not _ONEDNN_BEFORE:
                ONEDNN.enabled = before
