"""When to learn: a gate watches the entropy of every reply and opens for a burst of questions when it shifts.

    gate.start() -> state;   gate.step(state, entropy) -> (next state, Decision)

Gates are frozen, states are frozen, steps are pure: `replay` of recorded entropies gives the recorded decisions.
Bursts are counted alike everywhere: the question that fires is the first member, `burst` questions belong to it in all,
and the gate cannot fire before they are over. Entropies are in nats (H_t, paper section "Adaptive Entropy Gating").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from secl.errors import ParameterError
from secl.records import Decision
from secl.settings import GateName, Mean
from secl.validation import check_finite, check_whole


class Gate(Protocol):
    """The interface of a gate. The state is a frozen dataclass of plain numbers, private to its gate."""

    def start(self) -> Any:
        """The state before the first question of a stream."""

    def step(self, state: Any, entropy: float) -> tuple[Any, Decision]:
        """The state after a reply with this entropy (nats), and the decision about it; changes nothing.

        Raises:
            ParameterError: the entropy is negative or not finite.
        """


@dataclass(frozen=True, slots=True)
class NoState:
    """The state of a gate that remembers nothing."""


@dataclass(frozen=True, slots=True)
class Always:
    """Open for every question (the paper's "always-train"). It tests nothing, so it raises no alarm.

    >>> replay(Always(), [1.0])
    [Decision(alarm=False, in_burst=True, remaining=0, statistic=None)]
    """

    def start(self) -> NoState:
        return NoState()

    def step(self, state: NoState, entropy: float) -> tuple[NoState, Decision]:
        _checked(entropy)
        return state, Decision(alarm=False, in_burst=True, remaining=0, statistic=None)


@dataclass(frozen=True, slots=True)
class Never:
    """Closed for every question: the frozen model, or an adapter that is only used.

    >>> replay(Never(), [1.0])
    [Decision(alarm=False, in_burst=False, remaining=0, statistic=None)]
    """

    def start(self) -> NoState:
        return NoState()

    def step(self, state: NoState, entropy: float) -> tuple[NoState, Decision]:
        _checked(entropy)
        return state, _quiet(None)


@dataclass(frozen=True, slots=True)
class PageHinkleyState:
    """Number of questions; mean, m_t and its lowest value since the last restart, in nats; burst questions to come."""

    count: int
    mean: float
    total: float
    lowest: float
    remaining: int


@dataclass(frozen=True, slots=True)
class PageHinkley:
    """The gate of the paper (Eq. ph): one-sided Page-Hinkley test on absolute entropies; sees rises, not falls.

    The sum m_t grows by H_t - mean_t - epsilon with every question, where mean_t already includes H_t. The alarm is
    m_t - min m_s > threshold over s <= t, with m_0 = 0 among them. At an alarm m and its minimum restart at 0 and the
    mean goes on. During a burst both go on too, so a statistic that stays above the threshold fires on the first
    question after the burst. The statistic of a decision is m_t - min m_s, also while it cannot fire.

    Thresholds in nats do not carry over from model to model: where entropies vary by 0.2 this gate may never open. Use
    `EntropyShift` for a model nobody has tuned a threshold for.

    Attributes:
        ema: weight of the newest entropy in the mean, in (0, 1]; larger forgets the old domain sooner but also
            absorbs a shift before it is noticed. Without effect on the cumulative mean.
        epsilon: rise in nats that is ignored; larger means fewer false alarms and blindness to smaller shifts.
        threshold: lambda, in nats; larger means fewer false alarms and a later one (shift of d nats: about
            threshold / (d - epsilon) questions, if the mean stood still).
        warmup: questions at the start of the stream that cannot fire; later alarms have no warm-up.
        burst: B, questions that learn after an alarm, the one that fires included.
        mean: "ema", which starts at the first entropy, or "cumulative", the plain mean of all entropies so far.

    Raises:
        ParameterError: a parameter outside these ranges.

    >>> decisions = replay(PageHinkley(threshold=1.0, warmup=3, burst=2), [1.0, 1.0, 1.0, 1.0, 2.5, 2.5])
    >>> [(d.alarm, d.in_burst, d.remaining, round(d.statistic, 3)) for d in decisions[3:]]
    [(False, False, 0, 0.0), (True, True, 1, 1.375), (False, True, 0, 1.304)]
    """

    ema: float = 0.05
    epsilon: float = 0.05
    threshold: float = 3.0
    warmup: int = 30
    burst: int = 50
    mean: Mean = "ema"

    def __post_init__(self) -> None:
        check_finite("gate's ema", self.ema, 0.0 < self.ema <= 1.0, "lie above 0 and not above 1")
        check_finite("gate's epsilon", self.epsilon, self.epsilon >= 0.0, "be 0 or more")
        check_finite("gate's threshold", self.threshold, self.threshold > 0.0, "be above 0")
        check_whole("gate's warmup", self.warmup, 0)
        check_whole("gate's burst", self.burst, 1)
        if self.mean not in ("ema", "cumulative"):
            raise ParameterError(f"the reference mean of a gate is 'ema' or 'cumulative', not {self.mean!r}.")

    def start(self) -> PageHinkleyState:
        """Nothing seen, both sums at zero."""
        return PageHinkleyState(count=0, mean=0.0, total=0.0, lowest=0.0, remaining=0)

    def step(self, state: PageHinkleyState, entropy: float) -> tuple[PageHinkleyState, Decision]:
        """Take one entropy (nats) into mean and sum, then test."""
        value = _checked(entropy)
        count = state.count + 1
        weight = self.ema if self.mean == "ema" and state.count else 1.0 / count
        mean = state.mean + weight * (value - state.mean)
        total = state.total + (value - mean - self.epsilon)
        lowest = min(state.lowest, total)
        statistic = total - lowest
        if state.remaining:
            remaining = state.remaining - 1
            return PageHinkleyState(count, mean, total, lowest, remaining), _burst(False, remaining, statistic)
        if count > self.warmup and statistic > self.threshold:
            remaining = self.burst - 1
            return PageHinkleyState(count, mean, 0.0, 0.0, remaining), _burst(True, remaining, statistic)
        return PageHinkleyState(count, mean, total, lowest, 0), _quiet(statistic)


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
class EntropyShift:
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
        value = _checked(entropy)
        if state.remaining:
            # Learning moves the entropy now: such a question says nothing about the domain, so it is not looked at.
            remaining = state.remaining - 1
            return _restarted(remaining), _burst(False, remaining, None)
        if state.fresh and self.opening:
            return _restarted(self.burst - 1), _burst(True, self.burst - 1, None)
        if state.count < self.warmup:
            return _observed(state, value, 0.0, 0.0), _quiet(None)
        distance = (value - state.mean) / _spread(state)
        up = max(0.0, state.up + distance - self.slack)
        down = max(0.0, state.down - distance - self.slack)
        statistic = max(up, down)
        if statistic > self.threshold:
            return _restarted(self.burst - 1), _burst(True, self.burst - 1, statistic)
        return _observed(state, value, up, down), _quiet(statistic)


def replay(gate: Gate, entropies: Iterable[float]) -> list[Decision]:
    """The decisions of a gate over a stream of entropies (nats), one per question, without any model.

    Raises:
        ParameterError: an entropy is negative or not finite.

    >>> [decision.in_burst for decision in replay(EntropyShift(burst=2), [1.0, 1.1, 1.0])]
    [True, True, False]
    """
    state, decisions = gate.start(), []
    for entropy in entropies:
        state, decision = gate.step(state, entropy)
        decisions.append(decision)
    return decisions


GATES: dict[GateName, Callable[..., Gate]] = {
    "always": Always,
    "never": Never,
    "page-hinkley": PageHinkley,
    "entropy-shift": EntropyShift,
}
"""Every gate under the name that recipes and the shell use; each takes its attributes as keyword arguments."""


def _burst(alarm: bool, remaining: int, statistic: float | None) -> Decision:
    return Decision(alarm=alarm, in_burst=True, remaining=remaining, statistic=statistic)


def _quiet(statistic: float | None) -> Decision:
    return Decision(alarm=False, in_burst=False, remaining=0, statistic=statistic)


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


def _checked(entropy: float) -> float:
    value = float(entropy)
    if not (math.isfinite(value) and value >= 0.0):
        raise ParameterError(f"an entropy must be 0 nats or more and finite, not {value}.")
    return value
