"""What every gate promises. A new gate is one row of `ROWS`."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.errors import ParameterError
from secl.gates import GATES, Always, EntropyShift, GapShift, Gate, Never, PageHinkley, replay
from secl.settings import GateName, GateSettings

SHIFTY = [1.0 + 0.1 * (k % 3) for k in range(30)] + [4.0 + 0.1 * (k % 3) for k in range(60)] + [0.5] * 60
GAPS = [0.5 + 0.1 * (k % 3) for k in range(30)] + [0.0] * 60 + [0.4] * 60

# (gate, length of its bursts; None for a gate without bursts)
ROWS: list[tuple[Gate, int | None]] = [
    (Always(), None),
    (Never(), None),
    (PageHinkley(), 50),
    (PageHinkley(threshold=1.0, warmup=0, burst=1), 1),
    (PageHinkley(threshold=1.0, warmup=5, burst=7, mean="cumulative"), 7),
    (EntropyShift(), 50),
    (EntropyShift(warmup=5, burst=7, opening=False), 7),
    (EntropyShift(warmup=2, threshold=1.0, burst=1), 1),
    (GapShift(), 50),
    (GapShift(warmup=5, burst=7, opening=False, probe_rate=1.0, threshold=20.0), 7),
    (GapShift(warmup=1, threshold=1.0, burst=1), 1),
    (GapShift(against="zero", threshold=20.0, burst=7, opening=False), 7),
]
GATE = pytest.mark.parametrize("gate", [gate for gate, _ in ROWS], ids=repr)
SEEN = st.lists(st.tuples(st.floats(0.0, 20.0), st.none() | st.floats(-1.0, 1.0)), max_size=120)


def test_every_gate_of_the_table_has_a_row() -> None:
    assert {type(gate) for gate, _ in ROWS} == set(GATES.values())
    assert GATES["page-hinkley"](burst=20) == PageHinkley(burst=20)


def test_every_gate_and_every_parameter_of_a_gate_can_be_set() -> None:
    assert set(get_args(GateName)) == set(GATES)
    parameters = {name for gate, _ in ROWS for name in inspect.signature(type(gate)).parameters}
    assert set(GateSettings.model_fields) - {"name"} == parameters - {"seed"}  # that is the run's


@GATE
def test_gates_states_and_decisions_are_frozen_hashable_and_equal_by_value(gate: Gate) -> None:
    first, second = gate.start(), gate.start()
    for entropy, gap in zip(SHIFTY, GAPS, strict=True):
        assert first == second
        assert hash(first) == hash(second)
        assert type(first)(**dataclasses.asdict(first)) == first
        values = dataclasses.astuple(first)
        numbers = [number for value in values for number in (value if isinstance(value, tuple) else (value,))]
        assert all(type(number) in (bool, int, float) for number in numbers)
        first, _ = gate.step(first, np.float64(entropy))
        second, _ = gate.step(second, entropy)
        first, second = gate.observe(first, np.float64(gap)), gate.observe(second, gap)
    assert hash(gate) == hash(dataclasses.replace(gate))  # type: ignore[type-var]
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError, AttributeError)):
        gate.burst = 3  # type: ignore[attr-defined]


@GATE
def test_a_step_is_pure(gate: Gate) -> None:
    state = gate.start()
    for entropy, gap in zip(SHIFTY, GAPS, strict=True):
        before = dataclasses.astuple(state)
        assert gate.probes(state) is gate.probes(state)
        once, twice = gate.step(state, entropy), gate.step(state, entropy)
        assert once == twice
        assert gate.observe(once[0], gap) == gate.observe(once[0], gap)
        assert (dataclasses.astuple(state), twice) == (before, gate.step(state, entropy))
        state = gate.observe(once[0], gap)


@GATE
def test_only_a_gate_that_watches_gaps_probes_and_changes_with_one(gate: Gate) -> None:
    state, changed, probed = gate.start(), False, False
    for entropy, gap in zip(SHIFTY, GAPS, strict=True):
        probed = probed or gate.probes(state)
        state, _ = gate.step(state, entropy)
        changed = changed or gate.observe(state, gap) != state
        state = gate.observe(state, gap)
    assert (probed, changed) == (gate.watches_gap, gate.watches_gap)


@pytest.mark.parametrize(("gate", "burst"), ROWS, ids=repr)
@given(seen=SEEN)
def test_replay_is_the_steps_and_bursts_are_counted_right(
    gate: Gate, burst: int | None, seen: list[tuple[float, float | None]]
) -> None:
    decisions, state = replay(gate, [entropy for entropy, _ in seen], [gap for _, gap in seen]), gate.start()
    assert len(decisions) == len(seen)
    remaining = 0
    for (entropy, gap), decision in zip(seen, decisions, strict=True):
        state, again = gate.step(state, entropy)
        state = state if gap is None else gate.observe(state, gap)
        assert again == decision
        if burst is None:
            assert (decision.alarm, decision.remaining, decision.statistic) == (False, 0, None)
            continue
        if remaining:
            assert (decision.alarm, decision.in_burst, decision.remaining) == (False, True, remaining - 1)
        elif decision.alarm:
            assert (decision.in_burst, decision.remaining) == (True, burst - 1)
        else:
            assert (decision.in_burst, decision.remaining) == (False, 0)
        remaining = decision.remaining


@pytest.mark.parametrize(("gate", "burst"), ROWS, ids=repr)
def test_a_burst_has_exactly_its_length(gate: Gate, burst: int | None) -> None:
    decisions = replay(gate, SHIFTY * 3, GAPS * 3)
    if burst is None:
        assert len({decision.in_burst for decision in decisions}) == 1
        return
    alarms = [position for position, decision in enumerate(decisions) if decision.alarm]
    assert alarms
    full = sum(min(burst, len(decisions) - position) for position in alarms)
    assert sum(decision.in_burst for decision in decisions) == full


@GATE
@pytest.mark.parametrize("entropy", [-0.1, math.nan, math.inf])
def test_an_entropy_is_finite_and_not_negative(gate: Gate, entropy: float) -> None:
    with pytest.raises(ParameterError, match="entropy"):
        gate.step(gate.start(), entropy)


@pytest.mark.parametrize("gap", [-1.1, 1.1, math.nan])
def test_a_gap_lies_between_minus_one_and_one(gap: float) -> None:
    with pytest.raises(ParameterError, match="gap must lie between -1 and 1"):
        GapShift().observe(GapShift().start(), gap)


def test_a_replay_wants_a_gap_or_none_for_every_entropy() -> None:
    with pytest.raises(ValueError, match="shorter"):
        replay(GapShift(), [1.0, 1.0], [0.1])


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("page-hinkley", {"ema": 0.0}, "ema"),
        ("page-hinkley", {"ema": 1.1}, "ema"),
        ("page-hinkley", {"ema": math.nan}, "ema"),
        ("page-hinkley", {"epsilon": -0.01}, "epsilon"),
        ("page-hinkley", {"threshold": 0.0}, "threshold"),
        ("page-hinkley", {"threshold": math.inf}, "threshold"),
        ("page-hinkley", {"warmup": -1}, "warmup"),
        ("page-hinkley", {"burst": 0}, "burst"),
        ("page-hinkley", {"mean": "median"}, "median"),
        ("entropy-shift", {"warmup": 1}, "warmup"),
        ("entropy-shift", {"warmup": 2.5}, "warmup"),
        ("entropy-shift", {"slack": -0.5}, "slack"),
        ("entropy-shift", {"threshold": -8.0}, "threshold"),
        ("entropy-shift", {"burst": 0}, "burst"),
        ("gap-shift", {"probe_rate": 0.0}, "probe_rate"),
        ("gap-shift", {"probe_rate": 1.1}, "probe_rate"),
        ("gap-shift", {"epsilon": 0.5}, "epsilon"),
        ("gap-shift", {"epsilon": -0.01}, "epsilon"),
        ("gap-shift", {"threshold": 0.0}, "threshold"),
        ("gap-shift", {"against": "one"}, "one"),
        ("gap-shift", {"warmup": 0}, "warmup"),
        ("gap-shift", {"burst": 0}, "burst"),
    ],
)
def test_a_gate_names_the_parameter_that_makes_no_sense(name: GateName, values: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        GATES[name](**values)
