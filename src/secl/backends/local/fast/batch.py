"""Rows of tokens that grow one token a step, exactly as transformers' `generate` runs them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel

from secl.backends.local.loading.placement import compute_device

ONEDNN: Any = torch.backends.mkldnn
"""PyTorch's switch, under the library's older name."""


@dataclass
class Batch:
    """Rows of tokens that went through the network, padded on the left so that all end together.

    Attributes:
        mask: (rows, length), 0 at the padding.
        logits: (rows, vocabulary) of the next token, in float32.
    """

    model: PreTrainedModel
    cache: DynamicCache
    mask: Tensor
    logits: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: PreTrainedModel, rows: list[list[int]]) -> Batch:
        """Send rows through the network."""
        copies = len(rows)
        if copies > 1 and all(row == rows[0] for row in rows):
            # Samples of one prompt: it goes through the network once, and its cache is copied.
            batch = cls.of(model, rows[:1])
            batch.cache.batch_repeat_interleave(copies)
            batch.mask, batch.logits = batch.mask.repeat(copies, 1), batch.logits.repeat(copies, 1)
            return batch
        longest = max(map(len, rows))
        home = compute_device(model)
        tokens = torch.tensor([[0] * (longest - len(row)) + row for row in rows], device=home)
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=home)
        cache = DynamicCache(config=model.config)
        # Positions count from the first token that is no padding; those of the padding are masked and do not matter.
        return cls(model, cache, mask, next_logits(model, cache, mask, tokens, (mask.cumsum(-1) - 1).clamp(min=0)))

    def clear(self) -> None:
        """Let go of all tensors; nothing can be written after these rows any more."""
        self.cache, self.mask, self.logits = DynamicCache(), self.mask.new_empty(0), self.logits.new_empty(0)

    def step(self, keep: list[int], tokens: list[int]) -> None:
        """Go on with the rows `keep`, which may repeat, each one token longer."""
        if keep != list(range(len(self.mask))):
            rows = torch.tensor(keep)
            places = {layer.keys.device for layer in self.cache.layers}
            if len(places) == 1:  # of a model that is spread, each layer's cache is where the layer is, and takes ours
                rows = rows.to(*places)
            self.cache.batch_select_indices(rows)
            self.mask = self.mask[rows]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(keep), 1)], dim=1)
        latest = torch.tensor(tokens, device=self.mask.device)[:, None]
        self.logits = next_logits(self.model, self.cache, self.mask, latest, self.mask.sum(-1, keepdim=True) - 1)


def next_logits(model: PreTrainedModel, cache: DynamicCache, mask: Tensor, tokens: Tensor, positions: Tensor) -> Tensor:
    """Send tokens through the network after those in the cache, and give the logits after the last of each row."""
    out = model(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits: Tensor = out.logits[:, -1].float()
    return logits


@dataclass(frozen=True)
class KeptRow:
    """Keys and values (1, heads, tokens, d) of each layer after a finished row, without its padding."""

    layers: Sequence[tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, batch: Batch, row: int) -> KeptRow | None:
        """Keep a row of a batch; None if some layer forgot its first tokens (sliding windows)."""
        length, start = batch.mask.shape[1], int((batch.mask[row] == 0).sum())
        layers = [(layer.keys, layer.values) for layer in batch.cache.layers]
        if any(keys.shape[-2] != length for keys, _ in layers):
            return None
        return cls(
            [(keys[row : row + 1, :, start:].clone(), own[row : row + 1, :, start:].clone()) for keys, own in layers]
        )


def go_on(model: PreTrainedModel, begun: Sequence[tuple[KeptRow, int, int]]) -> Batch:
    """Return a batch of rows that go on from kept ones: each after so many of their tokens, and one token more."""
    longest = max(length for _, length, _ in begun)

    def padded(part: Tensor, length: int) -> Tensor:
        return pad(part[:, :, :length], (0, 0, longest - length, 0))

    layers = zip(*(row.layers for row, _, _ in begun), strict=True)
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


class _WithoutOneDNN(AbstractContextManager[None]):
    """Switches oneDNN off; the last of several threads to leave puts back what the first one found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = True

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = ONEDNN.enabled
            self._inside += 1
            ONEDNN.enabled = False

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                ONEDNN.enabled = self._before


fast_single_row = _WithoutOneDNN()
"""Inside, products of one row in 16 bits take about half the time on a CPU; those of more rows take longer.

Such a product multiplies a vector with a matrix, for which PyTorch's own kernels read the weights once and as they are.
oneDNN, which takes all 16-bit products otherwise, is made for many rows. The switch is one for the whole process:
passes of other threads are right meanwhile, but slow.
"""
