"""Which answers may be accepted, so that no more than a given share of them is wrong: from labels, exactly.

Answers are accepted from a threshold of the confidence upwards. Coverage is the share of all answers that is accepted,
risk the share of the accepted ones that is wrong. Of n labelled answers that are accepted, k wrong ones reject "the
risk is above r" at level delta if P(Binomial(n, r) <= k) <= delta: if the Clopper-Pearson upper bound is r at most.

Many thresholds are tried, so they are tested in a fixed order (Learn then Test, Angelopoulos et al. 2021, arXiv
2110.01052): from the strictest one down, each at the whole delta, until the first that fails. The chance that any of
those which passed has a risk above r is delta at most, whatever the confidences are worth: they choose where the walk
begins and how many it accepts, and what is promised rests on the labels alone. It holds for answers that are
exchangeable with the labelled ones, and if these are a random sample of them, drawn without looking at the answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.errors import check_finite
from secl.metrics.graded import Vector, graded

STEP = 0.02
"""Coverage between two thresholds that are tested."""

PART, MOST = 5, 100
"""The first test is made with a 5th of the labels and with 100 at most, or a single unlucky one would end the walk."""

MOST_NEEDED, LIMIT = 10**6, 10**12
"""Labels beyond which it is said that no number would do, and beyond which none is looked for."""

NEAREST = 0.01
"""Risks are searched in steps of this."""


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """What is accepted at each distinct confidence, the highest first: arrays of one length, and the number of answers.

    Attributes:
        confidence: lowest accepted confidence.
        coverage: share of all answers, in (0, 1].
        labels, wrong: labelled answers among the accepted ones, and wrong ones among these.
        expected: risk by the confidences alone, the mean of 1 - confidence over the accepted answers.
        answers: answers with and without a label.
    """

    confidence: Vector
    coverage: Vector
    labels: npt.NDArray[np.intp]
    wrong: npt.NDArray[np.intp]
    expected: Vector
    answers: int

    @property
    def total(self) -> int:
        """All labels."""
        return int(self.labels[-1]) if self.labels.size else 0

    @property
    def risk(self) -> Vector:
        """Share of wrong ones among the accepted labelled answers; nan where none is labelled."""
        share: Vector = np.full(len(self.labels), math.nan)
        np.divide(self.wrong, self.labels, out=share, where=self.labels > 0)
        return share


@dataclass(frozen=True, slots=True)
class Threshold:
    """A confidence from which answers are accepted.

    Attributes:
        value: the shortest decimal that keeps accepted and rejected answers apart; 0 accepts all of them.
        coverage: share of all answers that is accepted.
        labels, wrong: labelled answers among them, and wrong ones among these.
        expected: share of wrong ones by the confidences alone.
    """

    value: float
    coverage: float
    labels: int
    wrong: int
    expected: float


def risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RiskCoverage:
    """The curve of n answers.

    Args:
        confidence: n probabilities in [0, 1].
        correct: n grades, 1 or 0, and nan for an answer without a label.

    Raises:
        ParameterError: lists of different lengths, or other values.

    >>> curve = risk_coverage([0.9, 0.8, 0.8, 0.2], [1, 0, float("nan"), 0])
    >>> curve.coverage.tolist(), curve.labels.tolist(), curve.risk.tolist()
    ([0.25, 0.75, 1.0], [1, 2, 3], [0.0, 0.5, 0.6666666666666666])
    """
    labelled = ~np.isnan(np.asarray(correct, np.float64))
    confidences, grades = graded(confidence, np.where(labelled, correct, 0.0))
    distinct, index = np.unique(-confidences, return_inverse=True)
    sizes = np.cumsum(np.bincount(index, minlength=distinct.size))

    def summed(weights: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        return np.cumsum(np.bincount(index[weights], minlength=distinct.size))

    return RiskCoverage(
        confidence=-distinct,
        coverage=sizes / max(1, confidences.size),
        labels=summed(labelled),
        wrong=summed(labelled & (grades == 0)),
        expected=np.cumsum(np.bincount(index, 1 - confidences, distinct.size)) / np.maximum(sizes, 1),
        answers=confidences.size,
    )


def risk_bound(wrong: npt.ArrayLike, labels: npt.ArrayLike, certainty: float) -> Vector:
    """The exact upper bound (Clopper and Pearson 1934) of a risk, at a certainty in (0, 1); 1 without labels.

    >>> float(risk_bound(0, 22, 0.9).round(4)), float(risk_bound(1, 38, 0.9).round(4)), float(risk_bound(3, 3, 0.9))
    (0.0994, 0.0985, 1.0)
    """
    from scipy.stats import beta

    k, n = np.broadcast_arrays(np.asarray(wrong, np.float64), np.asarray(labels, np.float64))
    some = k < n
    bound: Vector = np.where(some, beta.ppf(certainty, k + 1, np.where(some, n - k, 1)), 1.0)
    return bound


def fewest_labels(risk: float, certainty: float) -> int:
    """The fewest accepted labelled answers, all of them right, that show a risk of `risk` at most.

    >>> fewest_labels(0.1, 0.9)
    22
    """
    check_level(risk, certainty)
    return _fewest(0.0, 1, risk, certainty)


def _fewest(share: float, first: int, risk: float, certainty: float) -> int:
    """The fewest accepted labels, this share of them wrong, that show a risk; `first` is tried first."""

    def holds(labels: int) -> bool:
        return bool(risk_bound(math.ceil(share * labels), labels, certainty) <= risk)

    low, high = 0, first
    while not holds(high) and high < LIMIT:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def guaranteed(curve: RiskCoverage, risk: float, certainty: float) -> Threshold | None:
    """The threshold of the largest coverage whose risk is `risk` at most, with this certainty; None if none passes.

    What is tested, and in which order, depends on the confidences of all answers and on the number of labels, never on
    which answers have one: the walk begins where as many labels are to be expected as a first test needs.

    Raises:
        ParameterError: a risk or a certainty outside (0, 1).
    """
    tested = _walk(curve, risk, certainty)
    if not tested.size:
        return None
    failed = np.flatnonzero(risk_bound(curve.wrong[tested], curve.labels[tested], certainty) > risk)
    passed = tested[: failed[0]] if failed.size else tested
    return threshold_at(curve, int(passed[-1])) if passed.size else None


def _walk(curve: RiskCoverage, risk: float, certainty: float) -> npt.NDArray[np.intp]:
    """Places on the curve to test, in order; none where the labels could not show that risk even without an error."""
    labels, fewest = curve.total, fewest_labels(risk, certainty)
    if labels < fewest:
        return np.zeros(0, np.intp)
    first = max(fewest, min(labels // PART, MOST))
    expected = labels * curve.coverage
    # The spread of a sample without replacement: none where every answer has a label.
    spread = np.sqrt(expected * (1 - curve.coverage) * (1 - labels / curve.answers))
    enough = expected - 2 * spread >= first - 1e-9
    # Where everything is accepted, every label counts, and there is no spread.
    start = int(np.argmax(enough)) if enough.any() else len(enough) - 1
    tested, last = [start], len(enough) - 1
    while tested[-1] < last:
        following = int(np.searchsorted(curve.coverage, curve.coverage[tested[-1]] + STEP - 1e-9))
        tested.append(min(following, last))
    return np.array(tested)


def nearest_risk(curve: RiskCoverage, certainty: float, above: float = 0.0) -> float | None:
    """The lowest risk above `above`, in steps of 0.01, that these labels can promise; None below 1."""
    risks = (round(step * NEAREST, 2) for step in range(math.floor(above / NEAREST + 1e-9) + 1, 100))
    return next((risk for risk in risks if guaranteed(curve, risk, certainty) is not None), None)


def labels_needed(curve: RiskCoverage, risk: float, certainty: float) -> int | None:
    """How many labels it takes in all to promise a risk, if further ones are like those that are there.

    At each place with a share of wrong ones below the risk, the fewest accepted labels whose bound holds, over the
    coverage there; the least of them all. Not more than there are labels if a stricter threshold failed first. None
    where no place is below the risk, so that no number would do. Without any label, what the confidences expect stands
    for the share.
    """
    shares = curve.risk if curve.total else curve.expected
    counted = curve.labels >= min(5, curve.total)  # a place with a label or two tells nothing
    hopeful = np.flatnonzero(counted & (shares < risk))
    totals = []
    for index in hopeful[:: max(1, len(hopeful) // 50)]:
        accepted = _fewest(float(shares[index]), fewest_labels(risk, certainty), risk, certainty)
        totals.append(math.ceil(accepted / curve.coverage[index]))
    least = min(totals, default=None)
    return None if least is None or least > MOST_NEEDED else least


def estimated(curve: RiskCoverage, risk: float, *, from_labels: bool = False) -> Threshold | None:
    """The threshold of the largest coverage whose estimated risk is `risk` at most; None if there is none.

    The estimate is the mean of 1 - confidence of the accepted answers, as good as the confidences are, or the share of
    wrong ones among the labelled.
    """
    check_finite("risk", risk, 0.0 <= risk <= 1.0, "lie in [0, 1]")
    within = np.flatnonzero((curve.risk if from_labels else curve.expected) <= risk + 1e-12)
    return threshold_at(curve, int(within[-1])) if within.size else None


def threshold_at(curve: RiskCoverage, index: int) -> Threshold:
    """The threshold that accepts what the curve accepts at this place."""
    below = float(curve.confidence[index + 1]) if index + 1 < len(curve.confidence) else None
    return Threshold(
        value=separating(float(curve.confidence[index]), below),
        coverage=float(curve.coverage[index]),
        labels=int(curve.labels[index]),
        wrong=int(curve.wrong[index]),
        expected=float(curve.expected[index]),
    )


def separating(accepted: float, rejected: float | None) -> float:
    """The shortest decimal of two places or more above `rejected` and not above `accepted`; 0 if nothing is rejected.

    >>> separating(0.8712, 0.8298), separating(0.83123, 0.83119), separating(0.4, None)
    (0.85, 0.8312, 0.0)
    """
    if rejected is None:
        return 0.0
    middle = (accepted + rejected) / 2
    rounded = (round(middle, digits) for digits in range(2, 17))
    return next((value for value in rounded if rejected < value <= accepted), accepted)


def check_level(risk: float, certainty: float) -> None:
    """Check a risk and a certainty that are to be promised.

    Raises:
        ParameterError: one of them is not inside (0, 1).
    """
    rule = "lie above 0 and below 1"
    check_finite("risk", risk, 0.0 < risk < 1.0, f"{rule} (no number of labels shows that nothing is wrong)")
    check_finite("certainty of a promise", certainty, 0.0 < certainty < 1.0, rule)
