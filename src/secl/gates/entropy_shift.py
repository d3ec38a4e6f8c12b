"""The default gate: a cumulative sum of standardised entropies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from secl.errors import check_finite, check_whole
from secl.gates.base import Gate, checked, in_burst, quiet
from secl.records import Decision


@dataclass(frozen=True, slots=True)
class EntropyShiftState:
    """Whether nothing has been seen yet; size, mean (nats) and summed squares of the reference; evidence for a rise and
    for a fall (spreads); burst questions to come."""

    fresh: bool
    count: int
    mean: float
    squares: float
    up: float
    down: float
    remaining: int


@dataclass(frozen=True, slots=True)
class EntropyShift(Gate):
    """The default gate: a two-sided cumulative sum of standardised entropies, for any model without tuning.

    Entropies are measured in spreads (standard deviations) from the mean of a reference: the first `warmup` questions
    after the start or after a burst, and every later one once it has been tested. Two sums collect the evidence,
    up = max(0, up + z - slack) and down = max(0, down - z - slack), and the larger one is the statistic. At an alarm
    everything restarts. Questions inside a burst are not looked at, because learning itself moves the entropy then.
    The spread is floored at a thousandth of the mean (and at 1e-6 nats), so a model whose entropy never varies opens
    the gate only for changes larger than that.

    Simulated with warm-up 30 and slack 0.5: mean number of questions to a false alarm on stationary noise of three
    shapes, and the delay (median / 90th percentile of questions, "never": over 1000) of a rise in normal noise that
    comes after 200 questions; one that comes after 60 is missed more often, for the reference is then poorly known.
    `tests/gates/test_gate_rates.py` holds the default to its row:

        threshold | normal  gamma(4)  exponential | rise of 0.5   1 spread   2 spreads
            5     |    430       270          140 |    32 / 144     9 / 19       4 / 6
            6     |  1,200       600          260 |    48 / 458    11 / 22       4 / 6
            8     |  9,000     2,900          970 |  156 / never   15 / 31       6 / 8
           10     | 66,000    13,000        3,400 |        never   20 / 39      7 / 10

    Attributes:
        warmup: questions that make the first reference, at least 2; fewer is quicker to arm but the mean is then known
            poorly, which brings false alarms; more is blind for longer.
        slack: shift in spreads that is ignored; the best choice is half of the smallest shift that matters.
        threshold: evidence in spreads that fires; larger means fewer false alarms and a later one (a shift of d
            spreads: about threshold / (d - slack) questions). Skewed entropies need a larger one, see the table.
        burst: B, questions that learn after an alarm, the one that fires included; more of them cost and teach more.
        opening: whether the stream's start counts as a shift. Its first question then fires (with no statistic) and
            the reference is made after that burst; otherwise the gate waits for the first shift it sees.

    Raises:
        ParameterError: a parameter outside these ranges.

    >>> from secl.gates import replay
    >>> gate = EntropyShift(warmup=4, threshold=3.0, burst=1, opening=False)
    >>> decisions = replay(gate, [1.0, 1.2, 1.0, 1.2, 1.1, 0.8, 0.8])
    >>> [(d.alarm, None if d.statistic is None else round(d.statistic, 2)) for d in decisions[3:]]
    [(False, None), (False, 0.0), (False, 2.5), (True, 3.65)]
    """

    warmup: int = 30
    slack: float = 0.5
    threshold: float = 8.0
    burst: int = 50
    opening: bool = True

    def __post_init__(self) -> None:
        check_whole("gate's warmup", self.warmup, 2)
        check_finite("gate's slack", self.slack, self.slack >= 0.0, "be 0 or more")
        check_finite("gate's threshold", self.threshold, self.threshold > 0.0, "be above 0")
        check_whole("gate's burst", self.burst, 1)

    def start(self) -> EntropyShiftState:
        """No reference yet."""
        return EntropyShiftState(fresh=True, count=0, mean=0.0, squares=0.0, up=0.0, down=0.0, remaining=0)

    def step(self, state: EntropyShiftState, entropy: float) -> tuple[EntropyShiftState, Decision]:
        """Test one entropy (nats) against the reference without it, then take it in."""
        value = checked(entropy)
        if state.remaining:
            # Learning moves the entropy now: such a question says nothing about the domain, so it is not looked at.
            remaining = state.remaining - 1
            return _restarted(remaining), in_burst(False, remaining, None)
        if state.fresh and self.opening:
            return _restarted(self.burst - 1), in_burst(True, self.burst - 1, None)
        if state.count < self.warmup:
            return _observed(state, value, 0.0, 0.0), quiet(None)
        distance = (value - state.mean) / _spread(state)
        up = max(0.0, state.up + distance - self.slack)
        down = max(0.0, state.down - distance - self.slack)
        statistic = max(up, down)
        if statistic > self.threshold:
            return _restarted(self.burst - 1), in_burst(True, self.burst - 1, statistic)
        return _observed(state, value, up, down), quiet(statistic)


def _restarted(remaining: int) -> EntropyShiftState:
    """Everything forgotten, with this many questions of a burst to come."""
    return EntropyShiftState(False, 0, 0.0, 0.0, 0.0, 0.0, remaining)


def _observed(state: EntropyShiftState, value: float, up: float, down: float) -> EntropyShiftState:
    """The reference with one more entropy in it (Welford's update)."""
    count = state.count + 1
    mean = state.mean + (value - state.mean) / count
    squares = state.squares + (value - state.mean) * (value - mean)
    return EntropyShiftState(False, count, mean, squares, up, down, 0)


def _spread(state: EntropyShiftState) -> float:
    """Standard deviation of the reference in nats, never zero."""
    return max(math.sqrt(state.squares / (state.count - 1)), 1e-3 * state.mean, 1e-6)
