"""Entropy from the most probable tokens, against the whole distribution."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from secl.backends.entropy import entropy_of


def exact(p: NDArray[np.floating[Any]]) -> float:
    seen = p[p > 0]
    return float(-(seen * np.log(seen)).sum())


@pytest.mark.parametrize("power", [0.8, 1.3, 2.5])
def test_a_power_law_tail_is_found_from_its_head(power: float) -> None:
    p = np.arange(1, 30001) ** -power
    p /= p.sum()
    assert entropy_of(np.log(p[:64]).tolist(), len(p)) == pytest.approx(exact(p), abs=0.02)


@given(st.integers(0, 10_000), st.floats(0.1, 8.0), st.integers(1, 80))
def test_the_entropy_lies_between_that_of_the_head_and_that_of_a_flat_tail(seed: int, spread: float, top: int) -> None:
    logits = np.random.default_rng(seed).normal(size=500) * spread
    p = np.sort(np.exp(logits - logits.max()))[::-1]
    p /= p.sum()
    head = p[:top]
    flat = np.concatenate([head, np.full(500 - top, max(0.0, 1 - head.sum()) / (500 - top))])
    assert exact(head) - 1e-4 <= entropy_of(np.log(head).tolist(), len(p)) <= exact(flat) + 1e-4


def test_a_head_that_says_all_gives_the_entropy_itself() -> None:
    assert entropy_of([math.log(0.25)] * 4, 4) == pytest.approx(math.log(4))
    assert entropy_of([0.0, *[-200.0] * 19], 50_000) == pytest.approx(0.0, abs=1e-12)
    assert entropy_of([-math.log(1000)] * 20, 1000) == pytest.approx(math.log(1000), abs=1e-3)
