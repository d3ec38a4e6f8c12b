"""Entropy from the most probable tokens, against the whole distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from secl.backends.entropy import entropy_of
from secl.backends.local.backend import LocalReading
from secl.backends.local.model import LocalModel
from secl.data.quiz import quiz
from secl.question import Question


def exact(p: NDArray[np.floating[Any]]) -> float:
    seen = p[p > 0]
    return float(-(seen * np.log(seen)).sum())


@pytest.mark.parametrize("power", [0.8, 1.0, 1.3, 2.5])
def test_a_power_law_tail_is_found_from_its_head(power: float) -> None:
    p = np.arange(1, 30001) ** -power
    p /= p.sum()
    found = entropy_of(np.log(p[:64]).tolist(), len(p))
    assert found.value == pytest.approx(exact(p), abs=0.02)
    assert found.high - found.low > abs(found.value - exact(p))


@given(st.integers(0, 10_000), st.floats(0.1, 8.0), st.integers(1, 80))
def test_the_entropy_lies_between_the_bounds(seed: int, spread: float, top: int) -> None:
    logits = np.random.default_rng(seed).normal(size=500) * spread
    p = np.sort(np.exp(logits - logits.max()))[::-1]
    p /= p.sum()
    found = entropy_of(np.log(p[:top]).tolist(), len(p))
    # A tail of less than 1e-6 is left out.
    assert found.low - 1e-4 <= exact(p) <= found.high + 1e-4
    assert found.low <= found.value <= found.high


def test_the_whole_distribution_gives_the_entropy_itself() -> None:
    found = entropy_of([math.log(0.25)] * 4, 4)
    assert found.low == found.value == found.high == pytest.approx(math.log(4))


def test_a_certain_token_has_no_entropy() -> None:
    found = entropy_of([0.0, *[-200.0] * 19], 50_000)
    assert found.high == pytest.approx(0.0, abs=1e-12)


def test_a_uniform_distribution_is_found() -> None:
    found = entropy_of([-math.log(1000)] * 20, 1000)
    assert found.low == pytest.approx(math.log(1000))
    assert found.value == pytest.approx(math.log(1000), abs=1e-3)


@pytest.mark.slow
def test_the_entropy_of_a_real_model_is_found_from_its_head(smollm2: str) -> None:
    model = LocalModel.load(smollm2, dtype="fp32")
    choices = [question for domain in ("capitals", "science", "misconceptions") for question in quiz(domain, 6, 1)]
    texts = [Question(question.text, id=question.id) for question in choices[:6]]
    for questions, limits in ((choices, {20: 0.05, 64: 0.05}), (texts, {20: 0.3, 64: 0.15})):
        errors: dict[int, list[float]] = {top: [] for top in limits}
        for question in questions:
            (item,) = model.answering.prefetch([question], [()], 0)
            reading = item.frozen.reading
            assert isinstance(reading, LocalReading)
            # Before the letter and a digit, or before each token of the text and the digit.
            positions = reading.bundle.positions
            states = reading.hidden(positions[:2] if question.options else [*positions[:-2], positions[-1]])
            digits = torch.tensor(model.backend.token_ids.digits)
            log_p = model.backend.network.head.logits(states, digits).log_softmax(-1).double()
            expected = float(-(log_p.exp() * log_p).sum(-1).mean())
            for top in limits:
                found = [entropy_of(row.topk(top).values.tolist(), log_p.shape[-1]) for row in log_p]
                errors[top].append(float(np.mean([each.value for each in found])) - expected)
        assert all(max(map(abs, errors[top])) < largest for top, largest in limits.items())
        assert np.mean(errors[64]) < np.mean(errors[20]) + 0.02
