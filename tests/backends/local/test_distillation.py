"""The learning step against its equations, written out in the plainest way."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest
import torch

from secl.backends.local.distillation import Distiller, stated_confidence
from secl.backends.local.fast.replay import Replay
from secl.metrics.probability import directional_target

VOCABULARY, WIDTH = 16, 6
DIGITS = torch.arange(3, 13)
CENTRES = (torch.arange(10) + 0.5) / 10


class PlainHead:
    """A head without any tricks."""

    def __init__(self) -> None:
        self.weight = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1))

    def logits(self, states: torch.Tensor, _exact: torch.Tensor) -> torch.Tensor:
        return states @ self.weight.T

    def rows(self, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return (states @ self.weight.T)[:, ids]


class PlainAdapter:
    """One vector that is added to the hidden state, and moves by the gradient itself."""

    def __init__(self, width: int = WIDTH) -> None:
        self.moved = torch.zeros(1, width, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.moved], lr=0.1)
        self.parameters = {"moved": self.moved}
        self.all_or_nothing = contextlib.nullcontext

    def count_update(self) -> None:
        pass


def gradient(distiller: Distiller, target: float = 0.9) -> tuple[torch.Tensor, torch.Tensor, PlainHead]:
    """How far one step moves a hidden state that is not the frozen one; with both states and the head."""
    head, adapter = PlainHead(), PlainAdapter()
    drawn = torch.Generator().manual_seed(2)
    frozen, begun = torch.randn(1, WIDTH, generator=drawn), torch.randn(1, WIDTH, generator=drawn)
    replay = Replay(1.0, lambda: begun + adapter.moved)
    distiller.train(adapter, head, replay, frozen, DIGITS, target)  # type: ignore[arg-type]
    return adapter.moved.detach() / -0.1, torch.cat([frozen, begun]), head


def by_hand(loss: Any, states: torch.Tensor, head: PlainHead) -> torch.Tensor:
    frozen, begun = states
    hidden = begun.clone().requires_grad_()
    loss((hidden @ head.weight.T).softmax(-1), (frozen @ head.weight.T).softmax(-1)).backward()
    grad: torch.Tensor | None = hidden.grad
    assert grad is not None
    return grad[None]


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_is_the_squared_distance_of_the_expected_bin_centre_and_the_divergence_from_the_frozen_model(
    beta: float,
) -> None:
    moved, states, head = gradient(Distiller(epochs=1, beta=beta))

    def loss(p: torch.Tensor, frozen: torch.Tensor, *, other_way: bool = False) -> torch.Tensor:
        digits = p[DIGITS] / p[DIGITS].sum()
        one, two = (p, frozen) if other_way else (frozen, p)
        return ((digits * CENTRES).sum() - 0.9).square() + beta * (one * (one / two).log()).sum()

    assert moved == pytest.approx(by_hand(loss, states, head).numpy(), abs=1e-6)
    other = by_hand(partial(loss, other_way=True), states, head)
    assert torch.allclose(moved, other, atol=1e-3) is (beta == 0)


@pytest.mark.parametrize("mass", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("signal", [0.3, 0.95])
def test_a_lesson_moves_the_stated_confidence_towards_the_signal_however_little_falls_on_digits(
    mass: float, signal: float
) -> None:
    p = torch.full((VOCABULARY,), (1 - mass) / (VOCABULARY - 10))
    p[DIGITS] = mass * torch.tensor([0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.05, 0.1, 0.4, 0.35])
    begun = p.clamp_min(1e-6).log()[None]
    stated = stated_confidence(begun[:, DIGITS]).item()
    head, adapter = PlainHead(), PlainAdapter(VOCABULARY)
    head.weight = torch.eye(VOCABULARY)
    replay = Replay(1.0, lambda: begun + adapter.moved)
    target = directional_target(stated, signal, 0.5, 0.15)
    after = Distiller().train(adapter, head, replay, begun, DIGITS, target).after  # type: ignore[arg-type]
    assert min(stated, target) < after < max(stated, target)
