"""How often the default gate cries wolf, and how late it sees a shift: its docstring's table, on a small scale."""

from __future__ import annotations

import numpy as np
import pytest

from secl.gates import EntropyShift, replay


def first_alarm(gate: EntropyShift, entropies: np.ndarray) -> int:
    """Position of the first alarm; the length of the stream if there is none."""
    alarms = (position for position, decision in enumerate(replay(gate, entropies)) if decision.alarm)
    return next(alarms, len(entropies))


@pytest.mark.parametrize("shape", [None, 4.0], ids=["normal", "gamma"])
def test_a_stationary_stream_gives_at_most_one_alarm_in_a_thousand_questions(shape: float | None) -> None:
    generator = np.random.default_rng(0)
    size = (40, 2000)
    noise = generator.normal(10.0, 1.0, size) if shape is None else generator.gamma(shape, 1.0, size)
    gate = EntropyShift(burst=1, opening=False)
    alarms = sum(sum(decision.alarm for decision in replay(gate, stream)) for stream in noise)
    assert alarms <= noise.size / 1000


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["rise", "fall"])
@pytest.mark.parametrize(("spreads", "median", "latest"), [(1.0, 20, 40), (2.0, 8, 12)])
def test_a_shift_is_found_in_time(sign: float, spreads: float, median: int, latest: int) -> None:
    noise = np.random.default_rng(1).normal(10.0, 1.0, (150, 400))
    noise[:, 200:] += sign * spreads
    gate = EntropyShift(opening=False)
    alarms = np.array([first_alarm(gate, stream) for stream in noise])
    delays = alarms[alarms >= 200] - 199
    assert np.median(delays) <= median
    assert np.quantile(delays, 0.9) <= latest
