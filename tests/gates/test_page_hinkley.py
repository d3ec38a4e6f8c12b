"""The paper's gate against its equation, written out in the plainest way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.gates import PageHinkley, replay

ENTROPIES = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=150)


def plain(gate: PageHinkley, entropies: list[float]) -> list[tuple[bool, float]]:
    """(alarm, statistic) by summing from the last restart at every question."""
    expected: list[tuple[bool, float]] = []
    mean_from = sums_from = remaining = 0
    for count in range(1, len(entropies) + 1):
        inside = remaining > 0
        remaining = max(0, remaining - 1)
        sums = [0.0]
        for end in range(sums_from + 1, count + 1):
            average = _average(gate, entropies[mean_from:end])
            sums.append(sums[-1] + entropies[end - 1] - average - gate.epsilon)
        statistic = sums[-1] - min(sums)
        alarm = not inside and count > gate.warmup and statistic > gate.threshold
        if alarm:
            remaining, sums_from = gate.burst - 1, count
            mean_from = sums_from if gate.restart == "all" else mean_from
        expected.append((alarm, statistic))
    return expected


def _average(gate: PageHinkley, entropies: list[float]) -> float:
    """The exponential moving average after the last of some entropies."""
    average = entropies[0]
    for entropy in entropies[1:]:
        average = (1 - gate.ema) * average + gate.ema * entropy
    return average


@pytest.mark.parametrize("restart", ["sums", "all"])
@pytest.mark.parametrize(("warmup", "burst"), [(0, 1), (10, 5)])
@settings(max_examples=40)
@given(entropies=ENTROPIES)
def test_it_is_the_equation(restart: Any, warmup: int, burst: int, entropies: list[float]) -> None:
    gate = PageHinkley(threshold=1.37, warmup=warmup, burst=burst, restart=restart)
    for (alarm, statistic), decision in zip(plain(gate, entropies), replay(gate, entropies), strict=True):
        if abs(statistic - gate.threshold) < 1e-9:
            return  # rounding decides
        assert decision.alarm == alarm
        assert decision.statistic == pytest.approx(statistic, abs=1e-9)


def test_one_clean_step_alarms_where_the_hand_calculation_says() -> None:
    """From nats of 1 to nats of 2 at question 30 (0-based); weight and tolerance .05, threshold 3.

    After k questions at 2 the average is 2 - .95^k, so the statistic is the sum of .95^j - .05 over j = 1..k:
    2.5599 for k = 3, 3.3244 for k = 4. A restarted mean begins at 2, so nothing is left to alarm. One that goes on
    still lags behind during the burst: its 50 questions add up to 11.78.
    """
    entropies = [1.0] * 30 + [2.0] * 300
    statistics = [sum(0.95**j - 0.05 for j in range(1, k + 1)) for k in (3, 4)]
    for restart, alarms in (("sums", [33, 83]), ("all", [33])):
        decisions = replay(PageHinkley(restart=restart), entropies)  # type: ignore[arg-type]
        assert [t for t, decision in enumerate(decisions) if decision.alarm] == alarms
        assert [decisions[t].statistic for t in (32, 33)] == pytest.approx(statistics)
    second = replay(PageHinkley(), entropies)[83].statistic
    assert second == pytest.approx(sum(0.95**j - 0.05 for j in range(5, 55)))


def test_the_warm_up_is_before_the_first_detection_only() -> None:
    entropies = [0.0] * 5 + [5.0] * 4 + [0.0] * 40 + [9.0] * 4
    alarms = [t for t, d in enumerate(replay(PageHinkley(warmup=8, burst=2), entropies)) if d.alarm]
    assert alarms[0] == 8  # the statistic is over the threshold from question 5 on
    assert alarms[1] == 49  # a second one needs no further warm-up
