"""What a gate is, ours, the paper's, and the two that decide nothing.

    gate.start() -> state;   gate.step(state, entropy) -> (next state, Decision)

Gates watch the entropy of every reply (H_t, paper section "Adaptive Entropy Gating"), in nats.
Gates are frozen, states are frozen, steps are pure: `replay` of what was recorded gives the recorded decisions.
A parameter outside its range is a ParameterError. Bursts are counted alike everywhere: the question that fires is the
first member, `burst` questions belong to it in all, and the gate cannot fire before they are over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

from secl.errors import ParameterError, check_finite, check_whole
from secl.records import Decision

Restart = Literal["sums", "all"]
"""What begins anew at an alarm: the sums, or the mean too, as the setting `paper` has it."""


class Gate(Protocol):
    """The interface of a gate. The state is a frozen dataclass of plain numbers, private to its gate, or None."""

    __slots__ = ()

    def start(self) -> Any:
        """Return the state before the first question of a stream."""

    def step(self, state: Any, entropy: float) -> tuple[Any, Decision]:
        """Return the state after a reply with this entropy (nats), and the decision about it; changes nothing.

        Raises:
            ParameterError: the entropy is negative or not finite.
        """


def _in_burst(remaining: int, statistic: float | None, *, alarm: bool = False) -> Decision:
    """Return the decision about a question of a burst, with so many to come."""
    return Decision(alarm=alarm, in_burst=True, remaining=remaining, statistic=statistic)


def _quiet(statistic: float | None) -> Decision:
    return Decision(alarm=False, in_burst=False, remaining=0, statistic=statistic)


def _checked(entropy: float) -> float:
    value = float(entropy)
    if not (math.isfinite(value) and value >= 0.0):
        raise ParameterError(f"an entropy must be 0 nats or more and finite, not {value}.")
    return value


@dataclass(frozen=True, slots=True)
class Always(Gate):
    """Open for every question (the paper's "always-train"). It tests nothing, so it raises no alarm.

    >>> replay(Always(), [1.0])
    [Decision(alarm=False, in_burst=True, remaining=0, statistic=None)]
    """

    def start(self) -> None:
        """Return None: this gate has no state."""

    def step(self, state: None, entropy: float) -> tuple[None, Decision]:
        _checked(entropy)
        return state, _in_burst(0, None)


@dataclass(frozen=True, slots=True)
class Never(Gate):
    """Closed for every question: the frozen model, or an adapter that is only used."""

    def start(self) -> None:
        """Return None: this gate has no state."""

    def step(self, state: None, entropy: float) -> tuple[None, Decision]:
        _checked(entropy)
        return state, _quiet(None)


@dataclass(frozen=True, slots=True)
class EntropyShiftState:
    """Whether nothing has been seen yet; size, mean (nats) and summed squares of the reference; evidence for a rise and
    for a fall (spreads); burst questions to come."""

    fresh: bool
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    up: float = 0.0
    down: float = 0.0
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class EntropyShift(Gate):
    """The default gate: a two-sided cumulative sum of standardised entropies, for any model without tuning.

    Entropies are measured in spreads (standard deviations) from the mean of a reference: the first `warmup` questions
    after the start or after a burst, and every later one once it has been tested. Two sums collect the evidence,
    up = max(0, up + z - slack) and down = max(0, down - z - slack), and the larger one is the statistic. At an alarm
    everything restarts. Questions inside a burst are not looked at, because learning itself moves the entropy then.
    The spread is floored at a thousandth of the mean (and at 1e-6 nats), so a model whose entropy never varies opens
    the gate only for changes larger than that.

    Simulated at the defaults: a false alarm comes after 9,000 questions of normal noise on average (2,900 of gamma(4),
    970 of exponential noise), and a rise of 1 spread is seen after 15 questions (median; 31 at most in nine of ten),
    one of 2 spreads after 6 (8), one of 0.5 after 156, and often never (`tests/gates/test_gates.py`).

    Attributes:
        warmup: questions that make the first reference, at least 2; fewer is quicker to arm but the mean is then known
            poorly, which brings false alarms; more is blind for longer.
        slack: shift in spreads that is ignored; the best choice is half of the smallest shift that matters.
        threshold: evidence in spreads that fires; larger means fewer false alarms and a later one (a shift of d
            spreads: about threshold / (d - slack) questions). Skewed entropies need a larger one.
        burst: B, questions that learn after an alarm, the one that fires included; more of them cost and teach more.
        opening: whether the stream's start counts as a shift. Its first question then fires (with no statistic) and
            the reference is made after that burst; otherwise the gate waits for the first shift it sees.

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
        return EntropyShiftState(fresh=True)

    def step(self, state: EntropyShiftState, entropy: float) -> tuple[EntropyShiftState, Decision]:
        """Test one entropy (nats) against the reference without it, then take it in."""
        value = _checked(entropy)
        begun = EntropyShiftState(fresh=False, remaining=self.burst - 1)
        if state.remaining:
            # Learning moves the entropy now: such a question says nothing about the domain, so it is not looked at.
            remaining = state.remaining - 1
            return EntropyShiftState(fresh=False, remaining=remaining), _in_burst(remaining, None)
        if state.fresh and self.opening:
            return begun, _in_burst(begun.remaining, None, alarm=True)
        if state.count < self.warmup:
            return _observed(state, value, 0.0, 0.0), _quiet(None)
        distance = (value - state.mean) / _spread(state)
        up = max(0.0, state.up + distance - self.slack)
        down = max(0.0, state.down - distance - self.slack)
        statistic = max(up, down)
        if statistic > self.threshold:
            return begun, _in_burst(begun.remaining, statistic, alarm=True)
        return _observed(state, value, up, down), _quiet(statistic)


def _observed(state: EntropyShiftState, value: float, up: float, down: float) -> EntropyShiftState:
    """Return the reference with one more entropy in it (Welford's update)."""
    count = state.count + 1
    mean = state.mean + (value - state.mean) / count
    squares = state.squares + (value - state.mean) * (value - mean)
    return EntropyShiftState(False, count, mean, squares, up, down, 0)


def _spread(state: EntropyShiftState) -> float:
    """Standard deviation of the reference in nats, never zero."""
    return max(math.sqrt(state.squares / (state.count - 1)), 1e-3 * state.mean, 1e-6)


@dataclass(frozen=True, slots=True)
class PageHinkleyState:
    """Questions counted; the reference mean, m_t and the lowest m_s since the sums began (nats); burst questions to
    come; questions counted before the mean began."""

    count: int = 0
    mean: float = 0.0
    total: float = 0.0
    lowest: float = 0.0
    remaining: int = 0
    mean_from: int = 0


@dataclass(frozen=True, slots=True)
class PageHinkley(Gate):
    """The gate of the paper (Eq. ph): one-sided Page-Hinkley test on absolute entropies; sees rises, not falls.

    The sum m_t grows by H_t - mean_t - epsilon with every question, where mean_t already includes H_t. The alarm is
    m_t - min m_s > threshold over s <= t, with m_0 = 0 among them. At an alarm m and its minimum restart at 0.
    Questions of a burst count, so a rise that lasts fires again right after it. The statistic of a decision is
    m_t - min m_s, also while it cannot fire.

    docs/lab/decisions.md compares other readings of the paper. Thresholds in nats do not carry over from model to
    model: where entropies vary by 0.2 this gate may never open (`EntropyShift` needs no tuning).

    Attributes:
        ema: weight of the newest entropy in the mean, in (0, 1]; larger forgets the old domain sooner but also
            absorbs a shift before it is noticed. The mean starts at the first entropy.
        epsilon: rise in nats that is ignored; larger means fewer false alarms and blindness to smaller shifts.
        threshold: lambda, in nats; larger means fewer false alarms and a later one (shift of d nats: about
            threshold / (d - epsilon) questions, if the mean stood still).
        warmup: questions at the start of the stream that cannot fire; later alarms have no warm-up.
        burst: B, questions that learn after an alarm, the one that fires included.
        restart: what begins anew at an alarm: "sums", so that the mean goes on, or "all", the mean too.

    >>> decisions = replay(PageHinkley(threshold=1.0, warmup=3, burst=2), [1.0, 1.0, 1.0, 1.0, 2.5, 2.5])
    >>> [(d.alarm, d.in_burst, d.remaining, round(d.statistic, 3)) for d in decisions[3:]]
    [(False, False, 0, 0.0), (True, True, 1, 1.375), (False, True, 0, 1.304)]
    """

    ema: float = 0.05
    epsilon: float = 0.05
    threshold: float = 3.0
    warmup: int = 30
    burst: int = 50
    restart: Restart = "sums"

    def __post_init__(self) -> None:
        check_finite("gate's ema", self.ema, 0.0 < self.ema <= 1.0, "lie above 0 and not above 1")
        check_finite("gate's epsilon", self.epsilon, self.epsilon >= 0.0, "be 0 or more")
        check_finite("gate's threshold", self.threshold, self.threshold > 0.0, "be above 0")
        check_whole("gate's warmup", self.warmup, 0)
        check_whole("gate's burst", self.burst, 1)
        if self.restart not in get_args(Restart):
            raise ParameterError(f"a gate's restart is {' or '.join(get_args(Restart))}, not {self.restart!r}.")

    def start(self) -> PageHinkleyState:
        return PageHinkleyState()

    def step(self, state: PageHinkleyState, entropy: float) -> tuple[PageHinkleyState, Decision]:
        """Take one entropy (nats) into mean and sum, then test."""
        value = _checked(entropy)
        before = state.count - state.mean_from
        mean = state.mean + (self.ema if before else 1.0) * (value - state.mean)
        total = state.total + (value - mean - self.epsilon)
        count, remaining, lowest = state.count + 1, max(0, state.remaining - 1), min(state.lowest, total)
        counted = replace(state, count=count, mean=mean, total=total, lowest=lowest, remaining=remaining)
        statistic = total - lowest
        if state.remaining:
            return counted, _in_burst(remaining, statistic)
        if count > self.warmup and statistic > self.threshold:
            begun = replace(counted, total=0.0, lowest=0.0, remaining=self.burst - 1)
            if self.restart == "all":
                begun = replace(begun, mean_from=count, mean=0.0)
            return begun, _in_burst(self.burst - 1, statistic, alarm=True)
        return counted, _quiet(statistic)


def replay(gate: Gate, entropies: Iterable[float]) -> list[Decision]:
    """Return the decisions of a gate over the entropies of a stream (nats), one per question, without any model.

    >>> [decision.in_burst for decision in replay(EntropyShift(burst=2), [1.0, 1.1, 1.0])]
    [True, True, False]
    """
    state, decisions = gate.start(), []
    for entropy in entropies:
        state, decision = gate.step(state, entropy)
        decisions.append(decision)
    return decisions
