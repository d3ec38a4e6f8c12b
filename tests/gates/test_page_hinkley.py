"""The paper's gate against its equation, written out in the plainest way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.gates import PageHinkley, replay

ENTROPIES = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=150)


def plain(gate: PageHinkley, entropies: list[float]) -> list[tuple[bool, float]]:
    """(alarm, statistic) by summing from the last restart at every question."""
    means: list[float] = []
    for t, entropy in enumerate(entropies):
        if gate.mean == "cumulative":
            means.append(float(np.mean(entropies[: t + 1])))
        else:
            means.append(entropy if t == 0 else (1 - gate.ema) * means[-1] + gate.ema * entropy)
    expected, restart, burst_until = [], 0, 0
    for t in range(len(entropies)):
        steps = [entropies[s] - means[s] - gate.epsilon for s in range(restart, t + 1)]
        sums = np.concatenate([[0.0], np.cumsum(steps)])
        statistic = float(sums[-1] - sums.min())
        alarm = t >= burst_until and t >= gate.warmup and statistic > gate.threshold
        if alarm:
            restart, burst_until = t + 1, t + gate.burst
        expected.append((alarm, statistic))
    return expected


@pytest.mark.parametrize("mean", ["ema", "cumulative"])
@pytest.mark.parametrize(("warmup", "burst"), [(0, 1), (10, 5), (30, 50)])
@given(entropies=ENTROPIES)
def test_it_is_the_equation(mean: str, warmup: int, burst: int, entropies: list[float]) -> None:
    gate = PageHinkley(threshold=1.37, warmup=warmup, burst=burst, mean=mean)  # type: ignore[arg-type]
    for (alarm, statistic), decision in zip(plain(gate, entropies), replay(gate, entropies), strict=True):
        if abs(statistic - gate.threshold) < 1e-9:
            return  # rounding decides
        assert decision.alarm == alarm
        assert decision.statistic == pytest.approx(statistic, abs=1e-9)


def test_the_warm_up_is_before_the_first_detection_only() -> None:
    entropies = [0.0] * 5 + [5.0] * 4 + [0.0] * 40 + [9.0] * 4
    alarms = [t for t, d in enumerate(replay(PageHinkley(warmup=8, burst=2), entropies)) if d.alarm]
    assert alarms[0] == 8  # the statistic is over the threshold from question 5 on
    assert alarms[1] == 49  # a second one needs no further warm-up


def test_it_goes_on_counting_in_a_burst_and_may_fire_right_after_it() -> None:
    decisions = replay(PageHinkley(warmup=0, burst=3), [1.0] + [9.0] * 4)
    assert [d.alarm for d in decisions] == [False, True, False, False, True]
    inside = decisions[3].statistic
    assert inside is not None
    assert inside > 3.0


def test_it_does_not_see_a_fall() -> None:
    assert not any(decision.alarm for decision in replay(PageHinkley(), [5.0] * 100 + [0.0] * 300))


def test_it_never_opens_where_entropies_vary_by_less_than_its_tolerance() -> None:
    entropies = [1.0 + 0.05 * (t >= 100) for t in range(400)]
    assert not any(decision.alarm for decision in replay(PageHinkley(), entropies))


def test_the_averages_absorb_a_shift_at_different_speeds() -> None:
    entropies = [1.0] * 200 + [1.2] * 200
    slow = replay(PageHinkley(mean="cumulative"), entropies)
    fast = replay(PageHinkley(mean="ema"), entropies)
    assert any(decision.alarm for decision in slow)
    assert not any(decision.alarm for decision in fast)
