"""Risk control: thresholds that keep the share of wrong accepted answers below a given risk, guaranteed by labels.

Answers are accepted from a threshold of the confidence upwards. Coverage is the share of accepted answers. Risk is the
share of wrong answers among the accepted answers. With k wrong answers among n accepted labelled ones, "the risk is
above r" is rejected at level delta if P(Binomial(n, r) <= k) <= delta, which means that the Clopper-Pearson upper bound
is at most r.

Thresholds are tested in a fixed order (Learn then Test, Angelopoulos et al. 2021, arXiv 2110.01052): from the strictest
one down, each at level delta, until the first failure. Then with probability 1 - delta no passed threshold has a risk
above r, however bad the confidences are. The labels must be a random sample of the answers, drawn independently of
their content, and later answers must be exchangeable with the present answers.

Labels of one unit, such as a document or a repeated question, may be right or wrong together. So k and n are scaled to
the number of independent labels that the labels are worth (`secl.metrics.sampling.effective_sizes`).

The test above holds for one look. A user who looks again after every few labels gets more false guarantees. The anytime
test holds however often the user looks: it rejects "the risk is above r" once the likelihood ratio of a mixture of all
risks below r, with uniform weights, against r reaches 1 / delta (Robbins 1970; Ville's inequality). Its thresholds must
be tested in an order that does not depend on the number of labels, so it has two sequences, each at level delta / 2:
one from a coverage of a quarter, one of all answers alone.

Labels must not change the order of the tests, but people compare thresholds with confidences that labels calibrated.
So the curve is in confidences before labels, and `Threshold` also has the values on the scales that people see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from secl.errors import check_finite
from secl.metrics.probability import Vector, graded
from secl.metrics.sampling import effective_sizes

COVERAGE_STEP = 0.02
"""Minimum difference in coverage between successive tested thresholds; the last may be closer."""

FIRST_TEST_PART, MOST_IN_FIRST_TEST = 5, 100
"""The first test has a fifth of the labels, at most 100, so that one unlucky label cannot end the test sequence.

