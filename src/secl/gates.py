"""When to learn: a gate watches the entropy of the replies, and opens for a burst of questions after a shift.

    gate.start() -> state;   gate.step(state, entropy) -> (next state, Decision)

Entropies are in nats (H_t, paper section "Adaptive Entropy Gating"). Gates and states are immutable, and steps are
pure: a `replay` of recorded entropies gives the recorded decisions. A parameter outside its range raises a
ParameterError. A burst has `burst` questions, and begins with the question that fires the gate. The gate cannot fire
again before the burst is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Literal, Protocol, get_args

from secl.errors import ParameterError, check_finite, check_whole
from secl.own import is_own, load_own
from secl.records import UNTESTED, Decision

Restart = Literal["sums", "all"]
"""What an alarm resets: "sums" keeps the mean, "all" also resets the mean (as with the setting `paper`)."""


class Gate(Protocol):
    """The interface of a gate. The state is None or a frozen dataclass of plain numbers, which only the gate reads."""

    __slots__ = ()

    def start(self) -> Any:
        """Return the state before the first question of a stream."""

    def step(self, state: Any, entropy: float) -> tuple[Any, Decision]:
        """Return the state after a reply with this entropy (nats), and the decision about the reply.

        Raises:
            ParameterError: the entropy is negative or not finite.
        """


def _check_entropy(entropy: float) -> float:
    value = float(entropy)
    if not (math.isfinite(value) and value >= 0.0):
        raise ParameterError(f"an entropy must be 0 nats or more and finite, not {value}.")
    return value


@dataclass(frozen=True, slots=True)
class Always(Gate):
    """Open for every question (the paper's "always-train"), without alarms.

    >>> replay(Always(), [1.0])
    [Decision(alarm=False, in_burst=True, remaining=0, statistic=None)]
    """

    def start(self) -> None:
        """Return None: this gate has no state."""

    def step(self, state: None, entropy: float) -> tuple[None, Decision]:
        _check_entropy(entropy)
        return state, Decision(in_burst=True)


@dataclass(frozen=True, slots=True)
class Never(Gate):
    """Closed for every question, for the frozen model or an adapter that no longer learns."""

    def start(self) -> None:
        """Return None: this gate has no state."""

    def step(self, state: None, entropy: float) -> tuple[None, Decision]:
        _check_entropy(entropy)
        return state, UNTESTED


@dataclass(frozen=True, slots=True)
class EntropyShiftState:
    """State of `EntropyShift`, which explains reference, spreads and sums.

    Attributes:
        fresh: whether the stream has just begun.
        count, mean, squares: size of the reference, its mean (nats), and the sum of squared distances from the mean.
        up, down: the two sums, which collect evidence for a rise and for a fall, in spreads.
        remaining: questions left in the burst.
    """

    fresh: bool
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    up: float = 0.0
    down: float = 0.0
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class EntropyShift(Gate):
    """The default gate, without tuning: a two-sided cumulative-sum (CUSUM) test of standardised entropies.

    z is (entropy - mean) / spread, with mean and standard deviation (spread) of earlier entropies: the reference. The
    first `warmup` entropies after the start or after a burst form the reference. Each later entropy is tested, and then
    joins the reference. Two sums collect evidence: up = max(0, up + z - slack) and down = max(0, down - z - slack). The
    larger sum is the statistic. An alarm resets reference and sums. The gate ignores entropies inside a burst, because
    learning moves these entropies. For models with constant entropy, the spread has a lower bound: 1e-6 nats or a
    thousandth of the mean, whichever is larger.

    Simulations with the defaults (`tests/gates/test_gates.py`):

        noise without a shift   mean questions before a false alarm: normal 9,000, gamma(4) 2,900, exponential 970
        rise of 2 spreads       alarm after 6 questions (median), 8 (90th percentile)
        rise of 1 spread        alarm after 15 questions (median), 31 (90th percentile)
        rise of 0.5 spreads     alarm after 156 questions (median), often no alarm

    Attributes:
        warmup: number of entropies that form a reference, at least 2. A smaller number makes the mean uncertain, which
            causes false alarms. A larger number delays the first test.
        slack: shift that the gate ignores, in spreads; best is half of the smallest shift that matters.
        threshold: statistic above which the gate fires. A larger threshold causes fewer false alarms and later alarms:
            a shift of d spreads takes about threshold / (d - slack) questions. Skewed entropies need a larger
            threshold.
        burst: B, number of questions in a burst, including the question that fires the gate.
        opening: whether the first question of the stream fires the gate, without a statistic. The first reference then
            begins after this burst.

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
        """Test an entropy (nats) against the reference, then add the entropy to the reference."""
        value = _check_entropy(entropy)
        begun = EntropyShiftState(fresh=False, remaining=self.burst - 1)
        if state.remaining:
            left = state.remaining - 1  # the gate ignores this entropy, because learning moves entropies
            return EntropyShiftState(fresh=False, remaining=left), Decision(in_burst=True, remaining=left)
        if state.fresh and self.opening:
            return begun, Decision(alarm=True, in_burst=True, remaining=begun.remaining)
        if state.count < self.warmup:
            return _observed(state, value, 0.0, 0.0), UNTESTED
        spread = max(math.sqrt(state.squares / (state.count - 1)), 1e-3 * state.mean, 1e-6)
        distance = (value - state.mean) / spread
        up = max(0.0, state.up + distance - self.slack)
        down = max(0.0, state.down - distance - self.slack)
        statistic = max(up, down)
        if statistic > self.threshold:
            return begun, Decision(alarm=True, in_burst=True, remaining=begun.remaining, statistic=statistic)
        return _observed(state, value, up, down), Decision(statistic=statistic)


def _observed(state: EntropyShiftState, value: float, up: float, down: float) -> EntropyShiftState:
    """Return the state after adding an entropy to the reference (Welford's update)."""
    count = state.count + 1
    mean = state.mean + (value - state.mean) / count
    squares = state.squares + (value - state.mean) * (value - mean)
    return EntropyShiftState(False, count, mean, squares, up, down, 0)


@dataclass(frozen=True, slots=True)
class PageHinkleyState:
    """State of `PageHinkley`; numbers in nats.

    Attributes:
        count: number of questions.
        mean: moving mean of the entropies after question number `mean_from`.
        total, lowest: m_t, and the lowest m_s since the last alarm.
        remaining: questions left in the burst.
    """

    count: int = 0
    mean: float = 0.0
    total: float = 0.0
    lowest: float = 0.0
    remaining: int = 0
    mean_from: int = 0


@dataclass(frozen=True, slots=True)
class PageHinkley(Gate):
    """The gate of the paper (Eq. ph): a one-sided Page-Hinkley test on absolute entropies, which sees rises, not falls.

    The sum m_t grows by H_t - mean_t - epsilon with every question, where mean_t already includes H_t. The statistic is
    m_t - min m_s over s <= t, with m_0 = 0, and the gate fires above the threshold. An alarm resets m and its minimum
    to 0. Questions inside a burst count, too, so a lasting rise fires again right after the burst.

    docs/lab/decisions.md compares other interpretations of the paper. A threshold in nats suits only one model: if
    entropies vary by 0.2 nats, this gate may never open. `EntropyShift` needs no tuning.

    Attributes:
        ema: weight of the newest entropy in the mean, in (0, 1]. With a larger weight, the mean forgets the old domain
            sooner, but may follow a shift before the gate fires. The mean starts at the first entropy.
        epsilon: rise that the gate ignores, in nats. A larger value causes fewer false alarms and misses small shifts.
        threshold: lambda, in nats. A larger threshold causes fewer false alarms and later alarms: a shift of d nats
            takes about threshold / (d - epsilon) questions, if the mean stays constant.
        warmup: number of first questions, which cannot fire the gate.
        burst: B, number of questions in a burst, including the question that fires the gate.
        restart: what an alarm resets (`Restart`).

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
        check_finite("gate's ema", self.ema, 0.0 < self.ema <= 1.0, "lie in (0, 1]")
        check_finite("gate's epsilon", self.epsilon, self.epsilon >= 0.0, "be 0 or more")
        check_finite("gate's threshold", self.threshold, self.threshold > 0.0, "be above 0")
        check_whole("gate's warmup", self.warmup, 0)
        check_whole("gate's burst", self.burst, 1)
        if self.restart not in get_args(Restart):
            raise ParameterError(f"a gate's restart is {' or '.join(get_args(Restart))}, not {self.restart!r}.")

    def start(self) -> PageHinkleyState:
        return PageHinkleyState()

    def step(self, state: PageHinkleyState, entropy: float) -> tuple[PageHinkleyState, Decision]:
        """Add one entropy (nats) to mean and sum, then test."""
        value = _check_entropy(entropy)
        before = state.count - state.mean_from
        mean = state.mean + (self.ema if before else 1.0) * (value - state.mean)
        total = state.total + (value - mean - self.epsilon)
        count, remaining, lowest = state.count + 1, max(0, state.remaining - 1), min(state.lowest, total)
        counted = replace(state, count=count, mean=mean, total=total, lowest=lowest, remaining=remaining)
        statistic = total - lowest
        if state.remaining:
            return counted, Decision(in_burst=True, remaining=remaining, statistic=statistic)
        if count > self.warmup and statistic > self.threshold:
            begun = replace(counted, total=0.0, lowest=0.0, remaining=self.burst - 1)
            if self.restart == "all":
                begun = replace(begun, mean_from=count, mean=0.0)
            return begun, Decision(alarm=True, in_burst=True, remaining=begun.remaining, statistic=statistic)
        return counted, Decision(statistic=statistic)


def replay(gate: Gate, entropies: Iterable[float]) -> list[Decision]:
    """Return a gate's decision about each entropy (nats) of a stream.

    >>> [decision.in_burst for decision in replay(EntropyShift(burst=2), [1.0, 1.1, 1.0])]
    [True, True, False]
    """
    state, decisions = gate.start(), []
    for entropy in entropies:
        state, decision = gate.step(state, entropy)
        decisions.append(decision)
    return decisions


GATES: dict[str, Callable[..., Gate]] = {
    "always": Always,
    "never": Never,
    "page-hinkley": PageHinkley,
    "entropy-shift": EntropyShift,
}
"""The class of each gate by name; its arguments are the gate's parameters."""


def gate_class(name: str) -> Callable[..., Gate]:
    """Return the class of a gate in `GATES`, or a class in a Python file ("FILE.py:CLASS"), which secl executes.

    Raises:
        ParameterError: an unknown name, a file that cannot be executed, or a class that is not a gate.
    """
    if name in GATES:
        return GATES[name]
    if not is_own(name):
        raise ParameterError(f"there is no gate {name!r}; take {', '.join(GATES)}, or FILE.py:CLASS for your own.")
    own: Any = load_own(name, "gate")
    try:
        state, decision = own().step(own().start(), 1.0)
    except Exception as problem:  # a user's file may raise anything
        raise ParameterError(f"the gate {name!r} cannot be loaded: {type(problem).__name__}: {problem}.") from problem
    if not ((state is None or is_dataclass(state)) and isinstance(decision, Decision)):
        raise ParameterError(
            f"the gate {name!r}: step() must return a state (a frozen dataclass of numbers, or None) and a Decision."
        )
    gate: Callable[..., Gate] = own
    return gate
