"""A gate for what learning is about: the distance between the confidence that is reported and the training signal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from secl.errors import ParameterError
from secl.gates.base import Gate, checked, in_burst, quiet
from secl.records import Decision, Record
from secl.settings import Against
from secl.validation import check_finite, check_whole

BETS = (0.2, 0.5, 0.9)
"""Shares that the e-detector stakes on a rise, and again on a fall: small shares find small changes."""

CLIP = 0.5
"""Largest deviation of one gap from the reference that counts."""


@dataclass(frozen=True, slots=True)
class GapShiftState:
    """Questions so far, and outside bursts since the latest one; number and mean of the gaps of the reference; evidence
    for a rise and for a fall, by bet; burst questions to come; whether the gap of the latest question is awaited."""

    position: int = 0
    age: int = 0
    count: int = 0
    mean: float = 0.0
    rise: tuple[float, ...] = (0.0,) * len(BETS)
    fall: tuple[float, ...] = (0.0,) * len(BETS)
    remaining: int = 0
    probed: bool = False


@dataclass(frozen=True, slots=True)
class GapShift(Gate):
    """Opens when the reported confidence drifts from the training signal, on questions that are probed at random.

    The gap g of a question is its reported confidence minus its signal; entropies are not looked at. Where the last fit
    still holds, the gap varies around the mean that it had after that fit, whatever the domain and however uncertain
    the replies. Held against zero instead, it opens until the fit is good, and not only where a fit gets worse. The
    signal costs a pass, so outside bursts it is gathered for a random share of the questions alone; which ones depends
    on `seed` and position only, so that a resumed run probes the same ones.

    The test is a two-sided Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo, arXiv 2203.03532). With the deviation
    r = clip(g - reference, -0.5, 0.5), each bet b of 0.2, 0.5 and 0.9 collects evidence for a rise,
    U <- (U + 1) (1 + b (r - epsilon) / (0.5 + epsilon)), and likewise for a fall with -r; the statistic is the mean of
    the six, and the question after the one at which it exceeds the threshold fires. A decision's statistic is the one
    before its own gap.

    Guarantee: as long as the expected deviation, given all that came before, lies within epsilon of 0, the expected
    number of probes to a false alarm is at least `threshold`, for gaps of any distribution: the statistic minus the
    number of probes is then a supermartingale (optional stopping). That asks for a reference within epsilon of the
    truth. Against the fit it has to be estimated: it is the mean of all gaps since the latest burst (or the stream's
    start), each of which is tested first; the first `warmup` questions, all of them probed, are not tested. Gaps inside
    bursts are left out, because learning moves them. Against zero there is nothing to estimate and no warm-up: the
    guarantee then speaks of a confidence that lies within epsilon of the signal on average.

    Simulated with warm-up 30, for gaps of three shapes: normal with two standard deviations, and 0.4 or -0.4 like a
    coin. The share of streams with a false alarm within 1,000 probes is that of a known reference (a reference fixed
    after 30 gaps brings 51 % instead of 7 %). The price is the delay of a rise of 0.2 (probes, median / 90th
    percentile, "never": over 300) that comes soon after the burst, when the reference takes it in:

        threshold | shape      | false alarms | after 20     50             100           300 tested probes
           200    | normal .25 |     7 %      | 40 / never   31 / 74        28 / 55       25 / 44
           200    | normal .15 |     0 %      | 28 / 48      24 / 35        22 / 31       21 / 28
           200    | two-point  |    54 %      | 114 / never  70 / never     59 / 175      49 / 119
          1,000   | normal .25 |   0.2 %      | never        61 / never     48 / 128      41 / 70
          1,000   | normal .15 |     0 %      | 49 / never   38 / 60        34 / 48       31 / 40
          1,000   | two-point  |     6 %      | never        never          167 / never   99 / 289

    Attributes:
        probe_rate: share of the questions outside bursts that are probed, in (0, 1]; delays in questions are those in
            probes over it.
        epsilon: change of the gap that is ignored, in [0, 0.5).
        threshold: least expected number of probes to a false alarm; larger means fewer of them and a later alarm.
        against: "fit", the mean gap since the latest burst, or "zero", no gap at all.
        warmup: questions that make the first reference, at least 1, all of them probed; without effect against zero.
        burst: B, questions that learn after an alarm, the one that fires included.
        opening: whether the stream's start opens a burst; otherwise the first reference is made there.
        seed: with the position it decides which questions are probed.

    Raises:
        ParameterError: a parameter outside these ranges.

    >>> from secl.gates import replay
    >>> gate = GapShift(probe_rate=1.0, threshold=3.0, warmup=4, burst=2, opening=False)
    >>> decisions = replay(gate, [1.0] * 9, gaps=[0.1] * 5 + [0.6] * 4)
    >>> [(d.alarm, None if d.statistic is None else round(d.statistic, 2)) for d in decisions[3:]]
    [(False, None), (False, 0.0), (False, 0.95), (False, 1.86), (True, 3.21), (False, None)]
    """

    probe_rate: float = 0.25
    epsilon: float = 0.05
    threshold: float = 200.0
    against: Against = "fit"
    warmup: int = 30
    burst: int = 50
    opening: bool = True
    seed: int = 42

    watches_gap: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_finite("gate's probe_rate", self.probe_rate, 0.0 < self.probe_rate <= 1.0, "lie above 0 and not above 1")
        check_finite("gate's epsilon", self.epsilon, 0.0 <= self.epsilon < CLIP, f"be 0 or more and below {CLIP}")
        check_finite("gate's threshold", self.threshold, self.threshold > 0.0, "be above 0")
        if self.against not in get_args(Against):
            raise ParameterError(f"a gap is held against 'fit' or 'zero', not {self.against!r}.")
        check_whole("gate's warmup", self.warmup, 1)
        check_whole("gate's burst", self.burst, 1)

    def start(self) -> GapShiftState:
        """No reference yet."""
        return GapShiftState()

    def step(self, state: GapShiftState, entropy: float) -> tuple[GapShiftState, Decision]:
        """Fire if the gaps so far say so; the entropy is not looked at."""
        checked(entropy)
        position = state.position + 1
        if state.remaining:
            remaining = state.remaining - 1
            return GapShiftState(position=position, remaining=remaining), in_burst(False, remaining, None)
        statistic = None
        if self._has_reference(state, state.age):
            statistic = sum(state.rise + state.fall) / (2 * len(BETS))
        if (self.opening and not state.position) or (statistic is not None and statistic > self.threshold):
            remaining = self.burst - 1
            return GapShiftState(position=position, remaining=remaining), in_burst(True, remaining, statistic)
        return replace(state, position=position, age=state.age + 1, probed=self.probes(state)), quiet(statistic)

    def probes(self, state: GapShiftState) -> bool:
        """All questions that make the reference, then a random share; inside bursts there is nothing to probe."""
        if state.remaining:
            return False
        return (self.against == "fit" and state.age < self.warmup) or _unit(self.seed, state.position) < self.probe_rate

    def observe(self, state: GapShiftState, gap: float) -> GapShiftState:
        """Test the gap of the latest question against the reference without it, then take it in, if it was probed."""
        value = float(gap)
        check_finite("gap", value, -1.0 <= value <= 1.0, "lie between -1 and 1")
        if not state.probed:
            return state
        rise, fall = state.rise, state.fall
        if self._has_reference(state, state.age - 1):
            reference = state.mean if self.against == "fit" else 0.0
            deviation = max(-CLIP, min(value - reference, CLIP))
            rise, fall = self._collected(rise, deviation), self._collected(fall, -deviation)
        count = state.count + 1
        mean = state.mean + (value - state.mean) / count
        return replace(state, count=count, mean=mean, rise=rise, fall=fall, probed=False)

    def _has_reference(self, state: GapShiftState, age: int) -> bool:
        """Whether there is something to test the gap of the question of this age against."""
        return self.against == "zero" or (age >= self.warmup and state.count > 0)

    def _collected(self, evidence: tuple[float, ...], deviation: float) -> tuple[float, ...]:
        """The evidence of all bets after one more deviation in their direction."""
        gain = (deviation - self.epsilon) / (CLIP + self.epsilon)
        return tuple((sum_ + 1.0) * (1.0 + bet * gain) for sum_, bet in zip(evidence, BETS, strict=True))


def gap_of(record: Record) -> float | None:
    """Reported confidence minus training signal; None without a signal."""
    return None if record.signal is None else record.reply.confidence - record.signal


def _unit(seed: int, position: int) -> float:
    """A number in [0, 1) that looks random and depends on these two alone."""
    return int.from_bytes(hashlib.sha256(f"probe/{seed}/{position}".encode()).digest()[:6], "big") / 2**48
