"""The map from label-free to calibrated confidences, fitted to labels, and the confidences of a labelled run.

The calibrated confidence is the scale that people see; a threshold that people type is on this scale, too.

The map is Bayesian Platt scaling in logits, with partial pooling of domains:

    c' = sigmoid(a logit(c) + b + d_k),    a ~ N(1, slope^2), b ~ N(0, shift^2), d_k ~ N(0, domains^2) for each domain k

Volunteers may prefer to label wrong answers, or right answers. Volunteers' labels therefore have a shift of their own,
with the prior N(0, choice^2). The map leaves out this shift, so volunteers' labels inform the slope and the differences
between domains, but hardly the level. A Gaussian at the maximum approximates the posterior of (a, b, d) (Laplace). The
map averages over a narrow and a wide prior, weighted by their marginal likelihoods. So a few labels hardly change a
good confidence, but quickly repair a bad one.

The map of each domain is strictly increasing, so a threshold on one scale is a threshold on the other. A new label
moves the map and with it the calibrated value of a threshold, but not the label-free value, nor any accepted answer.
"""

from __future__ import annotations

import functools
import logging
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from secl.errors import ParameterError
from secl.evidence import CalibratedConfidence
from secl.labels.label import Label, random_order, standing
from secl.metrics.probability import Vector
from secl.metrics.recalibration import fit_logistic
from secl.metrics.risk_control import ABOVE_ALL, PLAIN, Scale, lowest_reaching, risk_bound, separating
from secl.records import Record

BAND = 0.9
"""Probability of the credible interval of a calibrated confidence."""

DECAY = 0.999
"""Weight of a label, relative to the weight of the next newer label."""

MOST_FITTED = 5000
"""A fit uses the latest labels, at most this number; older labels would have a weight below 0.01."""

FOLDS = 5
"""Number of folds of a run's labels; the map for a fold is fitted to the labels of the other folds."""

CLIP = 1e-3
"""Distance from 0 and 1 at which `log_odds` becomes linear, so that one label has a limited effect."""

FLATTEST = 0.05
"""Smallest slope of a map. Labels may contradict the ranking, but thresholds need an increasing map."""

FIXED = 1e-6
"""Standard deviation of a slope that is held at `FLATTEST`."""

NEAR = 0.1
"""Largest difference of the calibrated confidences of an answer and of near labels (`CalibratedConfidence.near`)."""

FEWEST_OF_DOMAIN, MOST_DOMAINS = 3, 50
"""Minimum number of labels for a domain's own shift; maximum number of domains with their own shifts.

Labels of a single domain move all domains alike: they do not show how domains differ.
If more domains have enough labels, only the domains with the most labels have their own shifts.

Shifts help if domains differ by half a logit or more; otherwise they cost less than .001 of Brier score
(docs/lab/log.md). The time of a fit grows with the cube of the number of domains.
"""

log = logging.getLogger("secl.labels")


@dataclass(frozen=True, slots=True)
class Prior:
    """Standard deviations of the slope and of three shifts.

    `shift` applies to all labels, `domains` to one domain, `choice` to labels of volunteers.
    """

    slope: float
    shift: float
    domains: float
    choice: float


WIDE = Prior(slope=0.4, shift=0.8, domains=0.5, choice=2.0)
"""Prior for confidences that need calibration."""

