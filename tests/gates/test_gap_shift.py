"""The gate on the gap: its sums by hand, which questions it looks at, and how often and how late it fires."""

from __future__ import annotations

import numpy as np
import pytest

from secl.gates import GapShift, GapShiftState, replay

KNOWN = GapShiftState(position=1, age=10**9, count=10**12, mean=0.0)
"""A reference that is known and does not move."""


def test_the_statistic_follows_the_equation() -> None:
    gate = GapShift(probe_rate=1.0, epsilon=0.1, warmup=2, opening=False)
    gaps, reference = [0.2, 0.4, 0.5, -0.9, 0.2], [0.3, 0.3 + 0.2 / 3, (1.1 - 0.9) / 4]
    rise, fall, statistics = [0.0] * 3, [0.0] * 3, [None, None, 0.0]
    for gap, mean in zip(gaps[2:], reference, strict=True):
        r = max(-0.5, min(gap - mean, 0.5))
        rise = [(u + 1) * (1 + b * (r - 0.1) / 0.6) for u, b in zip(rise, (0.2, 0.5, 0.9), strict=True)]
        fall = [(u + 1) * (1 + b * (-r - 0.1) / 0.6) for u, b in zip(fall, (0.2, 0.5, 0.9), strict=True)]
        statistics.append(sum(rise + fall) / 6)
    decisions = replay(gate, [1.0] * 6, [*gaps, None])
    assert [d.statistic for d in decisions] == pytest.approx(statistics, abs=1e-12)


def test_an_alarm_opens_the_burst_at_the_next_question_and_everything_starts_anew() -> None:
    gate = GapShift(probe_rate=1.0, threshold=40.0, warmup=30, burst=3, opening=False)
    decisions = replay(gate, [1.0] * 120, [0.1] * 35 + [0.6] * 85)
    (fired,) = [k for k, decision in enumerate(decisions) if decision.alarm]
    assert [d.in_burst for d in decisions[fired : fired + 4]] == [True, True, True, False]
    crossing = decisions[fired].statistic
    assert crossing is not None
    assert crossing > 40.0 >= max(d.statistic or 0.0 for d in decisions[:fired])
    # The new reference is made after the burst, of the new gap, which is then no news.
    after = [d.statistic for d in decisions[fired + 3 :]]
    assert after[:30] == [None] * 30
    assert None not in after[30:]
    assert max(statistic or 0.0 for statistic in after) < 29.0  # where the six sums settle without any deviation


def test_against_zero_a_gap_that_was_always_there_fires_and_there_is_no_warm_up() -> None:
    gaps = [0.2 + 0.1 * (-1) ** k for k in range(60)]
    by_fit = replay(GapShift(probe_rate=1.0, opening=False), [1.0] * 60, gaps)
    by_zero = replay(GapShift(probe_rate=1.0, opening=False, against="zero"), [1.0] * 60, gaps)
    assert not any(decision.alarm for decision in by_fit)
    assert [decision.statistic for decision in by_zero[:1]] == [0.0]
    (first,) = [k for k, decision in enumerate(by_zero) if decision.alarm]
    assert 15 < first < 40
    gains = [(gap - 0.05) / 0.55 for gap in gaps[:2]], [(-gap - 0.05) / 0.55 for gap in gaps[:2]]
    bets = [(1 + b * x, 1 + b * y) for b in (0.2, 0.5, 0.9) for x, y in gains]
    assert by_zero[2].statistic == pytest.approx(sum((x + 1) * y for x, y in bets) / 6, abs=1e-12)
    never = replay(GapShift(probe_rate=1.0, opening=False, against="zero"), [1.0] * 60, [g - 0.2 for g in gaps])
    assert not any(decision.alarm for decision in never)
    quiet = GapShift(opening=False, against="zero")
    assert 0.1 < sum(quiet.probes(GapShiftState(position=k, age=k)) for k in range(100)) / 100 < 0.4


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rise_and_a_fall_are_the_same_to_it(sign: int) -> None:
    gaps = np.random.default_rng(3).uniform(-0.4, 0.4, 200)
    gaps[120:] += 0.3
    gate = GapShift(probe_rate=1.0)
    rising, mirrored = replay(gate, [1.0] * 200, gaps), replay(gate, [1.0] * 200, sign * gaps)
    assert [d.alarm for d in rising] == [d.alarm for d in mirrored]
    assert sum(d.alarm for d in rising) == 2


