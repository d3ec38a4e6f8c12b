"""The learning step: a few optimizer steps that move the stated confidence towards a target (Eq. loss)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from secl.backends.base import Training
from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.replay import Replay
from secl.backends.local.loading.model_parts import Head
from secl.errors import NotFiniteError

STEP = 3
"""Cost of an optimizer step in forward passes; the backward pass counts as two."""


@dataclass(frozen=True)
class Distiller:
    """Minimises the squared error between stated confidence and target.

    Args:
        epochs: optimizer steps per question.
        beta: weight of KL(frozen || adapted) over the full vocabulary at the confidence token; 0 for none.
    """

    epochs: int = 3
    beta: float = 0.0

    def train(
        self, adapter: Adapter, head: Head, replay: Replay, frozen: Tensor, digits: Tensor, target: float
    ) -> Training:
        """Train the adapter on one question; its version number grows by one.

        Args:
            replay: computes the adapted model's hidden state (1, d) before the confidence digit.
            frozen: the frozen model's hidden state (1, d) at the same place.
            digits: (10,) token ids of the digits.
            target: in [0, 1].

        Raises:
            NotFiniteError: a loss, a gradient or the confidence is not finite; no weight has changed.
        """
        losses: list[float] = []
        tokens = replay.tokens * (STEP * self.epochs + 1)  # a forward pass after the steps reads the result
        with adapter.all_or_nothing():
            # Steps do not change the trunk below the adapted layers, so a step replays the top layers alone.
            for _ in range(self.epochs):
                hidden = replay()
                loss = (stated_confidence(head.rows(hidden, digits)) - target).square().sum()
                if self.beta > 0:
                    loss = loss + self.beta * _divergence(head.logits(frozen, digits), head.logits(hidden, digits))
                adapter.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                gradients = [each.grad for each in adapter.parameters.values() if each.grad is not None]
                norm = torch.nn.utils.get_total_norm(gradients)
                losses.append(_finite(replay.tokens * STEP * (len(losses) + 1), loss=loss.detach(), gradient=norm))
                adapter.optimizer.step()
            with torch.no_grad():
                confidence = stated_confidence(head.rows(replay(), digits)).sum()
                after = _finite(tokens, confidence=confidence)
        adapter.count_update()
        return Training(tuple(losses), after, tokens)


def stated_confidence(logits: Tensor) -> Tensor:
    """Return the expected bin centre (Eq. soft_conf) from the logits of the ten digits; (..., 10) becomes (...)."""
    centres = (torch.arange(10, device=logits.device) + 0.5) / 10
    return (logits.softmax(-1) * centres).sum(-1)


def _finite(tokens: float, **values: Tensor) -> float:
    """Fetch numbers from the device together, and return the first if all are finite; `tokens` is the cost so far."""
    numbers: list[float] = torch.stack([*values.values()]).tolist()
    for what, number in zip(values, numbers, strict=True):
        if not math.isfinite(number):
            raise NotFiniteError(f"the {what} of a lesson is {number}; the weights stay unchanged.", tokens)
    return numbers[0]


def _divergence(frozen: Tensor, adapted: Tensor) -> Tensor:
    return torch.nn.functional.kl_div(
        adapted.log_softmax(-1), frozen.log_softmax(-1), log_target=True, reduction="batchmean"
    )