The first test has more labels if a guarantee needs more."""

ANYTIME_STARTS = (0.25, 1.0)
"""Coverages at which the sequences of the anytime test begin."""

MOST_NEEDED, MOST_SEARCHED = 10**6, 10**12
"""Maximum result of `labels_needed`, and maximum number of labels that its search tries."""

RISK_STEP = 0.01
"""Difference between two risks that `nearest_risk` tries."""

Scale = Callable[[float], float]
"""Increasing function from a confidence of the curve to the confidence that people see."""

PLAIN: Mapping[str | None, Scale] = {None: float}
"""The scale of answers without labels: people see the confidence of the curve."""

ABOVE_ALL = math.nextafter(1.0, 2.0)
"""Threshold that no confidence reaches."""

LEAST_RISK = 1e-9
"""Smallest valid risk; even without a wrong answer, a guarantee with certainty 0.9 takes 2.3 billion labels."""


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """For each distinct confidence as the threshold, the accepted answers in numbers.

    All arrays have the same length, and begin with the highest confidence.

    Attributes:
        confidence: lowest accepted confidence.
        coverage: share of all answers, in (0, 1].
        labels, wrong: number of labelled answers among the accepted answers, and of wrong answers among these.
        worth: number of independent labels that the labels are worth; `labels` if no two labels are of one unit.
        expected: risk by the confidences alone, the mean of 1 - confidence over the accepted answers.
        answers: number of all answers, with and without a label.
        scales: scale of each domain that has its own; None is the key of the scale of all other domains.
    """

    confidence: Vector
    coverage: Vector
    labels: npt.NDArray[np.intp]
    wrong: npt.NDArray[np.intp]
    worth: Vector
    expected: Vector
    answers: int
    scales: Mapping[str | None, Scale] = field(default_factory=lambda: PLAIN)

    @property
    def total(self) -> int:
        """Number of all labels of readable answers."""
        return int(self.labels[-1]) if self.labels.size else 0

    @property
    def total_worth(self) -> float:
        """Number of independent labels that all labels of readable answers are worth."""
        return float(self.worth[-1]) if self.worth.size else 0.0

    @property
    def risk(self) -> Vector:
        """Share of wrong answers among accepted labelled ones; nan without labels."""
        share: Vector = np.full(len(self.labels), math.nan)
        np.divide(self.wrong, self.labels, out=share, where=self.labels > 0)
        return share


@dataclass(frozen=True, slots=True)
class Threshold:
    """A confidence from which answers are accepted; other attributes as in `RiskCoverage`.

    Attributes:
        value: shortest decimal that separates accepted from rejected answers on the scale that people see; 0 accepts
            all readable answers.
        domains: the same for each domain with a scale of its own.
        uncalibrated: this threshold before labels. All domains share it.
    """

    value: float
    domains: Mapping[str, float]
    uncalibrated: float
    coverage: float
    labels: int
    wrong: int
    worth: float
    expected: float

    def bound(self, certainty: float, *, anytime: bool = False) -> float:
        """Return the upper bound of the risk by the labels, at a certainty in (0, 1)."""
        scale = self.worth / self.labels if self.labels else 1.0
        return float(risk_bound(self.wrong * scale, self.worth, certainty, anytime=anytime))


def risk_coverage(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    probability: npt.ArrayLike | None = None,
    scales: Mapping[str | None, Scale] = PLAIN,
    unit: npt.ArrayLike | None = None,
) -> RiskCoverage:
    """Return the risk-coverage curve of n answers.

    Args:
        confidence: gives the order of the answers; nan for an unreadable answer, which no threshold accepts.
        correct: 1 or 0, nan without a label.
        probability: the confidence that people see, for `RiskCoverage.expected`; by default `confidence`.
        scales: as in `RiskCoverage`.
        unit: number of the unit of each answer, such as its document; by default, each answer is a unit.
    """
    readable, labelled = (~np.isnan(np.asarray(each, np.float64)) for each in (confidence, correct))
    confidences, grades = graded(np.where(readable, confidence, 0.0), np.where(labelled, correct, 0.0))
    answers, seen = confidences.size, confidences if probability is None else np.asarray(probability, np.float64)
    confidences, grades, seen, labelled = confidences[readable], grades[readable], seen[readable], labelled[readable]
    distinct, index = np.unique(-confidences, return_inverse=True)
    sizes = np.cumsum(np.bincount(index, minlength=distinct.size))
    units = np.flatnonzero(readable) if unit is None else np.asarray(unit)[readable]
    strictest_first = np.argsort(index[labelled], kind="stable")
    worth = np.concatenate(([0.0], effective_sizes(units[labelled][strictest_first])))

    def summed(weights: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        return np.cumsum(np.bincount(index[weights], minlength=distinct.size))

    return RiskCoverage(
        confidence=-distinct,
        coverage=sizes / max(1, answers),
        labels=summed(labelled),
        wrong=summed(labelled & (grades == 0)),
        worth=worth[summed(labelled)],
        expected=np.cumsum(np.bincount(index, 1 - seen, distinct.size)) / np.maximum(sizes, 1),
        answers=answers,
        scales=scales,
    )


def risk_bound(wrong: npt.ArrayLike, labels: npt.ArrayLike, certainty: float, *, anytime: bool = False) -> Vector:
    """Return the upper bound of a risk, at a certainty in (0, 1); 1 without labels.

    The bound is that of Clopper and Pearson (1934), or the risk from which on the anytime test rejects.
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(wrong, np.float64), np.asarray(labels, np.float64))
    some = k < n
    if not anytime:
        bound: Vector = np.where(some, betaincinv(k + 1, np.where(some, n - k, 1), certainty), 1.0)
        return bound
    low, high = np.where(some, k / np.maximum(n, 1e-300), 1.0), np.ones(k.shape)
    for _ in range(50):
        middle = (low + high) / 2
        rejected = _rejects(k, n, middle, certainty, anytime=True)
        low, high = np.where(rejected, low, middle), np.where(rejected, middle, high)
    return high