def test_it_probes_the_warm_up_and_then_its_share_whatever_is_seen() -> None:
    gate, other = GapShift(opening=False), GapShift(opening=False, seed=7)
    states, probes = [gate.start(), gate.start(), other.start()], []
    for gap in np.random.default_rng(0).uniform(-0.1, 0.1, 4000):
        probes.append([each.probes(state) for each, state in zip((gate, gate, other), states, strict=True)])
        states = [each.step(state, 1.0)[0] for each, state in zip((gate, gate, other), states, strict=True)]
        states[0] = gate.observe(states[0], gap)
    seen, blind, reseeded = np.array(probes).T
    assert seen[:30].all()
    assert seen[30:].mean() == pytest.approx(0.25, abs=0.02)
    assert (seen == blind).all()
    assert (seen != reseeded)[30:].mean() == pytest.approx(2 * 0.25 * 0.75, abs=0.03)


def test_a_question_that_is_not_probed_or_is_in_a_burst_counts_for_nothing() -> None:
    gate = GapShift(burst=2, warmup=3)
    wild = np.random.default_rng(1).uniform(-1, 1, 400)
    state, told = gate.start(), []
    for gap in wild:
        probed = gate.probes(state)
        state, decision = gate.step(state, 1.0)
        told.append(float(gap) if probed and not decision.in_burst else None)
        state = gate.observe(state, gap)
    assert 50 < sum(gap is not None for gap in told) < 200
    assert replay(gate, [1.0] * 400, wild) == replay(gate, [1.0] * 400, told)


def test_a_gap_is_taken_in_once() -> None:
    gate = GapShift(opening=False)
    state, _ = gate.step(gate.start(), 1.0)
    once = gate.observe(state, 0.3)
    assert (once.count, once.mean) == (1, 0.3)
    assert gate.observe(once, 0.9) == once


def alarms_after(noise: np.ndarray, thresholds: tuple[float, ...], *, warmup: int = 0) -> np.ndarray:
    """Tested gaps until the statistic exceeds each threshold, a row for each stream; inf if it does not.

    Without a warm-up the reference is known to be 0, else it is estimated.
    """
    gate = GapShift(threshold=1e300, warmup=warmup or 1, probe_rate=1.0, opening=False)
    rows = []
    for stream in noise.tolist():
        state, statistics = gate.start() if warmup else KNOWN, []
        for gap in stream:
            state, decision = gate.step(state, 1.0)
            state = gate.observe(state, gap)
            statistics.append(decision.statistic or 0.0)
        path = np.array(statistics[warmup + 1 :])
        rows.append([np.argmax(path > each) + 1 if (path > each).any() else np.inf for each in thresholds])
    return np.array(rows)


def normal(seed: int, *shape: int) -> np.ndarray:
    """Gaps with mean 0 and standard deviation .25."""
    return np.random.default_rng(seed).normal(0.0, 0.25, shape).clip(-0.8, 0.8)


@pytest.mark.slow
@pytest.mark.parametrize("warmup", [0, 30], ids=["known", "estimated"])
def test_false_alarms_within_a_thousand_probes(warmup: int) -> None:
    alarms = alarms_after(normal(0, 200, 1001 + warmup), (200.0, 1000.0), warmup=warmup)
    at_200, at_1000 = np.mean(alarms <= 1000, axis=0)
    assert 0.02 <= at_200 <= 0.13
    assert at_1000 <= 0.015


@pytest.mark.parametrize("shape", ["coin", "uniform", "rare"])
@pytest.mark.parametrize("mean", [0.0, 0.05])
def test_the_guarantee_holds_for_gaps_of_any_shape(shape: str, mean: float) -> None:
    generator, size = np.random.default_rng(1), (100, 200)
    if shape == "coin":  # the widest there is without clipping
        noise = np.where(generator.random(size) < 0.5, 0.45, -0.45)
    elif shape == "rare":
        noise = np.where(generator.random(size) < 0.1, 0.45, -0.05)
    else:
        noise = generator.uniform(-0.45, 0.45, size)
    alarms = alarms_after(noise + mean, (20.0,))  # a mean of .05 is the most that epsilon allows
    assert np.mean(np.minimum(alarms, size[1])) >= 20.0


def test_a_shift_of_a_fifth_is_found_in_time() -> None:
    delays = alarms_after(0.2 + normal(2, 100, 120), (200.0, 1000.0))
    assert np.median(delays, axis=0) == pytest.approx([29, 41], abs=4)
    assert (np.quantile(delays, 0.9, axis=0) <= [50, 70]).all()


def test_with_an_estimated_reference_a_shift_after_a_hundred_probes_is_found_too() -> None:
    noise = normal(3, 100, 331)
    noise[:, 130:] += 0.2
    delays = alarms_after(noise, (200.0,), warmup=30) - 100
    assert np.mean(delays <= 0) <= 0.05
    assert np.median(delays) <= 35
    assert np.quantile(delays, 0.9) <= 80
