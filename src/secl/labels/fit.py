"""Bayesian Platt scaling in logits, with domains that share what they learn.

    c' = sigmoid(a logit(c) + b + d_k),    a ~ N(1, slope^2), b ~ N(0, shift^2), d_k ~ N(0, domains^2) for each domain k

Labels that people volunteered show right answers less often, or more often, than there are: theirs have another shift,
N(0, choice^2), which no confidence gets. So they tell of the order of confidences and of domains, and of the level what
the labels that were asked for leave open; alone, little.

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

DOMAINS = 50
"""Domains with a shift of their own: those with the most labels, of equal ones those labelled first.

A client may send anything as a domain, even one for each user, and a fit takes the cube of their number.
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
        domains: number of each domain's parameter; domains without labels, or beyond `DOMAINS`, have none.
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
    """How much each label counts: less with age, and more the less likely it was to be asked for.

    Inverse chances undo the choice of what was asked about, among the labels of one source. They add up to no more than
    they are worth: to Kish's effective number of labels, (sum w)^2 / sum w^2. A review draws with a chance that is
    equal for all and that nobody knows, so its labels are not weighed against feedback with chances. Labels whose
    chance nobody knows count once.
    """
    worth = np.ones(len(labels))
    for source in {label.source for label in labels}:
        drawn = np.array([label.source == source and label.chance is not None for label in labels], dtype=np.bool_)
        if drawn.any():
            inverse = np.array([1.0 / (label.chance or 1.0) for label in labels])[drawn]
            worth[drawn] = inverse * inverse.sum() / (inverse**2).sum()
    return np.asarray(worth * decay ** np.arange(len(labels) - 1, -1, -1))


def fit(labels: Sequence[Label], prior: Prior, decay: float) -> Scaling:
    """The Gaussian after some labels, the oldest first; without any, the prior."""
    most = Counter(label.domain for label in labels).most_common(DOMAINS)
    domains = {name: 3 + k for k, name in enumerate(sorted(name for name, _ in most))}
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
    spread = tuple(tuple(map(float, line)) for line in covariance)
    return Scaling(prior, domains, tuple(map(float, theta)), spread, evidence)
