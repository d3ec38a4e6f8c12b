"""The gate of the paper: Page-Hinkley on entropies."""

from __future__ import annotations

from dataclasses import dataclass

from secl.errors import ParameterError
from secl.gates.base import Gate, checked, in_burst, quiet
from secl.records import Decision
from secl.settings import Mean
from secl.validation import check_finite, check_whole


@dataclass(frozen=True, slots=True)
class PageHinkleyState:
    """Number of questions; mean, m_t and its lowest value since the last restart, in nats; burst questions to come."""

    count: int
    mean: float
    total: float
    lowest: float
    remaining: int


@dataclass(frozen=True, slots=True)
class PageHinkley(Gate):
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
        value = checked(entropy)
        count = state.count + 1
        weight = self.ema if self.mean == "ema" and state.count else 1.0 / count
        mean = state.mean + weight * (value - state.mean)
        total = state.total + (value - mean - self.epsilon)
        lowest = min(state.lowest, total)
        statistic = total - lowest
        if state.remaining:
            remaining = state.remaining - 1
            return PageHinkleyState(count, mean, total, lowest, remaining), in_burst(False, remaining, statistic)
        if count > self.warmup and statistic > self.threshold:
            remaining = self.burst - 1
            return PageHinkleyState(count, mean, 0.0, 0.0, remaining), in_burst(True, remaining, statistic)
        return PageHinkleyState(count, mean, total, lowest, 0), quiet(statistic)
