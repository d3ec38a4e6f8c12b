"""Bayesian Platt scaling in logits, with domains that share what they learn.

    c' = sigmoid(a logit(c) + b + d_k),    a ~ N(1, slope^2), b ~ N(0, shift^2), d_k ~ N(0, domains^2) for each domain k

Volunteers label wrong answers more often than right ones, or less often. Their labels have another shift,
N(0, choice^2), which no confidence gets. So they inform the slope and the differences between domains, and hardly the
level.

The posterior of (a, b, d) is approximated by a Gaussian at its maximum (Laplace). Two such priors are weighed against
each other by their evidence: a narrow one, for confidences that are right as they are, and a wide one, for those that
are not; so that few labels spoil little of a good confidence and repair a bad one quickly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.labels.label import Label

Array = npt.NDArray[np.float64]

EPSILON = 1e-3
"""Confidences are kept this far from 0 and 1 before the logit, so that one label cannot be infinitely surprising."""

NARROW = 0.25
"""Standard deviations of the narrow prior, as a share of those of the wide one."""

FEWEST_OF_DOMAIN, DOMAINS = 3, 50
"""Labels from which a domain has a shift of its own, and the most domains that have one: those with the most labels.

Shifts pay where domains differ by half a logit or more; where they do not, they cost less than .001 of Brier score
(`python -m benchmarks.label_maps`). A client may send a domain for each of its users, and the time of a fit grows with
the cube of their number.
"""

STEPS, TOLERANCE = 100, 1e-12
"""Newton's method ends after so many steps, or when no parameter moves by more."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Standard deviations of slope, shift, a domain's own shift and the shift of what people volunteer, in logits."""

    slope: float
    shift: float
    domains: float
    choice: float

    @property
    def narrow(self) -> Prior:
        """That of confidences that are right as they are."""
        return Prior(NARROW * self.slope, NARROW * self.shift, NARROW * self.domains, self.choice)


@dataclass(frozen=True, slots=True)
class Scaling:
    """A Gaussian over slope, shift and the shifts of domains.

    Attributes:
        prior: that it began with.
        domains: index of each domain's parameter; domains with too few labels, or beyond `DOMAINS`, have none.
        mean: of the parameters: slope, shift, that of what people volunteer, one for each domain.
        covariance: of the parameters.
        evidence: logarithm of the probability of the labels under the prior (Laplace).
    """

    prior: Prior
    domains: Mapping[str, int]
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    evidence: float

    def logit(self, domain: str, confidence: float) -> tuple[float, float]:
        """Mean and standard deviation of the logit that a confidence is mapped to."""
        row = np.zeros(len(self.mean))
        row[0], row[1] = log_odds(confidence), 1.0
        own = self.domains.get(domain)
        if own is not None:
            row[own] = 1.0
        variance = float(row @ np.array(self.covariance) @ row) + (0.0 if own is not None else self.prior.domains**2)
        return float(row @ np.array(self.mean)), math.sqrt(variance)


def log_odds(confidence: float) -> float:
    """log(c / (1 - c)) of a confidence, kept `EPSILON` from 0 and 1."""
    clipped = min(max(confidence, EPSILON), 1.0 - EPSILON)
    return math.log(clipped / (1.0 - clipped))


def label_weights(labels: Sequence[Label], decay: float) -> Array:
    """Return the weight of each label: smaller with age, and larger the less likely the answer was to be labelled.

    Inverse chances undo the choice of answers, among the labels of one source. They sum to Kish's effective number of
    labels, (sum w)^2 / sum w^2. A review draws with an equal but unknown chance, so its labels are not weighed against
    feedback with chances. Labels without a chance have weight 1.
    """
    worth = np.ones(len(labels))
    for source in {label.source for label in labels}:
        drawn = np.array([label.source == source and label.chance is not None for label in labels], dtype=np.bool_)
        if drawn.any():
            chances = np.array([label.chance or 1.0 for label in labels])[drawn]
            inverse = chances.min() / chances  # relative to the largest, so that no square overflows
            worth[drawn] = inverse * inverse.sum() / (inverse**2).sum()
    return np.asarray(worth * decay ** np.arange(len(labels) - 1, -1, -1))


def fit(labels: Sequence[Label], prior: Prior, decay: float) -> Scaling:
    """Return the Gaussian after some labels, the oldest first; without any, the prior.

    Raises:
        numpy.linalg.LinAlgError: the numbers of the fit are not finite.
    """
    most = Counter(label.domain for label in labels).most_common(DOMAINS)
    domains = {name: 3 + k for k, name in enumerate(sorted(name for name, n in most if n >= FEWEST_OF_DOMAIN))}
    rows = np.zeros((len(labels), 3 + len(domains)))
    rows[:, 1] = 1.0
    for number, label in enumerate(labels):
        rows[number, 0] = log_odds(label.confidence)
        if (own := domains.get(label.domain)) is not None:
            rows[number, own] = 1.0
        rows[number, 2] = label.chance is None
    right = np.array([bool(label.correct) for label in labels], dtype=np.float64)
    deviations = np.array([prior.slope, prior.shift, prior.choice, *[prior.domains] * len(domains)])
    return _laplace(rows, right, label_weights(labels, decay), deviations, prior, domains)


def _laplace(
    rows: Array, right: Array, weights: Array, deviations: Array, prior: Prior, domains: Mapping[str, int]
) -> Scaling:
    from scipy.special import expit

    start = np.zeros(len(deviations))
    start[0] = 1.0
    precision = np.diag(deviations**-2.0)

    def loss(theta: Array) -> float:
        z, away = rows @ theta, theta - start
        surprise = np.logaddexp(0.0, -z) * right + np.logaddexp(0.0, z) * (1.0 - right)
        return float(weights @ surprise + away @ precision @ away / 2.0)

    def curvature(theta: Array) -> Array:
        p = expit(rows @ theta)
        return np.asarray((rows * (weights * p * (1.0 - p))[:, None]).T @ rows + precision)

    theta, at = start, loss(start)
    for _ in range(STEPS):
        slope = rows.T @ (weights * (expit(rows @ theta) - right)) + precision @ (theta - start)
        step, share = np.linalg.solve(curvature(theta), slope), 1.0
        while (after := loss(theta - share * step)) > at and share > TOLERANCE:
            share /= 2.0  # the loss is convex, but a whole step can go too far
        theta, at = theta - share * step, after
        if np.abs(share * step).max() <= TOLERANCE:
            break
    covariance = np.linalg.inv(curvature(theta))
    evidence = -at - float(np.log(deviations).sum()) + float(np.linalg.slogdet(covariance)[1]) / 2.0
    if not math.isfinite(evidence):
        raise np.linalg.LinAlgError("the evidence of the labels is not finite")
    spread = tuple(tuple(map(float, line)) for line in covariance)
    return Scaling(prior, domains, tuple(map(float, theta)), spread, evidence)
