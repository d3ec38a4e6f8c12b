"""The gate of the paper: Page-Hinkley on entropies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from secl.errors import ParameterError, check_finite, check_whole
from secl.gates.base import Gate, checked, in_burst, quiet
from secl.records import Decision
from secl.settings import Restart


@dataclass(frozen=True, slots=True)
class PageHinkleyState:
    """What the test remembers, in nats where it is no number of questions.

    Attributes:
        count: questions counted.
        mean: the reference mean.
        total: m_t.
        lowest: lowest m_s since the sums began.
        remaining: burst questions to come.
        mean_from: questions counted before the mean began.
    """

    count: int
    mean: float
    total: float
    lowest: float
    remaining: int
    mean_from: int = 0


@dataclass(frozen=True, slots=True)
class PageHinkley(Gate):
    """The gate of the paper (Eq. ph): one-sided Page-Hinkley test on absolute entropies; sees rises, not falls.

    The sum m_t grows by H_t - mean_t - epsilon with every question, where mean_t already includes H_t. The alarm is
    m_t - min m_s > threshold over s <= t, with m_0 = 0 among them. At an alarm m and its minimum restart at 0.
    Questions of a burst count, so a rise that lasts fires again right after it. The statistic of a decision is
    m_t - min m_s, also while it cannot fire.

    The paper can be read in other ways, too; docs/decisions.md says what they do.

    Thresholds in nats do not carry over from model to model: where entropies vary by 0.2 this gate may never open. Use
    `EntropyShift` for a model nobody has tuned a threshold for.

    Attributes:
        ema: weight of the newest entropy in the mean, in (0, 1]; larger forgets the old domain sooner but also
            absorbs a shift before it is noticed. The mean starts at the first entropy.
        epsilon: rise in nats that is ignored; larger means fewer false alarms and blindness to smaller shifts.
        threshold: lambda, in nats; larger means fewer false alarms and a later one (shift of d nats: about
            threshold / (d - epsilon) questions, if the mean stood still).
        warmup: questions at the start of the stream that cannot fire; later alarms have no warm-up.
        burst: B, questions that learn after an alarm, the one that fires included.
        restart: what begins anew at an alarm: "sums", so that the mean goes on, or "all", the mean too.

    Raises:
        ParameterError: a parameter outside these ranges.

    >>> from secl.gates import replay
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
        """Nothing seen, both sums at zero."""
        return PageHinkleyState(count=0, mean=0.0, total=0.0, lowest=0.0, remaining=0)

    def step(self, state: PageHinkleyState, entropy: float) -> tuple[PageHinkleyState, Decision]:
        """Take one entropy (nats) into mean and sum, then test."""
        value = checked(entropy)
        before = state.count - state.mean_from
        mean = state.mean + (self.ema if before else 1.0) * (value - state.mean)
        total = state.total + value - mean - self.epsilon
        counted = PageHinkleyState(
            count=state.count + 1,
            mean=mean,
            total=total,
            lowest=min(state.lowest, total),
            remaining=max(0, state.remaining - 1),
            mean_from=state.mean_from,
        )
        statistic = total - counted.lowest
        if state.remaining:
            return counted, in_burst(False, counted.remaining, statistic)
        if counted.count > self.warmup and statistic > self.threshold:
            return self._restarted(counted), in_burst(True, self.burst - 1, statistic)
        return counted, quiet(statistic)

    def _restarted(self, state: PageHinkleyState) -> PageHinkleyState:
        """The state after an alarm."""
        begun = replace(state, total=0.0, lowest=0.0, remaining=self.burst - 1)
        return begun if self.restart == "sums" else replace(begun, mean_from=state.count, mean=0.0)
