"""Draws from next-token distributions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from secl.backends.generation import TOP_P

FIRST_LOOK = 1024
"""Most probable tokens that are looked at first; sorting a whole vocabulary for every token takes longer."""


def draw(logits: Tensor, chances: Sequence[float]) -> list[int]:
    """A token for each row of logits (rows, vocabulary) from its nucleus, by a number in [0, 1) each."""
    p = logits.softmax(-1)
    nucleus, order = p.topk(min(FIRST_LOOK, p.shape[-1]))
    if not bool((nucleus.sum(-1) >= TOP_P).all()):
        nucleus, order = p.sort(-1, descending=True)
    # A token is in the nucleus if those before it do not reach TOP_P yet.
    cumulative = nucleus.cumsum(-1)
    nucleus = nucleus * (cumulative - nucleus < TOP_P)
    cumulative = nucleus.cumsum(-1)
    # Inverse transform sampling: the first token whose cumulative probability exceeds the drawn one.
    drawn = torch.tensor(chances, device=cumulative.device, dtype=cumulative.dtype)[:, None] * cumulative[:, -1:]
    ranks = (cumulative <= drawn).sum(-1, keepdim=True).clamp(max=cumulative.shape[-1] - 1)
    return [int(token) for token in order.gather(-1, ranks)[:, 0]]


def draw_many(p: Sequence[float], count: int, seed: int) -> list[int]:
    """`count` draws from the nucleus of one distribution."""
    chances = torch.rand(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return draw(torch.tensor([p] * count).log(), chances)