def _rejects(k: Vector, n: Vector, risk: npt.ArrayLike, certainty: float, *, anytime: bool) -> npt.NDArray[np.bool_]:
    """Return whether k wrong answers among n labelled ones reject that the risk is at least `risk`."""
    from scipy.special import betainc, betaln

    if not anytime:
        rejected: npt.NDArray[np.bool_] = risk_bound(k, n, certainty) <= np.asarray(risk, np.float64)
        return rejected
    r, more = np.clip(risk, 1e-300, 1 - 1e-16), np.maximum(n - k, 0.0)
    mixture = betaln(k + 1, more + 1) + np.log(np.maximum(betainc(k + 1, more + 1, r), 1e-300)) - np.log(r)
    ratio = mixture - k * np.log(r) - more * np.log1p(-r)
    needed = math.log(len(ANYTIME_STARTS)) - math.log1p(-certainty)
    decided: npt.NDArray[np.bool_] = (k < r * n) & (ratio >= needed)
    return decided


def fewest_labels(risk: float, certainty: float, *, anytime: bool = False) -> int:
    """Return the smallest number of accepted labelled answers that guarantees a risk if all of them are right."""
    check_level(risk, certainty)
    if anytime:
        return _fewest_with_errors(0.0, risk, certainty, anytime=True)
    return math.ceil(round(math.log1p(-certainty) / math.log1p(-risk), 9))  # (1 - risk)^n <= 1 - certainty


def most_wrong(labels: int, risk: float, certainty: float, *, anytime: bool = False) -> int:
    """Return how many of `labels` accepted answers may be wrong if these labels are to guarantee a risk.

    -1 means that the labels are too few even if all answers are right.

    >>> most_wrong(22, 0.1, 0.9), most_wrong(21, 0.1, 0.9), most_wrong(100, 0.1, 0.9)
    (0, -1, 5)
    """
    counts = np.arange(labels + 1.0)
    return (
        int(np.count_nonzero(_rejects(counts, np.full(labels + 1, float(labels)), risk, certainty, anytime=anytime)))
        - 1
    )


def _fewest_with_errors(share: float, risk: float, certainty: float, *, anytime: bool) -> int:
    """Return the smallest number of accepted labelled answers that guarantees a risk if a `share` of them is wrong."""

    def holds(labels: int) -> bool:
        wrong = np.array(math.ceil(share * labels), np.float64)
        return bool(_rejects(wrong, np.array(labels, np.float64), risk, certainty, anytime=anytime))

    low, high = 0, 1 if anytime else fewest_labels(risk, certainty)
    while not holds(high) and high < MOST_SEARCHED:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def guaranteed(curve: RiskCoverage, risk: float, certainty: float, *, anytime: bool = False) -> Threshold | None:
    """Return the threshold of the largest coverage with at most this risk at this certainty; None if every test fails.

    Tested thresholds and their order depend on the confidences of all answers and on the number of labels, not on which
    answers have labels. The first tested threshold is the strictest at which the expected number of labels suffices.
    """
    passed = [np.zeros(0, np.intp)]
    for tested in _sequences(curve, risk, certainty, anytime=anytime):
        scale = curve.worth[tested] / np.maximum(curve.labels[tested], 1)
        rejected = _rejects(curve.wrong[tested] * scale, curve.worth[tested], risk, certainty, anytime=anytime)
        passed.append(tested if rejected.all() else tested[: int(np.argmin(rejected))])
    return _last(curve, np.unique(np.concatenate(passed)))


