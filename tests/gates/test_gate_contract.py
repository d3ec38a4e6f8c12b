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
from secl.gates import GATES, Always, EntropyShift, Gate, Never, PageHinkley, replay
from secl.settings import GateName, GateSettings

SHIFTY = [1.0 + 0.1 * (k % 3) for k in range(30)] + [4.0 + 0.1 * (k % 3) for k in range(60)] + [0.5] * 60

# (gate, length of its bursts; None for a gate without bursts)
ROWS: list[tuple[Gate, int | None]] = [
    (Always(), None),
    (Never(), None),
    (PageHinkley(), 50),
    (PageHinkley(threshold=1.0, warmup=0, burst=1), 1),
    (PageHinkley(threshold=1.0, warmup=5, burst=7, restart="all"), 7),
    (EntropyShift(), 50),
    (EntropyShift(warmup=5, burst=7, opening=False), 7),
    (EntropyShift(warmup=2, threshold=1.0, burst=1), 1),
]
GATE = pytest.mark.parametrize("gate", [gate for gate, _ in ROWS], ids=repr)
ENTROPIES = st.lists(st.floats(0.0, 20.0), max_size=120)


def test_every_gate_of_the_table_has_a_row() -> None:
    assert {type(gate) for gate, _ in ROWS} == set(GATES.values())
    assert GATES["page-hinkley"](burst=20) == PageHinkley(burst=20)


def test_every_gate_and_every_parameter_of_a_gate_can_be_set() -> None:
    assert set(get_args(GateName)) == set(GATES)
    parameters = {name for gate, _ in ROWS for name in inspect.signature(type(gate)).parameters}
    assert set(GateSettings.model_fields) - {"name"} == parameters


@GATE
def test_gates_states_and_decisions_are_frozen_hashable_and_equal_by_value(gate: Gate) -> None:
    first, second = gate.start(), gate.start()
    for entropy in SHIFTY:
        assert first == second
        assert hash(first) == hash(second)
        assert type(first)(**dataclasses.asdict(first)) == first
        assert all(type(number) in (bool, int, float) for number in dataclasses.astuple(first))
        first, _ = gate.step(first, np.float64(entropy))
        second, _ = gate.step(second, entropy)
    assert hash(gate) == hash(dataclasses.replace(gate))  # type: ignore[type-var]
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError, AttributeError)):
        gate.burst = 3  # type: ignore[attr-defined]


@GATE
def test_a_step_is_pure(gate: Gate) -> None:
    state = gate.start()
    for entropy in SHIFTY:
        before = dataclasses.astuple(state)
        once, twice = gate.step(state, entropy), gate.step(state, entropy)
        assert once == twice
        assert (dataclasses.astuple(state), twice) == (before, gate.step(state, entropy))
        state, _ = once


@pytest.mark.parametrize(("gate", "burst"), ROWS, ids=repr)
@given(entropies=ENTROPIES)
def test_replay_is_the_steps_and_bursts_are_counted_right(
    gate: Gate, burst: int | None, entropies: list[float]
) -> None:
    decisions, state = replay(gate, entropies), gate.start()
    assert len(decisions) == len(entropies)
    remaining = 0
    for entropy, decision in zip(entropies, decisions, strict=True):
        state, again = gate.step(state, entropy)
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
    decisions = replay(gate, SHIFTY * 3)
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
        ("page-hinkley", {"restart": "mean"}, "mean"),
        ("entropy-shift", {"warmup": 1}, "warmup"),
        ("entropy-shift", {"warmup": 2.5}, "warmup"),
        ("entropy-shift", {"slack": -0.5}, "slack"),
        ("entropy-shift", {"threshold": -8.0}, "threshold"),
        ("entropy-shift", {"burst": 0}, "burst"),
    ],
)
def test_a_gate_names_the_parameter_that_makes_no_sense(name: GateName, values: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        GATES[name](**values)