NARROW = Prior(slope=0.1, shift=0.2, domains=0.125, choice=2.0)
"""Prior for calibrated confidences: a quarter of the deviations of `WIDE`, except for `choice`."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """A Gaussian over the parameters: slope, shift, shift of volunteers' labels, and one shift for each domain.

    Attributes:
        domains: index of each domain's shift among the parameters; contains only the domains with their own shift.
        only: the domain of all labels, if they have the same domain; None otherwise. The common shift then includes the
            shift of this domain, so that all domains share one map.
        mean, covariance: of the parameters.
        evidence: logarithm of the probability of the labels under the prior (Laplace).
    """

    prior: Prior
    domains: Mapping[str, int]
    only: str | None
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    evidence: float

    def logit(self, domain: str, confidence: float) -> tuple[float, float]:
        """Return mean and standard deviation of the logit of a calibrated confidence."""
        odds, row = log_odds(confidence), np.zeros(len(self.mean))
        row[0], row[1] = odds, 1.0
        own = self.domains.get(domain)
        if own is not None:
            row[own] = 1.0
        # The shift of a domain without labels is unknown. If all labels have one domain, its shift is unknown, too.
        unknown = 0 if own is not None or domain == self.only else 1 if self.only is None else 2
        variance = float(row @ np.array(self.covariance) @ row) + unknown * self.prior.domains**2
        return self.centre(domain, odds), math.sqrt(variance)

    def centre(self, domain: str | None, odds: float) -> float:
        """Return the mean logit of a calibrated confidence; None stands for a domain without a shift of its own."""
        own = None if domain is None else self.domains.get(domain)
        return self.mean[0] * odds + self.mean[1] + (0.0 if own is None else self.mean[own])


def fit(labels: Sequence[Label], prior: Prior, decay: float) -> Scaling:
    """Return the Gaussian fitted to labels, the oldest first; without labels, return the prior."""
    most = Counter(label.domain for label in labels).most_common(MOST_DOMAINS)
    only = most[0][0] if len(most) == 1 else None
    often = sorted(name for name, n in most if n >= FEWEST_OF_DOMAIN and name != only)
    domains = {name: 3 + k for k, name in enumerate(often)}
    rows = np.zeros((len(labels), 3 + len(domains)))
    rows[:, 1] = 1.0
    for row, label in zip(rows, labels, strict=True):
        row[0], row[2] = log_odds(label.confidence), label.chance is None
        if (own := domains.get(label.domain)) is not None:
            row[own] = 1.0
    correct = np.array([bool(label.correct) for label in labels], dtype=np.float64)
    shift = prior.shift if only is None else math.hypot(prior.shift, prior.domains)
    deviations = np.array([prior.slope, shift, prior.choice, *[prior.domains] * len(domains)])
    mean = np.zeros(len(deviations))
    mean[0] = 1.0
    weights = label_weights(labels, decay)
    theta, loss, curvature = fit_logistic(rows, correct, weights, mean, deviations**-2.0)
    evidence = -loss - float(np.log(deviations).sum()) - float(np.linalg.slogdet(curvature)[1]) / 2.0
    if not math.isfinite(evidence):
        raise np.linalg.LinAlgError("the marginal likelihood of the labels is not finite")
    if theta[0] < FLATTEST:
        mean[0], deviations[0] = FLATTEST, FIXED
        theta, _, curvature = fit_logistic(rows, correct, weights, mean, deviations**-2.0)
    covariance = np.linalg.inv(curvature)
    return Scaling(prior, domains, only, tuple(theta.tolist()), tuple(map(tuple, covariance.tolist())), evidence)


def label_weights(labels: Sequence[Label], decay: float) -> Vector:
    """Return the weight of each label: lower if the label is older, or if its answer was more likely to be labelled.

    Among the labels of one source, weights are inverse chances (`Label.chance`), scaled to sum to Kish's effective
    number of labels, (sum w)^2 / sum w^2. Labels without a chance have weight 1. The decay with age applies to all.
    """
    worth = np.ones(len(labels))
    for source in {label.source for label in labels}:
        drawn = np.array([label.source == source and label.chance is not None for label in labels], dtype=np.bool_)
        if drawn.any():
            chances = np.array([label.chance or 1.0 for label in labels])[drawn]
            inverse = chances.min() / chances  # scaled to at most 1, so that no square overflows
            worth[drawn] = inverse * inverse.sum() / (inverse**2).sum()
    return np.asarray(worth * decay ** np.arange(len(labels) - 1, -1, -1))


def log_odds(confidence: float) -> float:
    """Return log(c / (1 - c)) of a confidence c. Beyond [`CLIP`, 1 - `CLIP`], the tangent continues the curve.

    So the result is strictly increasing, and lies between -7.91 and 7.91.
    """
    clipped = min(max(confidence, CLIP), 1.0 - CLIP)
    return math.log(clipped / (1.0 - clipped)) + (confidence - clipped) / (CLIP * (1.0 - CLIP))


@dataclass(frozen=True, slots=True)
class LabelState:
    """The calibration by labels, which depends only on the valid labels.

    Without labels, each prior has the probability 1/2. If a fit fails, confidences stay unchanged, with a warning in
    the log.

    Attributes:
        carried: labels of an earlier run; they count as older than `standing`.
        standing: the valid labels of this stream, the oldest first.
        of_domain: number of labels of each domain.
        until: number of the latest entry of the log; 0 before the first.
        scalings: the fits under the narrow and the wide prior.
        sound: probability of the narrow prior, which assumes that label-free confidences are nearly calibrated.
        sample: calibrated confidence and grade of the labels of the largest random sample, in rising order.
    """

    carried: tuple[Label, ...]
    standing: tuple[Label, ...]
    of_domain: Mapping[str, int]
    until: int
    scalings: tuple[Scaling, Scaling]
    sound: float
    sample: tuple[tuple[float, bool], ...] = ()

    @classmethod
    def start(cls, carried: Sequence[Label] = ()) -> LabelState:
        """Return the state before the first label, with the labels of an earlier run."""
        return cls._of(tuple(carried), (), 0)

    @classmethod
    def _of(cls, carried: tuple[Label, ...], own: tuple[Label, ...], until: int) -> LabelState:
        labels = (*carried, *own)
        scalings = _unlabelled()
        try:
            with np.errstate(invalid="raise"):
                scalings = _scalings(labels[-MOST_FITTED:]) if labels else scalings
        except (np.linalg.LinAlgError, FloatingPointError) as problem:
            log.warning("%d labels cannot be fitted (%s), so secl ignores all labels", len(labels), problem)
        narrow, wide = scalings
        counts = Counter(label.domain for label in labels)
        state = cls(carried, own, counts, until, scalings, _sigmoid(narrow.evidence - wide.evidence))
        kinds = Counter((each.source, each.chance) for each in labels if each.chance).most_common(1)
        drawn = [label for label in labels for kind, _ in kinds if (label.source, label.chance) == kind]
        graded = sorted((state.calibrated(each.domain, each.confidence), bool(each.correct)) for each in drawn)
        return replace(state, sample=tuple(graded))

    def add(self, labels: Iterable[Label]) -> LabelState:
        """Return the state after more entries of the log."""
        entries = tuple(labels)
        if not entries:
            return self
        return self._of(self.carried, standing((*self.standing, *entries)), entries[-1].number)

    def without(self, positions: Collection[int]) -> LabelState:
        """Return the state without the labels of the answers at these positions."""
        rest = tuple(label for label in self.standing if label.position not in positions)
        return self._of(self.carried, rest, self.until)

    def calibrated(self, domain: str | None, confidence: float) -> float:
        """Return the calibrated confidence for a label-free confidence in [0, 1].

        None stands for a domain without a shift of its own.
        """
        if self.scalings is _unlabelled():
            return confidence
        odds, shares = log_odds(confidence), (self.sound, 1.0 - self.sound)
        return sum(s * _sigmoid(fit.centre(domain, odds)) for s, fit in zip(shares, self.scalings, strict=True))

    @property
    def scales(self) -> Mapping[str | None, Scale]:
        """The maps from label-free to calibrated confidences, as in `secl.metrics.risk_control.RiskCoverage`."""
        if self.scalings is _unlabelled():
            return PLAIN
        names: tuple[str | None, ...] = (None, *self.scalings[0].domains)
        return {name: functools.partial(self.calibrated, name) for name in names}

    def uncalibrated(self, accept: float) -> float:
        """Return the label-free value of a threshold on the scale of the domains without a shift of their own.

        Raises:
            ParameterError: `accept` lies outside [0, 1].
        """
        if not 0.0 <= accept <= 1.0:
            raise ParameterError(f"accept is {accept}; it must be a confidence from 0 to 1, or None.")
        return lowest_reaching(self.scales[None], accept)

    def accept(self, threshold: float, domain: str | None = None) -> float:
        """Return the calibrated value of a label-free threshold: the shortest decimal with this label-free value."""
        if not 0.0 < threshold < ABOVE_ALL:
            return min(threshold, 1.0)
        below = math.nextafter(threshold, 0.0)
        return separating(self.calibrated(domain, threshold), self.calibrated(domain, below))

    def rate(self, domain: str, confidence: float, threshold: float | None = None) -> CalibratedConfidence:
        """Return the calibrated confidence for a label-free confidence in [0, 1], with its band.

        An undefined confidence (nan) stays undefined. `threshold`: lowest accepted label-free confidence.
        """
        parts = [scaling.logit(domain, confidence) for scaling in self.scalings]
        shares = (self.sound, 1.0 - self.sound)
        low, high = (_quantile(shares, parts, share) for share in ((1.0 - BAND) / 2.0, (1.0 + BAND) / 2.0))
        calibrated = self.calibrated(domain, confidence)
        accept = None
        if threshold is not None:
            # The map may round two confidences to one number. The bounds keep the comparison exact.
            accept, above = self.accept(threshold, domain), math.nextafter(calibrated, 2.0)
            accept = min(accept, calibrated) if confidence >= threshold else max(accept, above)
        first = bisect_left(self.sample, calibrated - NEAR, key=itemgetter(0))
        last = bisect_right(self.sample, calibrated + NEAR, key=itemgetter(0))
        near = () if math.isnan(confidence) else self.sample[first:last]
        return CalibratedConfidence(
            uncalibrated=confidence,
            calibrated=calibrated,
            low=min(calibrated, _sigmoid(low)),  # near 0 and 1, the mean of two maps may lie outside the band
            high=max(calibrated, _sigmoid(high)),
            labels=len(self.carried) + len(self.standing),
            of_domain=self.of_domain.get(domain, 0),
            until=self.until,
            near=len(near),
            near_right=sum(right for _, right in near),
            accept=accept,
        )

    def apply(self, record: Record) -> Record:
        """Return a record with its confidence and its threshold on the scale of these labels.

        The labels move the facts of a text, and a text that is not compared as a whole only through its facts.
        """
        if record.facts is not None:
            facts = tuple(self.apply(replace(fact, threshold=record.threshold)) for fact in record.facts)
            record = replace(record, facts=facts)
            if record.parts is not None:
                return record
        return replace(
            record, labelled=self.rate(record.question.domain, record.confidences.uncalibrated, record.threshold)
        )


def observed(labelled: CalibratedConfidence) -> tuple[float, float] | None:
    """Return the exact 90% interval of the accuracy of answers near a confidence; None without labels near it.

    The interval needs no assumption about the map, in contrast to `CalibratedConfidence.low` and
    `CalibratedConfidence.high`.
    """
    if not labelled.near:
        return None
    ends = risk_bound([labelled.near - labelled.near_right, labelled.near_right], labelled.near, (1.0 + BAND) / 2.0)
    return 1.0 - float(ends[0]), float(ends[1])


def held_out(records: Iterable[Record], log: Iterable[Label], carried: Sequence[Label] = ()) -> Iterator[Record]:
    """Yield records for measures of calibration: no label moves the confidence of an answer in its fold.

    A labelled answer gets the map fitted to the other folds (`FOLDS`), so that measures of calibration on labelled
    answers are nearly unbiased (docs/lab/log.md). The maps of the folds change the order of answers, so measures of
    ranking must use `Confidences.uncalibrated`, and people see the one map of all labels (`LabelState.apply`).
    """
    state = LabelState.start(carried).add(log)
    drawn = random_order({label.position for label in state.standing}, 0)
    folds = [drawn[first::FOLDS] for first in range(min(FOLDS, len(drawn)))]
    map_of = {position: held for fold in folds for held in [state.without(frozenset(fold))] for position in fold}
    for record in records:
        yield map_of.get(record.position, state).apply(record)


def _scalings(labels: tuple[Label, ...]) -> tuple[Scaling, Scaling]:
    return fit(labels, NARROW, DECAY), fit(labels, WIDE, DECAY)


@functools.cache
def _unlabelled() -> tuple[Scaling, Scaling]:
    return _scalings(())


def _quantile(shares: tuple[float, float], parts: list[tuple[float, float]], share: float) -> float:
    """Return a quantile of a mixture of Gaussians: `parts` are (mean, standard deviation), `shares` their weights."""
    from scipy.optimize import brentq
    from scipy.special import ndtr  # another ndtr would change the last digits of stored intervals

    if any(math.isnan(mean) for mean, _ in parts):
        return math.nan

    def below(z: float) -> float:
        return float(sum(p * ndtr((z - mean) / sd) for p, (mean, sd) in zip(shares, parts, strict=True))) - share

    low = min(mean - 10.0 * sd for mean, sd in parts)
    high = max(mean + 10.0 * sd for mean, sd in parts)
    return float(brentq(below, low, high, xtol=1e-12))


def _sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))
