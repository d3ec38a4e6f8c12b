"""The default gate against a plain recomputation, and what it promises about scale, direction and bursts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.gates import EntropyShift, replay

ENTROPIES = st.lists(st.floats(0.0, 5.0), max_size=150)


def plain(gate: EntropyShift, entropies: list[float]) -> list[tuple[bool, float | None]]:
    """(alarm, statistic), with the reference kept as a list and measured anew at every question."""
    expected: list[tuple[bool, float | None]] = []
    reference: list[float] = []
    up, down, burst = 0.0, 0.0, 0
    for t, entropy in enumerate(entropies):
        statistic = None
        if burst:
            burst -= 1
            expected.append((False, None))
            continue
        if len(reference) >= gate.warmup:
            mean = float(np.mean(reference))
            z = (entropy - mean) / max(float(np.std(reference, ddof=1)), 1e-3 * mean, 1e-6)
            up, down = max(0.0, up + z - gate.slack), max(0.0, down - z - gate.slack)
            statistic = max(up, down)
        if (t == 0 and gate.opening) or (statistic is not None and statistic > gate.threshold):
            reference, up, down, burst = [], 0.0, 0.0, gate.burst - 1
            expected.append((True, statistic))
            continue
        reference.append(entropy)
        expected.append((False, statistic))
    return expected


@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize(("warmup", "burst"), [(2, 1), (5, 3), (30, 50)])
@given(entropies=ENTROPIES)
def test_it_is_the_two_sided_sum_of_standardised_entropies(
    opening: bool, warmup: int, burst: int, entropies: list[float]
) -> None:
    gate = EntropyShift(warmup=warmup, threshold=3.1, burst=burst, opening=opening)
    for (alarm, statistic), decision in zip(plain(gate, entropies), replay(gate, entropies), strict=True):
        if statistic is not None and abs(statistic - gate.threshold) < 1e-6 * max(1.0, statistic):
            return  # rounding decides
        assert decision.alarm == alarm
        assert decision.statistic == (None if statistic is None else pytest.approx(statistic, rel=1e-6, abs=1e-6))


def test_the_stream_opens_with_a_burst_unless_told_otherwise() -> None:
    entropies = [1.0, 1.1] * 10
    opened = replay(EntropyShift(burst=5), entropies)
    assert (opened[0].alarm, opened[0].statistic) == (True, None)
    assert [decision.in_burst for decision in opened] == [True] * 5 + [False] * 15
    assert not any(decision.in_burst for decision in replay(EntropyShift(burst=5, opening=False), entropies))


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_the_unit_of_the_entropy_is_irrelevant(scale: float) -> None:
    noise = np.random.default_rng(1).gamma(4.0, 0.25, 400)
    noise[200:] *= 1.8
    alarms = [decision.alarm for decision in replay(EntropyShift(), noise)]
    assert alarms == [decision.alarm for decision in replay(EntropyShift(), scale * noise)]
    assert sum(alarms) == 2


def test_what_happens_inside_a_burst_leaves_no_trace() -> None:
    calm = np.random.default_rng(2).normal(1.0, 0.1, 200)
    wild = calm.copy()
    wild[1:50] = 9.0
    assert replay(EntropyShift(), calm) == replay(EntropyShift(), wild)


def test_a_constant_entropy_has_no_spread_and_still_works() -> None:
    gate = EntropyShift(opening=False)
    still = replay(gate, [2.0] * 200)
    assert all(decision.statistic in (None, 0.0) for decision in still)
    assert not any(decision.alarm for decision in replay(gate, [2.0] * 100 + [2.0 + 1e-6] * 100))
    assert [d.alarm for d in replay(gate, [2.0] * 100 + [2.1])][-1]
    assert [d.alarm for d in replay(gate, [0.0] * 100 + [0.01])][-1]