def strictest(curve: RiskCoverage, risk: float, certainty: float, *, anytime: bool = False) -> Threshold | None:
    """Return the first threshold that `guaranteed` tests; None if the labels are too few even when all are right."""
    sequences = _sequences(curve, risk, certainty, anytime=anytime)
    return threshold_at(curve, int(sequences[0][0])) if sequences else None


def _sequences(curve: RiskCoverage, risk: float, certainty: float, *, anytime: bool) -> list[npt.NDArray[np.intp]]:
    """Return sequences of thresholds to test, as indices; empty if labels are too few even when all are right."""
    labels, fewest = curve.total_worth, fewest_labels(risk, certainty, anytime=anytime)
    if labels < fewest:
        return []
    coverage = curve.coverage / curve.coverage[-1]  # of the readable answers, to which all labels belong
    if anytime:
        return [_steps(coverage, int(np.searchsorted(coverage, start - 1e-9))) for start in ANYTIME_STARTS]
    first = max(fewest, min(labels // FIRST_TEST_PART, MOST_IN_FIRST_TEST))
    expected = labels * coverage
    # Standard deviation of the number of accepted labels, drawn without replacement; 0 if all answers have labels.
    spread = np.sqrt(expected * (1 - coverage) * (1 - curve.total / (curve.answers * curve.coverage[-1])).clip(0))
    enough = expected - 2 * spread >= first - 1e-9
    # At full coverage, all labels count and the standard deviation is 0, so `enough` is true except for rounding.
    return [_steps(coverage, int(np.argmax(enough)) if enough.any() else len(enough) - 1)]


def _steps(coverage: Vector, start: int) -> npt.NDArray[np.intp]:
    """Return indices from `start` to the last, in steps of at least `COVERAGE_STEP`."""
    last = len(coverage) - 1
    tested = [min(start, last)]
    while tested[-1] < last:
        following = int(np.searchsorted(coverage, coverage[tested[-1]] + COVERAGE_STEP - 1e-9))
        tested.append(min(following, last))
    return np.array(tested)


def nearest_risk(curve: RiskCoverage, certainty: float, above: float = 0.0, *, anytime: bool = False) -> float | None:
    """Return the lowest risk between `above` and 1, in steps of 0.01, that these labels guarantee, or None."""
    risks = (round(step * RISK_STEP, 2) for step in range(math.floor(above / RISK_STEP + 1e-9) + 1, 100))
    return next((risk for risk in risks if guaranteed(curve, risk, certainty, anytime=anytime) is not None), None)


def labels_needed(curve: RiskCoverage, risk: float, certainty: float, *, anytime: bool = False) -> int | None:
    """Return the number of labels for a guarantee of a risk, if further labels are like the present ones.

    A guarantee at a threshold needs a number of labels of accepted answers. This number is divided by the coverage,
    because only this share of the labels falls on accepted answers. The result is the smallest quotient over all
    thresholds whose share of wrong answers lies below the risk. Without labels, the confidences give the share of wrong
    answers. Further labels count as independent. None if the result is not above the present number of labels, or is
    above `MOST_NEEDED`.
    """
    shares = curve.risk if curve.total else curve.expected
    counted = curve.labels >= min(5, curve.total)  # shares of one or two labels are unreliable
    counted &= curve.coverage >= (ANYTIME_STARTS[0] if anytime else 0.0)
    hopeful = np.flatnonzero(counted & (shares < risk))
    totals = []
    for index in hopeful[:: max(1, len(hopeful) // 50)]:
        accepted = _fewest_with_errors(float(shares[index]), risk, certainty, anytime=anytime)
        totals.append(math.ceil(accepted / curve.coverage[index]))
    least = math.ceil(min(totals, default=0) - curve.total_worth) + curve.total
    return least if curve.total < least <= MOST_NEEDED else None


def estimated(curve: RiskCoverage, risk: float, *, from_labels: bool = False) -> Threshold | None:
    """Return the threshold of the largest coverage whose estimated risk is at most `risk`, or None.

    The estimate is the mean of 1 - confidence over the accepted answers. With `from_labels`, the estimate is the share
    of wrong answers among accepted labelled answers, down to the lowest confidence with a label.
    """
    check_finite("risk", risk, 0.0 <= risk <= 1.0, "lie in [0, 1]")
    within = np.flatnonzero((curve.risk if from_labels else curve.expected) <= risk + 1e-12)
    if from_labels:
        within = within[within <= np.searchsorted(curve.labels, curve.total)]
    return _last(curve, within)


def _last(curve: RiskCoverage, indices: npt.NDArray[np.intp]) -> Threshold | None:
    """Return the threshold at the last index at which a number on each scale separates accepted from rejected answers.

    Two confidences may differ by less than the rounding of a scale. All `indices` passed their tests, so the choice
    among them keeps the guarantee.
    """
    found = (threshold_at(curve, int(index)) for index in reversed(indices))
    return next((threshold for threshold in found if not math.isnan(threshold.value)), None)


def threshold_at(curve: RiskCoverage, index: int) -> Threshold:
    """Return the threshold at an index of the curve; all its values are nan if no number separates the answers."""
    lowest = float(curve.confidence[index])
    below = float(curve.confidence[index + 1]) if index + 1 < len(curve.confidence) else None
    gaps = {name: (None if below is None else scale(below), scale(lowest)) for name, scale in curve.scales.items()}
    separable = all(under is None or under < least for under, least in gaps.values())
    value = separating(*gaps[None][::-1]) if separable else math.nan
    domains = {
        name: value if under is None or not separable or under < value <= least else separating(least, under)
        for name, (under, least) in gaps.items()
        if name is not None
    }
    return Threshold(
        value=value,
        domains=domains,
        uncalibrated=lowest_reaching(curve.scales[None], value),
        coverage=float(curve.coverage[index]),
        labels=int(curve.labels[index]),
        wrong=int(curve.wrong[index]),
        worth=float(curve.worth[index]),
        expected=float(curve.expected[index]),
    )


def separating(accepted: float, rejected: float | None) -> float:
    """Return the shortest decimal, of at least two places, in (`rejected`, `accepted`]; 0 without `rejected`.

    >>> separating(0.8712, 0.8298), separating(0.83123, 0.83119), separating(0.4, None)
    (0.85, 0.8312, 0.0)
    """
    if rejected is None:
        return 0.0
    middle = (accepted + rejected) / 2
    rounded = (round(middle, digits) for digits in range(2, 17))
    return next((decimal for decimal in rounded if rejected < decimal <= accepted), accepted)


def lowest_reaching(scale: Scale, value: float) -> float:
    """Return the lowest confidence in [0, 1] that reaches a value on an increasing scale, or `ABOVE_ALL`.

    >>> lowest_reaching(float, 0.8), lowest_reaching(lambda c: c / 2, 0.4), lowest_reaching(lambda c: c / 2, 0.7) > 1
    (0.8, 0.8, True)
    """
    below, reaching = 0.0, 1.0
    if scale(below) >= value or not scale(reaching) >= value:
        return below if scale(below) >= value else ABOVE_ALL
    while below < (middle := (below + reaching) / 2) < reaching:
        below, reaching = (below, middle) if scale(middle) >= value else (middle, reaching)
    return reaching


def check_level(risk: float, certainty: float) -> None:
    """Raise a ParameterError for a risk outside [1e-9, 1) or a certainty outside (0, 1)."""
    rule = f"be at least {LEAST_RISK:g} and below 1 (no number of labels shows that all answers are right)"
    check_finite("risk", risk, LEAST_RISK <= risk < 1.0, rule)
    check_finite("certainty of a guarantee", certainty, 0.0 < certainty < 1.0, "lie above 0 and below 1")
